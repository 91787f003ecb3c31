package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// maxRequeue bounds one bulk requeue.
const maxRequeue = 10000

// requeueAsked is the body of a bulk requeue: which dead letters, and how many at most.
type requeueAsked struct {
	job.Filter
	limit  int
	dryRun bool
	jobChange
}

var requeueBody = shape[requeueAsked]{members: map[string]member[requeueAsked]{
	"tier":  func(r *requeueAsked, v jsontext.Value) (err error) { r.Tier, err = filterTier(text(v)); return err },
	"type":  func(r *requeueAsked, v jsontext.Value) (err error) { r.Type, err = filterType(text(v)); return err },
	"cause": func(r *requeueAsked, v jsontext.Value) (err error) { r.Cause, err = filterCause(text(v)); return err },
	"after": func(r *requeueAsked, v jsontext.Value) (err error) {
		r.From, err = moment(text(v))
		return err
	},
	"before": func(r *requeueAsked, v jsontext.Value) (err error) {
		r.To, err = moment(text(v))
		return err
	},
	"limit": func(r *requeueAsked, v jsontext.Value) (err error) {
		r.limit, err = wholeNumber(v, 1, maxRequeue)
		return err
	},
	"reason": func(r *requeueAsked, v jsontext.Value) error { return r.setReason(v) },
	"dryRun": func(r *requeueAsked, v jsontext.Value) error {
		if k := v.Kind(); k != 't' && k != 'f' {
			return reason("must be true or false")
		}
		r.dryRun = v.Kind() == 't'
		return nil
	},
}}

// requeuedDead writes a bulk requeue to the log of changes. A bulk requeue that stopped half-way is recorded as
// done, with the number of jobs it had requeued.
func (a *api) requeuedDead(c *gin.Context, asked *requeueAsked, matched, requeued int, err error) {
	if requeued > 0 {
		err = nil
	}
	a.changed(c, "dead.requeue", asked.told(), nil, &struct {
		Matched  int    `json:"matched"`
		Requeued int    `json:"requeued"`
		Reason   string `json:"reason,omitzero"`
	}{matched, requeued, asked.reason}, err)
}

// told describes the filter in words, for the log of changes.
func (r *requeueAsked) told() string {
	words := []string{"limit=" + strconv.Itoa(r.limit)}
	for _, one := range [][2]string{{"tier", string(r.Tier)}, {"type", r.Type}, {"cause", string(r.Cause)}} {
		if one[1] != "" {
			words = append(words, one[0]+"="+one[1])
		}
	}
	if !r.From.IsZero() {
		words = append(words, "after="+stamp(r.From))
	}
	if !r.To.IsZero() {
		words = append(words, "before="+stamp(r.To))
	}
	return strings.Join(words, " ")
}

// text returns the text of a JSON string; "" for any other value.
func text(v jsontext.Value) string { return string(unquoted(v)) }

// wholeNumber reads a JSON number that is written without fraction and exponent.
func wholeNumber(v jsontext.Value, least, most int) (int, error) {
	if v.Kind() != '0' {
		v = nil
	}
	return whole(string(v), least, most)
}

// requeueDead serves POST /admin/dead/requeue. It may take a minute, because the jobs are requeued at a bounded rate.
// If it stops half-way, the answer says how many jobs it had requeued.
func (a *api) requeueDead(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	var asked requeueAsked
	if err := readOptional(a, c, &requeueBody, &asked); err != nil {
		return err
	}
	if asked.limit == 0 {
		return invalid("limit", "is missing: how many at most, 1 to "+strconv.Itoa(maxRequeue))
	}
	matched, requeued, err := a.Requeue.RequeueDead(
		c.Request.Context(),
		asked.Filter,
		asked.limit,
		asked.dryRun,
		asked.reason,
	)
	if !asked.dryRun {
		a.requeuedDead(c, &asked, matched, requeued, err)
	}
	switch {
	case err != nil && requeued == 0 && asked.dryRun:
		return err
	case err != nil && requeued == 0:
		return inDoubt(err, "Some of the dead letters may get a new life: look which are left before you send this again; "+
			"none gets two.")
	}
	if err != nil {
		a.Log.Warn("a bulk requeue stopped half-way", "requeued", requeued, "err", err, "trace_id", traceOf(c))
	}
	return write(c, http.StatusOK, &struct {
		Matched  int `json:"matched"`
		Requeued int `json:"requeued"`
	}{matched, requeued})
}
