// Package admission decides whether a job may enter. It has the health gate, and the group commit that puts many
// submits into few script calls. An accepted job is in Redis, a refused job is not, and if the answer of Redis is
// lost, the error says that the job's fate is unknown.
package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// Queue is what admission needs of the queue. One Submit is one script call for one partition, of at most job.MaxBatch
// entries and about job.MaxBatchBytes. It answers each entry with OK, HELD, FULL, QUOTA, DUPLICATE, LATE, REPLAY,
// MISMATCH, UNIQUE, TAKEN or REPLACED. Its errors are job.ErrUnavailable (certainly not executed) and job.ErrAmbiguous
// (sent, answer lost). A call may be sent twice.
type Queue interface {
	Submit(ctx context.Context, partition int, batch []job.Submission) ([]job.SubmitReply, error)
}

// Refusal is an error that also says after which time the client should try again.
type Refusal struct {
	Err        error
	RetryAfter time.Duration
}

func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap makes errors.Is see the reason: job.ErrUnhealthy, job.ErrPaused, job.ErrQueueFull or job.ErrQuota.
func (r *Refusal) Unwrap() error { return r.Err }

// RetryIn returns RetryAfter. Callers that know only the method's interface use it.
func (r *Refusal) RetryIn() time.Duration { return r.RetryAfter }

func refuse(reason error, after time.Duration) error {
	return &Refusal{Err: reason, RetryAfter: max(after, time.Second)}
}

// patience is the longest time of one submit from its arrival to its answer, re-sends included.
const patience = 1500 * time.Millisecond

// Options are what an Admission needs. Queue, Plans, Gate and Partitions are required.
type Options struct {
	Queue      Queue
	Plans      *job.PlanBook
	Gate       *Gate
	Partitions int            // 1 to 256
	Rate       func() float64 // jobs that end per second in the whole cluster; 0 = unknown
	// the part of the capacity that never-claimed jobs use, and the tier's limit of it, as last read; 0, 0 = unknown
	Load   func(t job.Tier) (filled, limit int64)
	Pauses *job.PauseBook // nil = nothing is paused
	Log    *slog.Logger

	// Now is Redis' time as this process knows it; nil = that of the host, which is Redis' host too.
	Now func() time.Time
	// With a Journal, a submit has its row there before Redis is asked: with JournalAll every submit, else each submit
	// with a batch. Known says whether Redis has a job, Incarnation returns the incarnation of a partition's data as last
	// read. Either all three are set or none.
	Journal     Journal
	JournalAll  bool
	Known       func(ctx context.Context, id job.ID) (bool, error)
	Incarnation func(partition int) string
}

// Admission accepts or refuses jobs. It is safe for concurrent use.
type Admission struct {
	plans      *job.PlanBook
	gate       *Gate
	drain      drain
	mint       *mint
	committers []*committer
	pauses     *job.PauseBook
	room       *room
	turn       atomic.Uint32
	waits      sync.Pool // of *wait
	journal    Journal   // nil = none
	all        bool      // every submit has a row in the journal
	known      func(ctx context.Context, id job.ID) (bool, error)
	now        func() time.Time
	run        func(partition int) string
	log        *slog.Logger

	mu      sync.Mutex
	running atomic.Bool
	started bool
	group   sync.WaitGroup
}

