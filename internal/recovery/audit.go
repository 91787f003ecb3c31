package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// Audited is a queue that can be held to its own rules, step by step. A step puts right what is safe, and is not
// bothered by jobs that move.
type Audited interface {
	// Scan makes the step of a walk over everything that begins at a cursor, "" at first.
	Scan(ctx context.Context, at string) (job.Scanned, error)
	AuditJobs(ctx context.Context, suspects []job.Suspected) ([]job.Finding, error)
	// Recount holds a partition's keys to their types and, if count is set, its counters to its jobs.
	Recount(ctx context.Context, partition int, count bool) ([]job.Finding, error)
	// Missing are those of some jobs that Redis does not know.
	Missing(ctx context.Context, ids []job.ID) ([]job.ID, error)
}

// AuditStore writes what all processes share of the audit.
type AuditStore interface {
	// Lease asks to be the one process that does something for the next ttl.
	Lease(ctx context.Context, name string, ttl time.Duration) (bool, error)
	// KeepAudit keeps the report of a pass.
	KeepAudit(ctx context.Context, r job.AuditReport) error
}

// AuditView reads what all processes share of the audit.
type AuditView interface {
	// LastAudit is the report of the last pass, job.ErrNotFound before the first one.
	LastAudit(ctx context.Context) (job.AuditReport, error)
	// Quarantined lists at most limit jobs that were set aside, and says how many there are.
	Quarantined(ctx context.Context, limit int) ([]job.QuarantinedJob, int64, error)
}

// Outcomes says what SQL has of jobs.
type Outcomes interface {
	Outcomes(ctx context.Context, ids []job.ID) (map[job.ID][]job.Recorded, error)
}

// Journal knows the jobs that were accepted and have no outcome.
type Journal interface {
	// Waiting are those that were written down at least so long ago, by id.
	Waiting(ctx context.Context, after job.ID, limit int, olderThan time.Duration) ([]job.ID, error)
}

// Restorer gives jobs of the journal that have no outcome back to a Redis that does not know them, and says how many.
type Restorer interface {
	Give(ctx context.Context, ids []job.ID) (missing int, err error)
}

// AuditObserver hears what the audit finds.
type AuditObserver interface {
	AuditFound(f job.Finding, n int64)
	AuditEnded(r job.AuditReport)
	Quarantined(n int64)
}

// AuditOptions are what an audit works with. Journal and Restorer may both be nil.
type AuditOptions struct {
	Queue      Audited
	Desk       AuditStore
	View       AuditView
	SQL        Outcomes
	Journal    Journal
	Restorer   Restorer
	Partitions int
	Name       string           // this process, in reports
	Now        func() time.Time // Redis' clock
	Observe    AuditObserver
	Log        *slog.Logger
}

const (
	auditLook  = time.Minute      // how often a process asks whether a pass is due
	auditEvery = 10 * time.Minute // from the beginning of one whole pass to that of the next, over all processes
	auditLease = 3 * time.Minute  // a pass renews it
)

// Audit compares what Redis holds with itself and with SQL, slowly, over and over: one process of the cluster at a
// time.
type Audit struct {
	*loop.Loop
	o     AuditOptions
	turn  chan struct{} // holds one token: a pass of this process takes it
	began bool          // its first turn is over

	mu     sync.Mutex
	yields context.CancelFunc // ends the slow pass that is on its way
}

// NewAudit makes an audit.
func NewAudit(o AuditOptions) *Audit {
	a := &Audit{o: o, turn: make(chan struct{}, 1)}
	a.Loop = loop.New(a.runOnce)
	return a
}

// runOnce makes a pass if one is due. A process that has just started has other things to do first.
func (a *Audit) runOnce(ctx context.Context) time.Duration {
	first := !a.began
	a.began = true
	if err := a.count(ctx); err != nil && ctx.Err() == nil {
		a.o.Log.Debug("cannot count the quarantine", "err", err)
	}
	if first {
		return auditLook
	}
	due, err := a.due(ctx)
	if err == nil && due {
		err = a.slowly(ctx)
	}
	// cancelled: somebody asked for a pass at once
	if err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
		a.o.Log.Warn("audit failed", "err", err, "next_in", auditLook)
	}
	return auditLook
}

func (a *Audit) count(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, n, err := a.o.View.Quarantined(ctx, 0)
	if err == nil {
		a.o.Observe.Quarantined(n)
	}
	return err
}

// due says whether this process is to make a pass now. One that was cut short is made again soon.
func (a *Audit) due(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	last, err := a.o.View.LastAudit(ctx)
	if err != nil && !errors.Is(err, job.ErrNotFound) {
		return false, err
	}
	if age := a.o.Now().Sub(last.StartedAt); err == nil && age >= 0 &&
		(age < auditLook/2 || last.Whole && age < auditEvery) {
		return false, nil
	}
	return a.o.Desk.Lease(ctx, "audit", auditLease)
}

// slowly makes a pass that costs Redis about a hundredth of its time, unless somebody asks for one at once.
func (a *Audit) slowly(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.mu.Lock()
	a.yields = cancel
	a.mu.Unlock()
	_, err := a.take(ctx, 99)
	return err
}

// Run makes a pass at once and answers its report. What ctx does not leave time for is left out, and the report says
// so.
func (a *Audit) Run(ctx context.Context) (job.AuditReport, error) {
	a.mu.Lock()
	if a.yields != nil {
		a.yields()
	}
	a.mu.Unlock()
	return a.take(ctx, 1)
}

// take makes a pass when no other one of this process is on its way. rest is how many times as long as Redis worked it
// then rests.
func (a *Audit) take(ctx context.Context, rest int) (job.AuditReport, error) {
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return job.AuditReport{}, fmt.Errorf("audit: %w", ctx.Err())
	}
	defer func() { <-a.turn }()
	p := a.begin(rest)
	err := p.walk(ctx)
	r := p.end(err)
	if errors.Is(err, context.Canceled) {
		return r, err
	}
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	problem := errors.Join(a.o.Desk.KeepAudit(keep, r), a.count(keep))
	a.o.Observe.AuditEnded(r)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		err = nil // the report says that it was cut short
	}
	return r, errors.Join(err, problem)
}
