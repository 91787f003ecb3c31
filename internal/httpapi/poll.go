package httpapi

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

type pollBody struct {
	Data      polled `json:"apiResponseData"`
	Timestamp string `json:"timestamp"`
}

// polled is a job as its owner sees it. Absent values are null, so that every answer has the same members; only a job
// whose handler told it has a progress.
type polled struct {
	JobID        job.ID         `json:"jobId"`
	Status       job.Status     `json:"currentJobStatus"`
	Tier         job.Tier       `json:"jobTier"`
	Type         string         `json:"type"`
	RetryCount   int            `json:"retryCount"`
	MaxRetries   int            `json:"maxRetries"`
	ArrivedAt    *string        `json:"arrivedAt"`
	FirstTriedAt *string        `json:"firstTriedAt"`
	CompletedAt  *string        `json:"completedAt"`
	RunAt        *string        `json:"runAt"`
	ExpiresAt    *string        `json:"expiresAt"`
	Position     *int64         `json:"position"`
	ETASeconds   *int64         `json:"etaSeconds"`
	Result       jsontext.Value `json:"result"`
	FailureCause *job.Cause     `json:"failureCause"`
	LastError    *string        `json:"lastError"`
	TraceID      *string        `json:"traceId"`
	Progress     *progressBody  `json:"progress,omitempty"`
}

// lenient writes stored text as it is: text that was accepted once is not checked again.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
	json.Deterministic(true))

var revalidate = []string{"private, no-cache"}

// pollQuery says which job to poll, and how long the answer may be held: -1 = not set.
type pollQuery struct {
	id   job.ID
	wait time.Duration
}

var pollParams = params[pollQuery]{
	"jobId": func(q *pollQuery, value string) (err error) {
		if value == "" {
			return reason("is missing")
		}
		if q.id, err = job.ParseID(value); err != nil {
			return reason("is not a job id")
		}
		return nil
	},
	"wait": func(q *pollQuery, value string) (err error) {
		q.wait, err = waitAsked(value)
		return err
	},
}

// poll serves GET /result/poll?jobId=.
func (a *api) poll(c *gin.Context) error {
	q := pollQuery{wait: -1}
	if err := pollParams.read(c.Request.URL.RawQuery, &q); err != nil {
		return err
	}
	if q.id == "" {
		return invalid("jobId", "is missing")
	}
	h := c.Writer.Header()
	if q.wait < 0 {
		if q.wait = waitPreferred(c.Request.Header["Prefer"]); q.wait > 0 {
			h.Set("Preference-Applied", "wait="+strconv.Itoa(seconds(q.wait)))
		}
	}
	known := c.Request.Header["If-None-Match"]
	var j job.Job
	var err error
	if q.wait > 0 {
		j, err = a.await(c, q, known)
	} else {
		j, err = a.find(c, q.id)
	}
	if err != nil {
		return aboutJob(err, q.id)
	}
	a.veil(c, &j)
	tag := etag(&j)
	if matches(known, tag) {
		h["Etag"], h["Cache-Control"] = []string{tag}, revalidate
		c.Writer.WriteHeader(http.StatusNotModified)
		c.Writer.WriteHeaderNow()
		return nil
	}
	body := pollBody{Timestamp: stamp(a.Now()), Data: a.view(c.Request.Context(), &j)}
	text, err := encode(&body)
	if err != nil {
		return fmt.Errorf("job %s: %w", j.ID, err)
	}
	h["Etag"], h["Cache-Control"] = []string{tag}, revalidate
	writeText(c, http.StatusOK, text)
	return nil
}

// view returns the members of a poll's answer.
func (a *api) view(ctx context.Context, j *job.Job) polled {
	p := polled{
		JobID: j.ID, Status: j.Status.Shown(), Tier: j.Tier, Type: j.Type, RetryCount: j.RetryCount, MaxRetries: j.MaxRetries,
		ArrivedAt: when(j.ArrivedAt), FirstTriedAt: when(j.FirstTriedAt), CompletedAt: when(j.EndedAt),
		Result: j.Result, FailureCause: orNull(j.Cause), LastError: orNull(j.LastError), TraceID: orNull(j.TraceID),
	}
	p.RunAt, p.ExpiresAt, p.Progress = dueAt(j), when(j.ExpiresAt()), progressOf(j.Progress)
	if j.Status == job.Pending {
		p.Position, p.ETASeconds = a.place(ctx, j)
	}
	return p
}

// place returns how many jobs go before a PENDING job, and in how many seconds it will have ended at the present rate,
// or that of its line; nil for a value that is not known. A poll does not fail if the place cannot be read.
func (a *api) place(ctx context.Context, j *job.Job) (position, eta *int64) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var ahead int64
	var err error
	var line job.LinePlace
	if j.Line == "" {
		ahead, err = a.Line.Position(ctx, j)
	} else {
		line, err = a.Line.LineOf(ctx, j)
	}
	switch {
	case err != nil:
		a.Log.DebugContext(ctx, "the position of a job could not be read", "job_id", j.ID, "err", err)
		return nil, nil
	case j.Line != "":
		return &line.Ahead, secondsInLine(&line)
	}
	return &ahead, secondsFor(ahead+1, a.Line.Rate())
}

// secondsInLine returns in how many seconds the jobs up to a place in a line will have ended, as secondsFor does. It
// also returns nil while the line waits for an operator.
func secondsInLine(l *job.LinePlace) *int64 {
	if l.Parked && l.Running == 0 && l.Until.IsZero() {
		return nil
	}
	return secondsFor(l.Ahead+1, l.Rate)
}

// secondsFor returns how many seconds n jobs take to end; nil if the rate is not known, or the time is longer than
// 68 years.
func secondsFor(n int64, rate float64) *int64 {
	if !(rate > 0) {
		return nil
	}
	s := math.Ceil(float64(n) / rate)
	if s > math.MaxInt32 {
		return nil
	}
	whole := int64(s)
	return &whole
}

// etag returns a tag that changes whenever a poll's answer does, except for its timestamp, position, ETA and
// progress.
func etag(j *job.Job) string {
	b := make([]byte, 0, 48)
	b = append(b, `W/"`...)
	b = append(b, j.Status.Shown()...)
	for _, n := range [...]int{j.Attempt, j.RetryCount, j.Generation} {
		b = append(b, '-')
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return string(append(b, '"'))
}

// matches reports whether tag is among the tags of If-None-Match. It compares weakly: W/ does not count.
func matches(headers []string, tag string) bool {
	want := strings.TrimPrefix(tag, "W/")
	for _, h := range headers {
		for one := range strings.SplitSeq(h, ",") {
			one = strings.TrimSpace(one)
			if one == "*" || strings.TrimPrefix(one, "W/") == want {
				return true
			}
		}
	}
	return false
}

func when(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := stamp(t)
	return &s
}

func orNull[T ~string](s T) *T {
	if s == "" {
		return nil
	}
	return &s
}
