package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// Schedules reads and changes the schedules. The errors are job.ErrNoSchedule, job.ErrBadSchedule, job.ErrChanged,
// job.ErrScheduleState, and those of a change.
type Schedules interface {
	Schedules(ctx context.Context) ([]job.Schedule, error)
	Schedule(ctx context.Context, name string) (job.Schedule, error)
	// ScheduleRuns returns the last occurrences, fired or missed, the latest first.
	ScheduleRuns(ctx context.Context, name string, limit int) ([]job.ScheduleRun, error)
	// Next returns the next n occurrences after a time, or fewer.
	Next(s *job.Schedule, after time.Time, n int) ([]time.Time, error)
	// StoreSchedule replaces a version: 0 = there must be none, -1 = any. was has version 0 if there was none.
	StoreSchedule(ctx context.Context, s job.Schedule, version int64) (stored, was job.Schedule, err error)
	// TrySchedule returns the schedule that StoreSchedule would store, and stores nothing.
	TrySchedule(ctx context.Context, s job.Schedule, version int64) (would job.Schedule, err error)
	DeleteSchedule(ctx context.Context, name string, version int64) error
	PauseSchedule(ctx context.Context, name string, p job.SchedulePause) (stored, was job.Schedule, err error)
	ResumeSchedule(ctx context.Context, name string) (stored, was job.Schedule, err error)
	// ScheduleOfJob returns the name of the schedule that made a job; "" = none that is remembered.
	ScheduleOfJob(ctx context.Context, id job.ID) (string, error)
	// RunSchedule makes a job now. A request that has made one gets it again. The errors are also those of a submit.
	RunSchedule(ctx context.Context, name, request string) (job.ID, error)
}

const (
	listedNext = 5 // occurrences to come
	maxNext    = 100
)

// scheduleBody is a schedule on the wire.
type scheduleBody struct {
	Name      string             `json:"name"`
	Cron      *string            `json:"cron"`
	Every     *int               `json:"everySeconds"`
	Timezone  *string            `json:"timezone"` // of cron
	Start     *string            `json:"start"`
	End       *string            `json:"end"`
	Jitter    int                `json:"jitterSeconds"`
	Overlap   job.Overlap        `json:"overlap"`
	CatchUp   job.CatchUp        `json:"catchUp"`
	Job       scheduledBody      `json:"job"`
	Owner     *string            `json:"owner"`
	Paused    *schedulePauseBody `json:"paused"`
	Last      *string            `json:"lastOccurrence"`
	Next      []*string          `json:"next"` // what will fire; none while it is paused
	Version   int64              `json:"version"`
	CreatedAt *string            `json:"createdAt"`
	ChangedAt *string            `json:"changedAt"`
}

type schedulePauseBody struct {
	Since  *string `json:"since"`
	By     *string `json:"by"`
	Reason *string `json:"reason"`
}

// scheduledBody describes the jobs of a schedule on the wire. A list leaves the payload out.
type scheduledBody struct {
	Tier       job.Tier       `json:"tier"`
	Type       string         `json:"type"`
	Payload    jsontext.Value `json:"payload,omitempty"`
	Queue      string         `json:"queue"`
	Key        *string        `json:"key"`
	MaxRetries *int           `json:"maxRetries"`           // null: the plan's
	MaxRun     *float64       `json:"maxProcessingSeconds"` // null: the queue's or the plan's
	Callback   *string        `json:"callbackUrl"`
	ExpiresIn  *float64       `json:"expiresIn"`
}

// runBody is an occurrence that was fired, or those from occurrence to through that were missed.
type runBody struct {
	Occurrence *string           `json:"occurrence"`
	Through    *string           `json:"through"`
	Status     string            `json:"status"` // FIRED or MISSED
	JobID      *job.ID           `json:"jobId"`
	Living     bool              `json:"living"` // the job has not ended
	Asked      bool              `json:"asked"`  // by an operator, beside the schedule's own occurrences
	Missed     *int              `json:"missed"` // null: fired, or too many to count
	Reason     *job.MissedReason `json:"reason"`
	Detail     *string           `json:"detail"`
	At         *string           `json:"at"`
}

