package httpapi

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// scheduleAsked is the body of a PUT.
type scheduleAsked struct {
	job.Schedule
	job  asked
	jobs bool // job is there
}

// scheduledJob is the shape of a schedule's jobs: a submit without the members that an occurrence decides.
var scheduledJob = func() *submitBody {
	b := newSubmitBody(ours, map[string]member[asked]{"tier": (*asked).setTier})
	for _, name := range []string{"delaySeconds", "runAt", "unique", "expiresAt", "batch"} {
		delete(b.members, name)
	}
	return b
}()

func scheduleTime(set func(*scheduleAsked, time.Time)) member[scheduleAsked] {
	return func(s *scheduleAsked, v jsontext.Value) error {
		at, err := moment(string(unquoted(v)))
		set(s, at.Truncate(time.Millisecond))
		return err
	}
}

func scheduleText(set func(*scheduleAsked, string)) member[scheduleAsked] {
	return func(s *scheduleAsked, v jsontext.Value) error {
		if v.Kind() != '"' || text(v) == "" {
			return reason("must be a text")
		}
		set(s, text(v))
		return nil
	}
}

// oneOf reads one of some words.
func oneOf[T ~string](words []T, set func(*scheduleAsked, T)) member[scheduleAsked] {
	var known []string
	for _, w := range words {
		known = append(known, string(w))
	}
	return func(s *scheduleAsked, v jsontext.Value) error {
		word := T(text(v))
		if v.Kind() != '"' || !slices.Contains(words, word) {
			return reason("must be one of " + strings.Join(known, ", "))
		}
		set(s, word)
		return nil
	}
}

var scheduleShape = shape[scheduleAsked]{members: map[string]member[scheduleAsked]{
	"cron": scheduleText(func(s *scheduleAsked, t string) { s.Cron = t }),
	"everySeconds": func(s *scheduleAsked, v jsontext.Value) (err error) {
		s.Every, err = wholeSeconds(v, 1, 366*86400)
		return err
	},
	"timezone": scheduleText(func(s *scheduleAsked, t string) { s.Timezone = t }),
	"start":    scheduleTime(func(s *scheduleAsked, at time.Time) { s.Start = at }),
	"end":      scheduleTime(func(s *scheduleAsked, at time.Time) { s.End = at }),
	"jitterSeconds": func(s *scheduleAsked, v jsontext.Value) (err error) {
		s.Jitter, err = wholeSeconds(v, 0, 86400)
		return err
	},
	"overlap": oneOf(job.Overlaps, func(s *scheduleAsked, o job.Overlap) { s.Overlap = o }),
	"catchUp": oneOf(job.CatchUps, func(s *scheduleAsked, u job.CatchUp) { s.CatchUp = u }),
	"job": func(s *scheduleAsked, v jsontext.Value) error {
		if v.Kind() != '{' {
			return reason(`must be an object such as {"tier": "UNPAID", "type": "REPORT"}`)
		}
		s.jobs = true
		return scheduledJob.decode(v, &s.job)
	},
}}

// putScheduleQuery is the query of PUT /admin/schedules/{name}.
type putScheduleQuery struct{ dryRun bool }

var putScheduleParams = params[putScheduleQuery]{
	"dryRun": func(q *putScheduleQuery, v string) error {
		if q.dryRun = v == "true"; !q.dryRun && v != "false" {
			return reason("must be true or false")
		}
		return nil
	},
}

// trySchedule answers with the schedule that would be stored, and with its next occurrences even if it is paused.
func (a *api) trySchedule(c *gin.Context, s *job.Schedule, version int64) error {
	would, err := a.Schedules.TrySchedule(c.Request.Context(), *s, version)
	if err != nil {
		return noSchedule(err)
	}
	body := a.scheduleOf(c, &would)
	if would.Paused != nil {
		next, err := a.Schedules.Next(&would, a.Clock(), listedNext)
		if err != nil {
			return noSchedule(err)
		}
		for _, at := range next {
			body.Next = append(body.Next, when(at))
		}
	}
	c.Writer.Header()["Etag"] = []string{versionTag(would.Version)}
	return write(c, http.StatusOK, body)
}

// putSchedule serves PUT /admin/schedules/{name}. With If-Match it replaces only that version, with If-None-Match: *
// the schedule must be new. If the schedule is as asked already, nothing changes, not even the version. With
// dryRun=true it stores nothing, and answers with the schedule that would be stored.
func (a *api) putSchedule(c *gin.Context) error {
	var q putScheduleQuery
	if err := putScheduleParams.read(c.Request.URL.RawQuery, &q); err != nil {
		return err
	}
	version, err := versionAsked(c.Request.Header)
	if err != nil {
		return err
	}
	read := scheduleAsked{Schedule: job.Schedule{
		Name: c.Param("name"), Overlap: job.OverlapSkip, CatchUp: job.CatchUpLast, Owner: callerOf(c).Owner(),
	}}
	if err := readOptional(a, c, &scheduleShape, &read); err != nil {
		return err
	}
	if !read.jobs {
		return invalid("job", "is missing: it says what the schedule's jobs are")
	}
	if read.Job, err = a.scheduledJob(c, &read.job); err != nil {
		return inJob(err)
	}
	if q.dryRun {
		return a.trySchedule(c, &read.Schedule, version)
	}
	stored, was, err := a.Schedules.StoreSchedule(c.Request.Context(), read.Schedule, version)
	if !errors.Is(err, job.ErrBadSchedule) && (err != nil || stored.Version != was.Version) {
		var before any
		if was.Version > 0 {
			before = a.scheduleNoted(c, &was)
		}
		a.changed(c, "schedule.put", read.Name, before, a.scheduleNoted(c, &stored), err)
	}
	if err != nil {
		return noSchedule(err)
	}
	c.Writer.Header()["Etag"] = []string{versionTag(stored.Version)}
	return write(c, http.StatusOK, a.scheduleOf(c, &stored))
}

// scheduledJob checks what the jobs of a schedule are, as if the caller submitted one now.
func (a *api) scheduledJob(c *gin.Context, asked *asked) (j job.ScheduledJob, err error) {
	if asked.typ == "" {
		return j, invalid("type", "is missing")
	}
	plan, err := a.tierAsked(asked.tier)
	if err == nil {
		err = mayTier(c, plan.Tier)
	}
	if err != nil {
		return j, err
	}
	s, err := a.submission(callerOf(c), asked, plan, traceOf(c))
	if err != nil {
		return j, err
	}
	return job.ScheduledJob{
		Tier: s.Tier, Type: s.Type, Payload: bytes.Clone(s.Payload), Queue: s.Queue, Line: s.Line,
		MaxRetries: asked.maxRetries, MaxRun: asked.maxRun, Callback: s.CallbackURL, ExpiresIn: asked.expiresIn,
		Everybody: s.Everybody,
	}, nil
}

// inJob puts "job." before the fields of an error, because the body has them in its member job.
func inJob(err error) error {
	p, known := explain(err)
	if !known || len(p.fields) == 0 {
		return err
	}
	in := *p
	in.fields = slices.Clone(p.fields)
	for i := range in.fields {
		in.fields[i].Field = "job." + in.fields[i].Field
	}
	return &in
}
