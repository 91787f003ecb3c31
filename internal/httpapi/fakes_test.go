package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// rooms fakes the rooms behind httpapi, and records their calls. A function that is nil answers like an empty
// system.
type rooms struct {
	queues  queueBook
	pauses  pauseBook
	lines   lineBook
	times   scheduleBook
	batches fakeBatches
	leases  leases
	flows   flowBook
	workers workerBook

	said       []string // the reasons of changes
	reasons    []job.Reason
	reasonless error

	tb          testing.TB
	deps        Deps
	submit      func(ctx context.Context, s job.Submission) (job.Accepted, error)
	submitBatch func(batch []job.Submission) ([]job.Accepted, []error)
	find        func(id job.ID) (job.Job, error)
	whole       func(j job.Job) (job.Job, bool, error)
	attempts    []job.Attempt
	list        func(f job.Filter, cursor string, limit int) ([]job.Job, string, error)
	cancel      func(id job.ID) (job.Word, error)
	letters     []job.DeadLetter
	dead        func(f job.Filter, cursor string, limit int) ([]job.DeadLetter, string, error)
	eachDead    error // after the letters
	requeue     func(id job.ID, requestID string) error
	quotas      []int // the quotas that owners' requeues were called with
	requeueDead func(f job.Filter, limit int, dryRun bool) (int, int, error)
	await       func(ctx context.Context, id job.ID, done func(*job.Job) bool) (job.Job, error)
	follow      func(ctx context.Context, heard func(job.Job) error) error
	messages    chan job.Message
	position    func(j *job.Job) (int64, error)
	artifact    func() (io.ReadCloser, string, string, int64, error)
	store       func(p job.Plan, ifVersion int64) (job.Plan, error)
	why         func() (Why, error)
	stats       func() (Stats, error)
	series      func() ([]SeriesPoint, error)
	audit       func(run bool) (Audit, error)
	health      Health
	ready       Report
	rate        float64
	linePlace   *job.LinePlace
	hint        time.Duration
	types       *handler.Registry
	plans       job.PlanBook
	ring        ring
	gateways    gatewayRing
	told        changeLog

	logLines  func(after int64) ([]job.LogLine, error)
	operate   func(what string) error // kill, hasten and dismiss
	submitted []job.Submission
	found     []job.ID
	deadPages []job.Filter
	closed    int
	lastID    string
	log       bytes.Buffer
	http.Handler
}

func (r *rooms) Submit(ctx context.Context, s job.Submission) (job.Accepted, error) {
	r.submitted = append(r.submitted, s)
	if r.submit == nil {
		return job.Accepted{ID: knownID}, nil
	}
	return r.submit(ctx, s)
}

func (r *rooms) SubmitBatch(_ context.Context, batch []job.Submission) ([]job.Accepted, []error) {
	r.submitted = append(r.submitted, batch...)
	if r.submitBatch != nil {
		return r.submitBatch(batch)
	}
	return slices.Repeat([]job.Accepted{{ID: knownID}}, len(batch)), make([]error, len(batch))
}

func (r *rooms) Hint(job.Tier) time.Duration { return r.hint }

func (r *rooms) Find(_ context.Context, id job.ID) (job.Job, error) {
	r.found = append(r.found, id)
	if r.find == nil {
		return job.Job{}, job.ErrNotFound
	}
	return r.find(id)
}

func (r *rooms) Whole(_ context.Context, j job.Job) (job.Job, bool, error) {
	switch {
	case r.whole != nil:
		return r.whole(j)
	case j.Status.Final():
		j.Payload = nil
		return j, false, nil
	}
	return j, true, nil
}

func (r *rooms) Attempts(context.Context, job.ID) ([]job.Attempt, error) { return r.attempts, nil }

func (r *rooms) Logs(_ context.Context, _ job.ID, after int64) ([]job.LogLine, error) {
	if r.logLines == nil {
		return nil, nil
	}
	return r.logLines(after)
}