// New makes an Admission that refuses every submit until Start.
func New(o Options) *Admission {
	if o.Pauses == nil {
		o.Pauses = &job.PauseBook{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &Admission{plans: o.Plans, gate: o.Gate, drain: drain{rate: o.Rate, load: o.Load}, mint: newMint(),
		pauses: o.Pauses, room: newRoom()}
	a.journal, a.known, a.now, a.run, a.log = o.Journal, o.Known, o.Now, o.Incarnation, o.Log
	a.all = o.JournalAll && o.Journal != nil
	a.waits.New = func() any { return newWait() }
	for p := range max(o.Partitions, 1) {
		c := newCommitter(p, o, a.room, &a.group)
		if o.Partitions > 1 {
			c.elsewhere = func(e *entry) bool { return a.choose(&e.submission, &e.asked) != nil }
		}
		c.remembers = o.Partitions > 1 || o.Journal != nil
		a.committers = append(a.committers, c)
	}
	return a
}

// Start begins to accept. It never fails.
func (a *Admission) Start(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.started {
		return nil
	}
	a.started = true
	for _, c := range a.committers {
		c.start()
	}
	a.running.Store(true)
	return nil
}

// Stop refuses new submits and waits until the waiting ones are answered, which takes at most their patience. It
// returns the error of ctx if a call to the queue has not returned by then. Stop may be called twice and before
// Start.
func (a *Admission) Stop(ctx context.Context) error {
	a.mu.Lock()
	a.started = true
	a.mu.Unlock()
	a.running.Store(false)
	for _, c := range a.committers {
		c.stop()
	}
	if err := loop.Waited(ctx, &a.group); err != nil {
		return fmt.Errorf("stop admission: %w", err)
	}
	return nil
}

// Submit accepts a job or refuses it, within 2 s. s.ID must be empty. s.MaxRetries below 0 means the plan's
// number; a larger number than the plan's is reduced to it. No job waits longer than the plan's MaxWait. A nil error
// means that the job is in Redis (and in the journal, if the submit has a row there), under the returned id. A submit
// with a row is finished even if its caller has left. The errors:
//
//   - job.ErrUnknownTier: there is no such plan;
//   - job.ErrMismatch: the Idempotency-Key belongs to a submit with another body;
//   - job.ErrNoBatch, job.ErrSealed: the submit's batch does not take it;
//   - job.ErrTaken, in a *job.TakenError: another job holds the unique key;
//   - job.ErrUnhealthy, job.ErrPaused, job.ErrQueueFull or job.ErrQuota, in a *Refusal: not accepted, and never will
//     be;
//   - job.ErrFateUnknown: the submit was sent and its answer is lost; the returned id can be polled;
//   - the error of ctx: the caller left. The job may have been accepted.
func (a *Admission) Submit(ctx context.Context, s job.Submission) (job.Accepted, error) {
	plan, ok := a.plans.Plan(s.Tier)
	if !ok {
		return job.Accepted{}, job.ErrUnknownTier
	}
	if err := a.open(ctx); err != nil {
		return job.Accepted{}, err
	}
	if a.journals(&s) {
		r := a.submit(ctx, []job.Submission{s}, a.room.takeNow)[0]
		return r.Accepted, r.Err
	}
	w := a.waits.Get().(*wait)
	defer a.waits.Put(w)
	w.begin()
	defer w.timer.Stop()
	var e *entry
	for e == nil || e.moves {
		if !a.room.take(1) {
			return job.Accepted{}, refuse(job.ErrUnhealthy, 0)
		}
		c, err := a.place(&s, e)
		if err == nil {
			e, err = a.entry(&s, plan, c, e, &w.caller)
		}
		if err != nil {
			a.room.give()
			r := a.told(&s, job.Accepted{}, err)
			return r.Accepted, r.Err
		}
		w.left.Store(1)
		c.add(e)
		w.end(ctx, e)
	}
	r := a.result(e)
	return r.Accepted, r.Err
}

// open returns nil if jobs may enter now, or the reason why not.
func (a *Admission) open(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !a.running.Load():
		return refuse(job.ErrUnhealthy, 0)
	case !a.gate.Open():
		return a.gate.refusal(wholeGate)
	}
	return nil
}

// entry makes the entry of a submission for a committer's list, with its id, which names the partition, and its
// retries. before is the submission's entry in the partition that it moves from, or nil.
func (a *Admission) entry(s *job.Submission, plan job.Plan, c *committer, before *entry, who *caller) (*entry, error) {
	if err := a.paused(s); err != nil && before == nil {
		return nil, err
	}
	id, err := a.mint.next(c.partition)
	if err != nil {
		return nil, fmt.Errorf("mint an id: %w", err)
	}
	e := &entry{submission: *s, home: c, priority: plan.Priority, who: who}
	e.submission.Line = plan.LineFor(s.Line, s.Owner)
	e.submission.ExpiresMs = plan.Expiry(s.ExpiresMs, a.due(s))
	if before != nil {
		e.asked, e.why = before.asked, before.why
	}
	e.asked.add(c.partition)
	e.submission.ID = id
	if s.MaxRetries < 0 || s.MaxRetries > plan.MaxRetries {
		e.submission.MaxRetries = plan.MaxRetries
	}
	return e, nil
}

// due returns the time from which a submission may run.
func (a *Admission) due(s *job.Submission) time.Time {
	if !s.RunAt.IsZero() {
		return s.RunAt
	}
	return a.now().Add(s.Delay)
}

// paused returns a Refusal if a pause refuses a submission.
func (a *Admission) paused(s *job.Submission) error {
	p, on := a.pauses.Refusing(s.QueueName(), s.Tier)
	if !on {
		return nil
	}
	after := blindRefusal
	if !p.Until.IsZero() {
		after = time.Until(p.Until)
	}
	return refuse(fmt.Errorf("%w: %s", job.ErrPaused, p.Words()), after)
}

// result returns the Result of an answered entry.
func (a *Admission) result(e *entry) Result {
	switch {
	case e.first != "" && e.answer != "":
		return a.told(&e.submission,
			job.Accepted{ID: e.first, Deduplicated: true, Replaced: e.answer == job.Replaced}, e.err)
	case e.first != "":
		return a.told(&e.submission, job.Accepted{ID: e.first, Replayed: true}, e.err)
	}
	return a.told(&e.submission, job.Accepted{ID: e.submission.ID, Held: e.answer == job.IsHeld}, e.err)
}

// told returns the Result that the caller of a submission gets. A refusal gets the time after which to try again.
func (a *Admission) told(s *job.Submission, accepted job.Accepted, err error) Result {
	var refusal *Refusal
	switch {
	case err == nil:
		return Result{Accepted: accepted}
	case errors.Is(err, job.ErrFateUnknown):
		return Result{Accepted: job.Accepted{ID: accepted.ID}, Err: err}
	case errors.As(err, &refusal):
		return Result{Err: err}
	// no estimate is possible: living jobs may rest for long, and a queue's jobs may have no worker
	case errors.Is(err, job.ErrLivingFull), errors.Is(err, job.ErrOwnLimit), errors.Is(err, job.ErrLineFull):
		return Result{Err: refuse(err, blindRefusal)}
	case errors.Is(err, job.ErrQueueFull):
		return Result{Err: refuse(err, a.drain.room(s))}
	case errors.Is(err, job.ErrQuota):
		return Result{Err: refuse(err, a.Hint(s.Tier))}
	}
	return Result{Err: err}
}