func (a *api) scheduleOf(c *gin.Context, s *job.Schedule) scheduleBody {
	b := scheduleBody{
		Name: s.Name, Cron: orNull(s.Cron), Start: when(s.Start), End: when(s.End), Jitter: int(s.Jitter.Seconds()),
		Overlap: s.Overlap, CatchUp: s.CatchUp, Owner: orNull(s.Owner), Last: when(s.Last), Version: s.Version,
		CreatedAt: when(s.CreatedAt), ChangedAt: when(s.ChangedAt), Next: []*string{},
	}
	if s.Every > 0 {
		n := int(s.Every.Seconds())
		b.Every = &n
	} else {
		b.Timezone = orNull(cmp.Or(s.Timezone, "UTC"))
	}
	seen := job.Job{Type: s.Job.Type, Payload: s.Job.Payload, Options: job.Options{CallbackURL: s.Job.Callback}}
	a.veil(c, &seen)
	b.Job = scheduledBody{
		Tier: s.Job.Tier, Type: s.Job.Type, Payload: seen.Payload, Queue: cmp.Or(s.Job.Queue, job.MainQueue),
		Key: lineKeyOf(s.Job.Line).Key, Callback: orNull(seen.CallbackURL),
	}
	if s.Job.MaxRetries >= 0 {
		b.Job.MaxRetries = &s.Job.MaxRetries
	}
	b.Job.MaxRun, b.Job.ExpiresIn = secondsOrNull(s.Job.MaxRun), secondsOrNull(s.Job.ExpiresIn)
	if p := s.Paused; p != nil {
		b.Paused = &schedulePauseBody{when(p.Since), orNull(p.By), orNull(p.Reason)}
		return b
	}
	if !s.Next.IsZero() {
		b.Next = append(b.Next, when(s.Next))
		if next, err := a.Schedules.Next(s, s.Next, listedNext-1); err == nil { // it was checked when it was stored
			for _, at := range next {
				b.Next = append(b.Next, when(at))
			}
		}
	}
	return b
}

// scheduleNoted is what the log of changes has of a schedule: no payload, and of the callback's address the host.
func (a *api) scheduleNoted(c *gin.Context, s *job.Schedule) scheduleBody {
	told := job.Job{Options: job.Options{CallbackURL: s.Job.Callback}}
	veilURLs(&told)
	noted := *s
	noted.Job.Payload, noted.Job.Callback = nil, told.CallbackURL
	return a.scheduleOf(c, &noted)
}

func secondsOrNull(d time.Duration) *float64 {
	if d <= 0 {
		return nil
	}
	n := d.Seconds()
	return &n
}

func runOf(r *job.ScheduleRun) runBody {
	b := runBody{
		Occurrence: when(r.Occurrence), Through: when(r.Through), Status: "FIRED", JobID: orNull(r.JobID), Living: r.Living,
		Asked: r.Request != "", Reason: orNull(r.Reason), Detail: orNull(r.Detail), At: when(r.At),
	}
	if r.JobID == "" {
		b.Status = "MISSED"
		if r.Missed > 0 {
			b.Missed = &r.Missed
		}
	}
	return b
}

// noSchedule turns the errors of schedules into problems. Other errors are those of a change.
func noSchedule(err error) error {
	var wrong *job.ScheduleError
	switch {
	case errors.As(err, &wrong):
		return invalid(wrong.Member, wrong.Reason)
	case errors.Is(err, job.ErrScheduleState):
		return &problem{kind: scheduleState, detail: told(err, job.ErrScheduleState)}
	}
	return inDoubt(err, "The schedule may or may not be changed: look at it in some seconds, before you send this again.")
}

// schedules serves GET /admin/schedules.
func (a *api) schedules(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	all, err := a.Schedules.Schedules(c.Request.Context())
	if err != nil {
		return err
	}
	body := struct {
		Items []scheduleBody `json:"items"`
	}{make([]scheduleBody, len(all))}
	for i := range all {
		body.Items[i] = a.scheduleOf(c, &all[i])
	}
	return write(c, http.StatusOK, &body)
}

// getSchedule serves GET /admin/schedules/{name}: the schedule, its next and its last occurrences.
func (a *api) getSchedule(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	s, err := a.Schedules.Schedule(c.Request.Context(), c.Param("name"))
	if err != nil {
		return err
	}
	runs, err := a.Schedules.ScheduleRuns(c.Request.Context(), s.Name, 2*job.MaxScheduleRuns)
	if err != nil {
		return err
	}
	body := struct {
		scheduleBody
		Runs []runBody `json:"runs"`
	}{a.scheduleOf(c, &s), []runBody{}}
	for i := range runs {
		body.Runs = append(body.Runs, runOf(&runs[i]))
	}
	c.Writer.Header()["Etag"] = []string{versionTag(s.Version)}
	return write(c, http.StatusOK, &body)
}