func (r *rooms) List(_ context.Context, f job.Filter, cursor string, limit int) ([]job.Job, string, error) {
	return r.list(f, cursor, limit)
}

func (r *rooms) Cancel(_ context.Context, id job.ID, reason string) (job.Word, error) {
	r.said = append(r.said, reason)
	return r.cancel(id)
}

func (r *rooms) Kill(_ context.Context, id job.ID, reason string) error {
	return r.operate("kill " + string(id) + " " + reason)
}

func (r *rooms) Hasten(_ context.Context, id job.ID) error { return r.operate("hasten " + string(id)) }

func (r *rooms) Dismiss(_ context.Context, id job.ID, reason string) error {
	return r.operate("dismiss " + string(id) + " " + reason)
}

func (r *rooms) Reasons(context.Context, *job.Job) ([]job.Reason, error) {
	return r.reasons, r.reasonless
}

func (r *rooms) Dead(_ context.Context, f job.Filter, cursor string, limit int) ([]job.DeadLetter, string, error) {
	return r.dead(f, cursor, limit)
}

func (r *rooms) DeadPage(_ context.Context, f job.Filter, page, size int) ([]job.DeadLetter, int64, error) {
	r.deadPages = append(r.deadPages, f)
	from := min(page*size, len(r.letters))
	return r.letters[from:min(from+size, len(r.letters))], int64(len(r.letters)), r.eachDead
}

func (r *rooms) EachDead(_ context.Context, _ job.Filter, yield func(job.DeadLetter) error) error {
	for _, d := range r.letters {
		if err := yield(d); err != nil {
			return err
		}
	}
	return r.eachDead
}

func (r *rooms) Requeue(_ context.Context, id job.ID, request job.Request) error {
	r.said = append(r.said, request.Reason)
	return r.requeue(id, request.ID)
}

func (r *rooms) RequeueOwn(_ context.Context, id job.ID, request job.Request, quota int) error {
	r.quotas, r.said = append(r.quotas, quota), append(r.said, request.Reason)
	return r.requeue(id, request.ID)
}

func (r *rooms) RequeueDead(_ context.Context, f job.Filter, limit int, dryRun bool, reason string) (int, int, error) {
	r.said = append(r.said, reason)
	return r.requeueDead(f, limit, dryRun)
}

func (r *rooms) Await(ctx context.Context, id job.ID, done func(*job.Job) bool) (job.Job, error) {
	return r.await(ctx, id, done)
}

func (r *rooms) Follow(ctx context.Context, _ job.ID, heard func(job.Job) error) error {
	return r.follow(ctx, heard)
}

func (r *rooms) Stream(lastID string) Subscription {
	r.lastID = lastID
	return r
}

func (r *rooms) C() <-chan job.Message { return r.messages }
func (r *rooms) Close()                { r.closed++ }

func (r *rooms) Position(_ context.Context, j *job.Job) (int64, error) {
	if r.position == nil {
		return 0, job.ErrUnavailable
	}
	return r.position(j)
}

func (r *rooms) Rate() float64 { return r.rate }

func (r *rooms) LineOf(context.Context, *job.Job) (job.LinePlace, error) {
	if r.linePlace == nil {
		return job.LinePlace{}, job.ErrUnavailable
	}
	return *r.linePlace, nil
}

func (r *rooms) Ready(context.Context) Report { return r.ready }

func (r *rooms) Plan(t job.Tier) (job.Plan, bool) { return r.plans.Plan(t) }
func (r *rooms) All() []job.Plan                  { return r.plans.All() }

func (r *rooms) StorePlan(_ context.Context, p job.Plan, ifVersion int64) (job.Plan, error) {
	return r.store(p, ifVersion)
}

// paidQueue is the declared queue of newRooms.
const paidQueue = "paid"

// queueBook is a book of queues whose changes fail with err, or are noted in asked.
type queueBook struct {
	job.QueueBook
	err   error
	asked []string

	purged int
}

func (*queueBook) Count(name string) job.QueueCount {
	return job.QueueCount{Ready: int64(len(name)), Scheduled: 2, Running: 1}
}

