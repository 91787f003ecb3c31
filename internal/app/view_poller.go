package app

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
	"github.com/tierq/tierq/internal/queue"
)

// viewPoller reads once a second what every process must know of the cluster (the plans, Redis' time, the levels),
// and registers this process if it runs jobs, and the workers elsewhere that it serves.
type viewPoller struct {
	*loop.Loop
	queue   *queue.Queue
	self    func() *job.WorkerInfo  // nil: this process runs no jobs
	others  func() []job.WorkerInfo // the workers elsewhere that it serves, whose records are due
	seen    atomic.Pointer[view]
	heard   func(view)
	changed func()           // called when a partition has another incarnation; nil = not called
	journal bool             // each living job has a row in SQL
	missing func(jobs int64) // called with the number of jobs that Redis then lacks

	settings *comparer
	remember func(ctx context.Context) error // copies to SQL the plans that Redis has; it logs its own errors

	runs   []string
	anew   bool // Redis began a new incarnation, and the levels were not read since
	log    *slog.Logger
	failed bool
}

// view is the cluster as it was last read. After a failed read the view keeps its values, with ok false.
type view struct {
	ok      bool
	levels  queue.Levels
	oldest  map[job.Tier]time.Time // the arrival of each tier's oldest ready job
	workers []job.WorkerInfo
	at      time.Time // Redis' clock
}

const (
	viewEvery = time.Second
	viewBound = 2 * time.Second
)

func newViewPoller(
	q *queue.Queue,
	self func() *job.WorkerInfo,
	others func() []job.WorkerInfo,
	heard func(view),
	missing func(jobs int64),
	log *slog.Logger,
) *viewPoller {
	p := &viewPoller{queue: q, self: self, others: others, heard: heard, missing: missing, log: log}
	p.Loop = loop.New(p.runOnce)
	return p
}

// last returns the last view, an empty view before the first read.
func (p *viewPoller) last() view {
	if v := p.seen.Load(); v != nil {
		return *v
	}
	return view{}
}

// runOnce logs a failure once, when it begins: the gate and the watches log the rest.
func (p *viewPoller) runOnce(ctx context.Context) time.Duration {
	err := errors.Join(bounded(ctx, p.read), bounded(ctx, p.present))
	if err != nil && !p.failed && ctx.Err() == nil {
		p.log.Warn("cannot read plans and levels; going on with the last known", "err", err)
	}
	p.failed = err != nil
	_ = p.remember(ctx)
	return viewEvery
}

func bounded(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, viewBound)
	defer cancel()
	return f(ctx)
}

// read reads a new view and passes it on.
func (p *viewPoller) read(ctx context.Context) error {
	v := p.last()
	err := p.look(ctx, &v)
	v.ok = err == nil
	p.seen.Store(&v)
	p.heard(v)
	return err
}

func (p *viewPoller) look(ctx context.Context, v *view) error {
	at, err := p.queue.ReadClock(ctx)
	if err != nil {
		return err
	}
	// The set-up is checked each time: a Redis that lost everything must not accept another set-up from the next
	// process that starts.
	trouble := errors.Join(p.queue.CheckSetup(ctx), p.queue.LoadPlans(ctx), p.queue.LoadQueues(ctx),
		p.queue.FitMemory(ctx))
	began := p.lookAtRun(ctx)
	p.anew = p.anew || began
	levels, err := p.queue.View().Levels(ctx)
	// After the levels were read, because the reconciler changes them. If they were not read, the count of missing
	// jobs may be too low.
	if began && p.changed != nil {
		p.changed()
	}
	if err != nil {
		return errors.Join(trouble, err)
	}
	if p.anew {
		p.anew = false
		p.tellLoss(v, levels)
	}
	v.levels, v.at = levels, at
	oldest, err := p.queue.View().Oldest(ctx)
	if err != nil {
		return errors.Join(trouble, err)
	}
	v.oldest = oldest
	workers, err := p.queue.View().Workers(ctx)
	if err == nil {
		v.workers = workers
		p.settings.compare(workers)
	}
	return errors.Join(trouble, err)
}

// lookAtRun says whether Redis began a new incarnation in any partition: then it may have lost jobs.
func (p *viewPoller) lookAtRun(ctx context.Context) (began bool) {
	runs, _ := p.queue.Incarnations(ctx) // a server that does not answer is asked again in a second
	if p.runs == nil {
		p.runs = make([]string, len(runs))
	}
	for i, run := range runs {
		if run != "" && run != p.runs[i] {
			began = began || p.runs[i] != ""
			p.runs[i] = run
		}
	}
	return began
}

// tellLoss logs and counts the jobs that Redis had at the last read and lacks now, at the first read of its new
// incarnation.
func (p *viewPoller) tellLoss(last *view, now queue.Levels) {
	gone, journal := missing(last.levels, now), "on: missing jobs are restored"
	if !p.journal {
		journal = "off: missing jobs are lost, except requeued jobs and callbacks"
	}
	p.missing(gone)
	p.log.Warn("Redis has a new incarnation", "jobs_before", unfinished(last.levels), "jobs_now", unfinished(now),
		"missing", gone, "last_seen", last.at.UTC(), "journal", journal)
}

// unfinished returns how many jobs have no outcome in SQL yet.
func unfinished(l queue.Levels) int64 {
	n := l.Outbox
	for _, t := range l.Tiers {
		n += t.Ready + t.Scheduled + t.Running
	}
	return n
}

// missing returns how many of the unfinished jobs of the read before are gone. Unfinished and acknowledged jobs
// together are all jobs that Redis ever got; that number only grows unless Redis loses jobs. Jobs that arrived
// between the two reads hide as many losses.
func missing(before, now queue.Levels) int64 {
	lost := unfinished(before) + before.Acknowledged - unfinished(now) - now.Acknowledged
	return min(max(lost, 0), unfinished(before))
}

// present registers this process, if it runs jobs, and the workers elsewhere that it serves.
func (p *viewPoller) present(ctx context.Context) error {
	workers := p.others()
	if self := p.self(); self != nil {
		workers = append(workers, *self)
	}
	return p.queue.Register(ctx, workers...)
}

// Stop also unregisters this process.
func (p *viewPoller) Stop(ctx context.Context) error {
	err := p.Loop.Stop(ctx)
	if self := p.self(); self != nil {
		if gone := p.queue.Unregister(ctx, self.Name); gone != nil {
			p.log.Debug("could not unregister this process; its entry expires by itself", "err", gone)
		}
	}
	return err
}
