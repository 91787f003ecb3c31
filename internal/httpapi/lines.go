package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// Lines reads the lines that wait, and changes the limits of their keys. The errors of SetLimits are job.ErrChanged,
// job.ErrBadLimits, and those of a change.
type Lines interface {
	Lines(ctx context.Context, f job.LineFilter, limit int) (job.LinesNow, error)
	Limits(ctx context.Context, name string) (job.LineLimits, error)
	SetLimits(ctx context.Context, l job.LineLimits, version int64) (job.LineLimits, error)
}

// lineKeyBody names a key of lines on the wire: what the submits say, or whose submits said none; both null for the
// jobs without a key whose tier has lines by key.
type lineKeyBody struct {
	Key   *string `json:"key"`
	Owner *string `json:"owner"`
}

func lineKeyOf(name string) lineKeyBody {
	key, owner, err := job.LineKey(name)
	if err != nil {
		key = name
	}
	return lineKeyBody{orNull(key), orNull(owner)}
}

// lineBody is a line on the wire.
type lineBody struct {
	lineKeyBody
	Tier    job.Tier `json:"tier"`
	Queue   string   `json:"queue"`
	Waiting int64    `json:"waiting"`
	Running int      `json:"running"` // attempts of the key, in all its lines
	Share   float64  `json:"share"`   // of the worker time of all lines of its tier in the last five minutes
	Noisy   bool     `json:"noisy"`
	Parked  bool     `json:"parked"`
	Until   *string  `json:"until"`
}

// limitsBody has the limits of a key on the wire.
type limitsBody struct {
	lineKeyBody
	Running int            `json:"running"`
	Weight  int            `json:"weight"`
	Rate    float64        `json:"rate"`
	Burst   int            `json:"burst"`
	Waiting int            `json:"waiting"`
	Strict  bool           `json:"strict"`
	Paused  *linePauseBody `json:"paused"`
	Version int64          `json:"version"`
}

type linePauseBody struct {
	Since  *string `json:"since"`
	Until  *string `json:"until"`
	By     *string `json:"by"`
	Reason *string `json:"reason"`
}

func limitsOf(l *job.LineLimits, now time.Time) *limitsBody {
	b := &limitsBody{
		lineKeyBody: lineKeyOf(l.Name), Running: l.Running, Weight: max(l.Weight, 1), Rate: l.Rate, Burst: l.Burst,
		Waiting: l.Waiting, Strict: l.Strict, Version: l.Version,
	}
	if p := l.Paused; p != nil && !p.Over(now) {
		b.Paused = &linePauseBody{when(p.Since), when(p.Until), orNull(p.By), orNull(p.Reason)}
	}
	return b
}

// linesQuery is the query of /admin/lines.
type linesQuery struct {
	job.LineFilter
	limit int
	asked bool // for one key
	wrong error
}

// name sets which key is asked for.
func (q *linesQuery) name(name string) {
	if q.asked {
		q.wrong = invalid("owner", "excludes key")
	}
	q.Name, q.asked = name, true
}

func (q *linesQuery) setKey(v string) error {
	if len(v) > job.MaxLineKey || !utf8.ValidString(v) {
		return reason("must be a text of at most " + strconv.Itoa(job.MaxLineKey) + " bytes")
	}
	q.name(cmp.Or(job.LineOf(v), job.NoKey))
	return nil
}

func (q *linesQuery) setOwner(v string) error {
	if v == "" || len(v) > job.MaxLineKey {
		return reason("must be the id of an API key")
	}
	q.name(job.LineOfOwner(v))
	return nil
}

var (
	keyParams   = params[linesQuery]{"key": (*linesQuery).setKey, "owner": (*linesQuery).setOwner}
	linesParams = params[linesQuery]{
		"key": (*linesQuery).setKey, "owner": (*linesQuery).setOwner,
		"tier": func(q *linesQuery, v string) error {
			if q.Tier = tierNamed(v); q.Tier == "" {
				return reason("must be the name of a tier")
			}
			return nil
		},
		"queue": func(q *linesQuery, v string) error {
			if q.Queue = v; !job.IsQueueName(v) {
				return reason("must be the name of a queue")
			}
			return nil
		},
		"sort": func(q *linesQuery, v string) error {
			q.Order = job.LineOrder(v)
			if q.Order != job.ByWaiting && q.Order != job.ByRunning && q.Order != job.ByShare {
				return reason("must be waiting, running or share")
			}
			return nil
		},
		"limit": func(q *linesQuery, v string) (err error) {
			if q.limit, err = strconv.Atoi(v); err != nil || q.limit < 1 || q.limit > pageLimit {
				return reason("must be a whole number, 1 to " + strconv.Itoa(pageLimit))
			}
			return nil
		},
	}
)

