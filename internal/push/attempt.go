package push

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// attempt is one job that is being posted.
type attempt struct {
	lease  job.WorkerLease
	queue  string
	push   job.Push
	cancel context.CancelCauseFunc
	until  time.Time // the lease is surely held until then; under Pusher.mu
}

// begin posts a job on a goroutine of its own. A job that came after the claimer's end goes back.
func (p *Pusher) begin(c *claimer, lease job.WorkerLease) {
	a := &attempt{lease: lease, queue: c.queue, push: c.push, until: lease.Until}
	limited, free := context.WithDeadlineCause(p.base, lease.Ends, handler.ErrMaxTime)
	ctx, cancel := context.WithCancelCause(limited)
	a.cancel = cancel
	p.mu.Lock()
	p.running[a] = struct{}{}
	p.counts[a.queue]++
	p.mu.Unlock()
	go func() {
		defer p.ended(a)
		defer free()
		if c.ctx.Err() != nil {
			p.report(a, job.Report{Kind: job.GaveBack})
			return
		}
		p.run(ctx, a)
	}()
}

// ended forgets an attempt.
func (p *Pusher) ended(a *attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, a)
	if p.counts[a.queue]--; p.counts[a.queue] == 0 {
		delete(p.counts, a.queue)
	}
	p.wake()
}

// run posts the job and reports what the receiver answered. After a 202 it reports nothing.
func (p *Pusher) run(ctx context.Context, a *attempt) {
	l := &a.lease
	ctx = handler.WithRun(ctx, handler.Run{
		ID: l.ID, Generation: l.Generation, Attempt: l.Attempt, RetryCount: l.RetryCount, MaxRetries: l.MaxRetries,
		Tier: l.Tier, Type: l.Type, Owner: l.Owner, Everybody: l.Everybody, TraceID: l.TraceID,
		Deadline: l.Ends, FirstTriedAt: l.FirstTriedAt, StartedAt: l.StartedAt, Saved: l.Checkpoint,
		Log: p.Log,
	})
	after := func(error) {}
	if p.Around != nil {
		ctx, after = p.Around(ctx, &l.Lease)
	}
	sealed := ""
	if a.push.Key != "" || p.Open() {
		sealed = l.Sealed
	}
	answer, err := p.Post(ctx, a.push, l, sealed)
	after(err)
	switch {
	case err != nil:
		p.report(a, handler.Report(err, handler.Judge(err), context.Cause(ctx)))
	case answer.Takes:
		p.handOver(a)
	default:
		p.report(a, job.Report{Result: answer.Result, Cut: answer.Cut})
	}
}

// handOver gives a receiver that answered 202 the whole length of the lease from now. If that fails, the lease still
// lives since its last heartbeat.
func (p *Pusher) handOver(a *attempt) {
	ctx, cancel := context.WithTimeout(p.io, beatBound)
	defer cancel()
	_, err := p.Leases.Heartbeat(ctx, a.push.Key, []job.WorkerBeat{{Sealed: a.lease.Sealed}})
	if err != nil {
		p.Log.Warn("a receiver that ends its job later has less time for its first heartbeat", "job_id", a.lease.ID,
			"err", err)
	}
}

// report ends the attempt. It repeats the report until it is answered, or Stop gives up.
func (p *Pusher) report(a *attempt, r job.Report) {
	one := []job.WorkerReport{{Sealed: a.lease.Sealed, Report: r}}
	wait := 50 * time.Millisecond
	for {
		err := p.Leases.End(p.io, a.push.Key, one)[0].Err
		gone := errors.Is(err, job.ErrLeaseLost) || errors.Is(err, job.ErrBadLease)
		if err == nil || gone {
			p.tried("report", nil)
		}
		switch {
		case err == nil:
			return
		case gone:
			p.Log.Warn("the end of a post came too late: the lease was lost", "job_id", a.lease.ID, "queue", a.queue)
			return
		}
		p.tried("report", err)
		// The waits differ, so that many reports do not come at once.
		if !pause(p.io, wait/2+rand.N(wait)) {
			p.mu.Lock()
			p.lost++
			p.mu.Unlock()
			return
		}
		wait = min(2*wait, time.Second)
	}
}