// deleteSchedule serves DELETE /admin/schedules/{name}. Jobs that it has made go on.
func (a *api) deleteSchedule(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	version, err := versionAsked(c.Request.Header)
	if err != nil {
		return err
	}
	ctx, name := c.Request.Context(), c.Param("name")
	was, err := a.Schedules.Schedule(ctx, name)
	if err == nil {
		if err = a.Schedules.DeleteSchedule(ctx, name, version); !errors.Is(err, job.ErrNoSchedule) {
			a.changed(c, "schedule.delete", name, a.scheduleNoted(c, &was), nil, err)
		}
	}
	if err != nil {
		return noSchedule(err)
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	c.Writer.WriteHeaderNow()
	return nil
}

// pauseSchedule serves POST /admin/schedules/{name}/pause.
func (a *api) pauseSchedule(c *gin.Context) error {
	return a.holdSchedule(c, "schedule.pause", func(ctx context.Context, name, why string) (stored, was job.Schedule,
		err error) {
		caller := callerOf(c)
		return a.Schedules.PauseSchedule(ctx, name,
			job.SchedulePause{By: cmp.Or(caller.Key.Name, caller.Owner()), Reason: why})
	})
}

// resumeSchedule serves POST /admin/schedules/{name}/resume: it goes on with the next occurrence from now.
func (a *api) resumeSchedule(c *gin.Context) error {
	return a.holdSchedule(c, "schedule.resume", func(ctx context.Context, name, _ string) (stored, was job.Schedule,
		err error) {
		return a.Schedules.ResumeSchedule(ctx, name)
	})
}

func (a *api) holdSchedule(c *gin.Context, action string,
	do func(ctx context.Context, name, why string) (stored, was job.Schedule, err error)) error {
	if err := noQuery(c); err != nil {
		return err
	}
	var asked jobChange
	if err := readOptional(a, c, &jobChangeBody, &asked); err != nil {
		return err
	}
	name := c.Param("name")
	stored, was, err := do(c.Request.Context(), name, asked.reason)
	if !errors.Is(err, job.ErrNoSchedule) {
		a.changed(c, action, name, pausedOf(&was), pausedOf(&stored), err)
	}
	if err != nil {
		return noSchedule(err)
	}
	c.Writer.Header()["Etag"] = []string{versionTag(stored.Version)}
	return write(c, http.StatusOK, a.scheduleOf(c, &stored))
}

// pausedOf returns a schedule's pause as the log of changes has it.
func pausedOf(s *job.Schedule) any {
	if s.Paused == nil {
		return nil
	}
	return &schedulePauseBody{when(s.Paused.Since), orNull(s.Paused.By), orNull(s.Paused.Reason)}
}

// runSchedule serves POST /admin/schedules/{name}/run: it makes a job now, beside the occurrences.
func (a *api) runSchedule(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	key, err := keyFrom(c.Request.Header)
	if err != nil {
		return err
	}
	if err := a.noBody(c); err != nil {
		return err
	}
	name, request := c.Param("name"), ""
	if key != "" {
		request = ownKey(callerOf(c).Owner(), key)
	}
	id, err := a.Schedules.RunSchedule(c.Request.Context(), name, request)
	if !errors.Is(err, job.ErrNoSchedule) {
		a.changed(c, "schedule.run", name, nil, &struct {
			JobID job.ID `json:"jobId,omitzero"`
		}{id}, err)
	}
	switch {
	case errors.Is(err, job.ErrFateUnknown):
		return &problem{kind: outcomeUnknown, jobID: id}
	case err != nil:
		return noSchedule(err)
	}
	c.Writer.Header()["Location"] = []string{pollPath + string(id)}
	return write(c, http.StatusAccepted, &struct {
		JobID    job.ID     `json:"jobId"`
		Status   job.Status `json:"status"`
		Schedule string     `json:"schedule"`
	}{id, job.Pending, name})
}

// nextQuery is the query of /admin/schedules/{name}/next.
type nextQuery struct {
	n    int
	from time.Time
}

var nextParams = params[nextQuery]{
	"n":    func(q *nextQuery, v string) (err error) { q.n, err = whole(v, 1, maxNext); return err },
	"from": func(q *nextQuery, v string) (err error) { q.from, err = moment(v); return err },
}

// nextOfSchedule serves GET /admin/schedules/{name}/next: the occurrences after a time, also of a paused schedule.
func (a *api) nextOfSchedule(c *gin.Context) error {
	q := nextQuery{n: listedNext, from: a.Clock()}
	if err := nextParams.read(c.Request.URL.RawQuery, &q); err != nil {
		return err
	}
	s, err := a.Schedules.Schedule(c.Request.Context(), c.Param("name"))
	if err != nil {
		return err
	}
	next, err := a.Schedules.Next(&s, q.from, q.n)
	if err != nil {
		return noSchedule(err)
	}
	body := struct {
		Items []*string `json:"items"`
	}{[]*string{}}
	for _, at := range next {
		body.Items = append(body.Items, when(at))
	}
	return write(c, http.StatusOK, &body)
}

// madeBy returns the schedule that made a job; nil if none did. A living job and a dead letter name it; for other
// ended jobs SQL knows it as long as the schedule remembers the run.
func (a *api) madeBy(ctx context.Context, j *job.Job) *string {
	name := j.Schedule
	if name == "" && j.Status.Ended() && a.Schedules != nil {
		name, _ = a.Schedules.ScheduleOfJob(ctx, j.ID) // a store that is away is no reason to show no job
	}
	return orNull(name)
}