func (*queueBook) Limit(q job.Queue) int { return q.LimitOf(1000) }

func (b *queueBook) StoreQueue(_ context.Context, q job.Queue, ifVersion int64) (job.Queue, error) {
	b.asked = append(b.asked, fmt.Sprintf("store %+v, if %d", q, ifVersion))
	q.Version = 4
	return q, b.err
}

func (b *queueBook) DeleteQueue(_ context.Context, name string) error {
	b.asked = append(b.asked, "delete "+name)
	return b.err
}

// pauseBook is a book of pauses whose changes fail with err, or are noted in asked.
type pauseBook struct {
	job.PauseBook
	err     error
	asked   []string
	readers []PauseReader
}

func (b *pauseBook) Readers(context.Context) ([]PauseReader, error) { return b.readers, b.err }

func (b *pauseBook) Pause(_ context.Context, p job.Pause) (job.Pause, error) {
	b.asked = append(b.asked, fmt.Sprintf("pause %s until %s by %q because %q, refuse %t", p.Scope,
		p.Until.Format(time.TimeOnly), p.By, p.Reason, p.Refuse))
	p.Since = aMoment
	return p, b.err
}

func (b *pauseBook) Resume(_ context.Context, scope string) (job.Pause, bool, error) {
	b.asked = append(b.asked, "resume "+scope)
	p, on := b.Find(scope)
	return p, on, b.err
}

func (b *queueBook) PurgeQueue(_ context.Context, name string) (int, bool, error) {
	b.asked = append(b.asked, "purge "+name)
	return b.purged, b.purged > 1000, b.err
}

func (r *rooms) Artifact(context.Context, job.ID) (io.ReadCloser, string, string, int64, error) {
	return r.artifact()
}

func (r *rooms) Stats(context.Context) (Stats, error) { return r.stats() }

func (r *rooms) Series(context.Context, time.Duration) ([]SeriesPoint, error) {
	if r.series == nil {
		return nil, nil
	}
	return r.series()
}

func (r *rooms) Why(context.Context, job.ID) (Why, error) { return r.why() }
func (r *rooms) Health(context.Context) Health            { return r.health }

func (r *rooms) LastAudit(context.Context) (Audit, error) { return r.audit(false) }
func (r *rooms) RunAudit(context.Context) (Audit, error)  { return r.audit(true) }

// sentences returns the events of a stream, without the blank lines.
func sentences(body string) []string {
	return strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
}

// lineBook is some lines and the limits of one key. Calls fail with err.
type lineBook struct {
	now    job.LinesNow
	limits job.LineLimits
	asked  []string
	err    error
}

func (b *lineBook) Lines(_ context.Context, f job.LineFilter, limit int) (job.LinesNow, error) {
	b.asked = append(b.asked, fmt.Sprintf("lines %+v at most %d", f, limit))
	return b.now, b.err
}

func (b *lineBook) Limits(_ context.Context, name string) (job.LineLimits, error) {
	switch {
	case errors.Is(b.err, job.ErrUnavailable):
		return job.LineLimits{}, b.err
	case b.limits.Name == name:
		return b.limits, nil
	}
	return job.LineLimits{Name: name}, nil
}

func (b *lineBook) SetLimits(_ context.Context, l job.LineLimits, version int64) (job.LineLimits, error) {
	pause := ""
	if l.Paused != nil {
		pause = fmt.Sprintf(" paused since %s until %s by %q because %q", l.Paused.Since.Format(time.TimeOnly),
			l.Paused.Until.Format(time.TimeOnly), l.Paused.By, l.Paused.Reason)
		l.Paused = nil
	}
	b.asked = append(b.asked, fmt.Sprintf("%s: %d run, weight %d, %g a second, %d at once, %d wait, strict %t%s, over %d",
		l.Name, l.Running, l.Weight, l.Rate, l.Burst, l.Waiting, l.Strict, pause, version))
	l.Version = 7
	return l, b.err
}