// lines serves GET /admin/lines: the lines that wait, the longest first; with key or owner those of a key, and its
// limits.
func (a *api) lines(c *gin.Context) error {
	q := linesQuery{limit: 20}
	if err := cmp.Or(linesParams.read(c.Request.URL.RawQuery, &q), q.wrong); err != nil {
		return err
	}
	now, err := a.Lines.Lines(c.Request.Context(), q.LineFilter, q.limit)
	if err != nil {
		return err
	}
	body := struct {
		Items   []lineBody  `json:"items"`
		Lines   int64       `json:"lines"`
		Running int         `json:"running"`
		Limits  *limitsBody `json:"limits"`
	}{Items: make([]lineBody, len(now.Items)), Lines: now.Lines, Running: now.Running}
	for i := range now.Items {
		l := &now.Items[i]
		body.Items[i] = lineBody{
			lineKeyBody: lineKeyOf(l.Name), Tier: l.Tier, Queue: l.Queue, Waiting: l.Waiting, Running: l.Running,
			Share: l.Share, Noisy: l.Noisy(), Parked: l.Parked, Until: when(l.Until),
		}
	}
	if q.asked {
		limits, err := a.Lines.Limits(c.Request.Context(), q.Name)
		if err != nil {
			return err
		}
		body.Limits = limitsOf(&limits, a.Clock())
		c.Writer.Header()["Etag"] = []string{versionTag(limits.Version)}
	}
	return write(c, http.StatusOK, &body)
}

// limitsAsked is the body of a PUT.
type limitsAsked struct {
	job.LineLimits
	paused bool
	pause  pauseAsked
}

// linePauseShape is pauseShape without refuse: submits of a paused key are accepted.
var linePauseShape = shape[pauseAsked]{members: map[string]member[pauseAsked]{
	"until": pauseShape.members["until"], "forSeconds": pauseShape.members["forSeconds"],
	"reason": pauseShape.members["reason"],
}}

func limitNumber(set func(*limitsAsked, int)) member[limitsAsked] {
	return func(l *limitsAsked, v jsontext.Value) error {
		n, err := wholeNumber(v, 0, maxRate)
		set(l, n)
		return err
	}
}

var limitsShape = shape[limitsAsked]{members: map[string]member[limitsAsked]{
	"running": limitNumber(func(l *limitsAsked, n int) { l.Running = n }),
	"weight":  limitNumber(func(l *limitsAsked, n int) { l.Weight = n }),
	"burst":   limitNumber(func(l *limitsAsked, n int) { l.Burst = n }),
	"waiting": limitNumber(func(l *limitsAsked, n int) { l.Waiting = n }),
	"rate": func(l *limitsAsked, v jsontext.Value) (err error) {
		if l.Rate, err = strconv.ParseFloat(string(v), 64); v.Kind() != '0' || err != nil || l.Rate < 0 {
			return reason("must be a number, 0 or more")
		}
		return nil
	},
	"strict": func(l *limitsAsked, v jsontext.Value) (err error) { l.Strict, err = truth(v); return err },
	"paused": func(l *limitsAsked, v jsontext.Value) error {
		if v.Kind() != '{' {
			return reason(`must be null, or an object such as {"reason": "too many errors"}`)
		}
		l.paused = true
		return linePauseShape.readObject(v, &l.pause)
	},
}}

// putLine serves PUT /admin/lines: it replaces the limits of a key.
func (a *api) putLine(c *gin.Context) error {
	var q linesQuery
	if err := cmp.Or(keyParams.read(c.Request.URL.RawQuery, &q), q.wrong); err != nil {
		return err
	}
	if !q.asked {
		return invalid("key", "is missing: the limits are those of a key")
	}
	version, err := versionAsked(c.Request.Header)
	if err != nil {
		return err
	}
	var asked limitsAsked
	if err := readOptional(a, c, &limitsShape, &asked); err != nil {
		return err
	}
	asked.Name = q.Name
	if err := a.checkLimits(c, &asked); err != nil {
		return err
	}
	was, err := a.Lines.Limits(c.Request.Context(), q.Name)
	if err != nil {
		return err
	}
	if asked.Paused != nil && was.Paused != nil && !was.Paused.Over(a.Clock()) {
		asked.Paused.Since = was.Paused.Since // the pause goes on
	}
	stored, err := a.Lines.SetLimits(c.Request.Context(), asked.LineLimits, version)
	now := a.Clock()
	a.changed(c, "line.put", q.Name, limitsOf(&was, now), limitsOf(&stored, now), err)
	if err != nil {
		return badLimits(inDoubt(err,
			"The limits may or may not be stored: look in some seconds, before you send them again."))
	}
	c.Writer.Header()["Etag"] = []string{versionTag(stored.Version)}
	return write(c, http.StatusOK, limitsOf(&stored, now))
}

// checkLimits checks what the body says, and completes the pause.
func (a *api) checkLimits(c *gin.Context, asked *limitsAsked) error {
	if !a.Strict {
		return invalid("key", "has no limits here: this server's tiers overlap (TIERQ_PRIORITY_BASE), so it has no lines")
	}
	counts := asked.Running > 0 || asked.Rate > 0 || asked.Waiting > 0 || asked.Strict
	if a.Partitions > 1 && counts && !job.LineHasHome(asked.Name) {
		return invalid("key", "may only have a weight and a pause: jobs without a key are in several partitions")
	}
	if asked.paused {
		if err := a.until(&asked.pause); err != nil {
			return err
		}
		caller := callerOf(c)
		asked.Paused = &job.LinePause{
			Since: a.Clock(), Until: asked.pause.Until, By: cmp.Or(caller.Key.Name, caller.Owner()),
			Reason: asked.pause.Reason,
		}
	}
	return badLimits(asked.Check())
}

// badLimits turns job.ErrBadLimits into an INVALID_REQUEST that says why. Other errors are returned as they are.
func badLimits(err error) error {
	if !errors.Is(err, job.ErrBadLimits) {
		return err
	}
	return &problem{kind: invalidRequest, detail: told(err, job.ErrBadLimits)}
}
