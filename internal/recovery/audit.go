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

// Audited is a queue that the audit can check against its own rules, step by step. A step repairs what is safe to
// repair. Jobs that move meanwhile do not disturb it.
type Audited interface {
	// Scan makes the step of a walk over all data that begins at a cursor; "" begins the walk.
	Scan(ctx context.Context, at string) (job.Scanned, error)
	AuditJobs(ctx context.Context, suspects []job.Suspected) ([]job.Finding, error)
	// Recount checks a partition's keys against their types and, if count is true, its counters against its jobs.
	Recount(ctx context.Context, partition int, count bool) ([]job.Finding, error)
	// Missing returns those of the ids whose jobs Redis does not have.
	Missing(ctx context.Context, ids []job.ID) ([]job.ID, error)
}

// AuditStore writes the data of the audit that all processes share.
type AuditStore interface {
	// Lease tries to make this process the only one that does a named piece of work for the next ttl.
	Lease(ctx context.Context, name string, ttl time.Duration) (bool, error)
	// KeepAudit stores the report of a pass.
	KeepAudit(ctx context.Context, r job.AuditReport) error
}

// AuditView reads the data of the audit that all processes share.
type AuditView interface {
	// LastAudit returns the report of the last pass, or job.ErrNotFound before the first one.
	LastAudit(ctx context.Context) (job.AuditReport, error)
	// Quarantined lists at most limit jobs that were set aside. The number is that of all such jobs.
	Quarantined(ctx context.Context, limit int) ([]job.QuarantinedJob, int64, error)
}

// Outcomes returns what SQL has recorded of jobs.
type Outcomes interface {
	Outcomes(ctx context.Context, ids []job.ID) (map[job.ID][]job.Recorded, error)
}

// Journal has the jobs that were accepted and have no outcome.
type Journal interface {
	// Waiting returns the ids of rows that were written at least olderThan ago, in order, starting behind after.
	Waiting(ctx context.Context, after job.ID, limit int, olderThan time.Duration) ([]job.ID, error)
}

// Restorer restores journaled jobs without an outcome to a Redis that lacks them, and returns how many it lacked.
type Restorer interface {
	Give(ctx context.Context, ids []job.ID) (missing int, err error)
}

// FlowStore has the flows.
type FlowStore interface {
	// CheckFlows checks the next limit flows that have not ended, behind after ("" = from the beginning), and repairs
	// them. It returns the jobs whose journal rows it wrote; next is "" at the end.
	CheckFlows(ctx context.Context, after job.ID, limit int, now time.Time) (
		found []job.Finding, released []job.ID, next job.ID, err error)
}

// AuditObserver is told what the audit finds.
type AuditObserver interface {
	AuditFound(f job.Finding, n int64)
	AuditEnded(r job.AuditReport)
	Quarantined(n int64)
}

// Batches checks the batches in SQL, which count their members.
type Batches interface {
	// CheckBatches checks and repairs some batches behind after, and says where the next call goes on, "" at the end.
	// missing returns those ids that Redis does not know.
	CheckBatches(ctx context.Context, after job.ID, missing func(context.Context, []job.ID) ([]job.ID, error)) (
		found []job.Finding, next job.ID, err error)
}

// Places holds the reserved places in Redis to the jobs that SQL has.
type Places interface {
	// Check makes a step of a walk that repairs them: "" begins it, and next is "" at its end.
	Check(ctx context.Context, at string) (found []job.Finding, next string, err error)
}

// AuditOptions are the parts that an audit needs. Journal, Batches and Places may be nil; so may Flows, and Restorer if
// Journal and Flows both are.
type AuditOptions struct {
	Queue      Audited
	Desk       AuditStore
	View       AuditView
	SQL        Outcomes
	Journal    Journal
	Flows      FlowStore
	Restorer   Restorer
	Batches    Batches
	Places     Places
	Partitions int
	Name       string           // this process, in reports
	Now        func() time.Time // Redis' clock
	Observe    AuditObserver
	Log        *slog.Logger
}

const (
	auditLook  = time.Minute      // how often a process checks whether a pass is due
	auditEvery = 10 * time.Minute // from the start of a complete pass to the start of the next, over all processes
	auditLease = 3 * time.Minute  // how long the lease lasts; a pass renews it
)

// Audit compares the data in Redis with itself and with SQL, slowly and again and again. Only one process of the
// cluster does so at a time.
type Audit struct {
	*loop.Loop
	o     AuditOptions
	turn  chan struct{} // has room for one token, which a pass of this process holds
	began bool          // runOnce was called before

	mu     sync.Mutex
	yields context.CancelFunc // cancels the slow pass that is under way
}

// NewAudit makes an audit.
func NewAudit(o AuditOptions) *Audit {
	a := &Audit{o: o, turn: make(chan struct{}, 1)}
	a.Loop = loop.New(a.runOnce)
	return a
}

// runOnce makes a pass if one is due. The first call makes none, because a process that has just started has other
// work.
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
	// cancelled: Run was called for a pass at once
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

// due says whether this process must make a pass now. A pass that was cut short is repeated soon.
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

// slowly makes a pass that takes about a hundredth of Redis' time. A call of Run ends it.
func (a *Audit) slowly(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.mu.Lock()
	a.yields = cancel
	a.mu.Unlock()
	_, err := a.take(ctx, 99)
	return err
}

// Run makes a pass at once and returns its report. If ctx ends before the pass does, the report says that it is
// not whole.
func (a *Audit) Run(ctx context.Context) (job.AuditReport, error) {
	a.mu.Lock()
	if a.yields != nil {
		a.yields()
	}
	a.mu.Unlock()
	return a.take(ctx, 1)
}

// take makes a pass once no other pass of this process is under way. After each step it rests rest times as long
// as the step took.
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
		err = nil // the report says that the pass was cut short
	}
	return r, errors.Join(err, problem)
}
