package worker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// mistrust is how long after the heartbeat timeout the pool still trusts a lease that it could not extend. The
// watches look twice, 2 s apart, so no other worker can hold the job before timeout + 2 s.
const mistrust = time.Second

// held is a lease that this process holds.
type held struct {
	pool      *Pool
	lease     job.Lease
	partition int
	began     time.Time  // when its handler became ready to begin; zero = never
	ctx       runContext // its deadline is the maximum processing time

	// Under Pool.mu.
	at      int       // its index in Pool.held
	running bool      // the handler has not returned: it uses a slot
	ended   bool      // its ending is chosen; no other ending may be chosen
	settled bool      // the ending was answered, or the lease is lost: no more heartbeats
	beaten  time.Time // when the last heartbeat that succeeded was sent
	safe    time.Time // until then this process certainly holds the lease
	fenced  bool      // no longer trusted: the handler's context was cancelled
	told    time.Time // when the watch first saw its context ended
	stuck   bool      // counted as stuck
	saves   int       // checkpoints so far

	tells atomic.Pointer[notes] // nil = the handler has told nothing

	ending job.End       // set together with ended
	ran    time.Duration // how long the handler had run by then
}

// maxUnackedBytes is how many bytes of undelivered endings may be in memory before the pool stops claiming.
// Running jobs may still end, so at worst each slot adds a payload and a result.
const maxUnackedBytes = 64 << 20

// weight is roughly how many bytes a lease with an ending keeps in memory.
func (h *held) weight() int { return 1024 + len(h.lease.Payload) + h.ending.Size() }

// Running implements handler.Runner, for the handler.
func (h *held) Running() handler.Run {
	l := &h.lease
	return handler.Run{
		ID: l.ID, Generation: l.Generation, Attempt: l.Attempt, RetryCount: l.RetryCount, MaxRetries: l.MaxRetries,
		Tier: l.Tier, Type: l.Type, Owner: l.Owner, Everybody: l.Everybody, TraceID: l.TraceID, Deadline: h.ctx.deadline,
		FirstTriedAt: l.FirstTriedAt, StartedAt: l.StartedAt, Saved: l.Checkpoint,
		Save:   func(ctx context.Context, data []byte) error { return h.pool.save(ctx, h, data) },
		Inputs: h.pool.inputsOf(l.ID),
		Log:    h.pool.log,
		Tell:   h.progressed, Line: h.logged,
	}
}

// inputsOf returns the function that reads the inputs of a job; nil if the pool has none.
func (p *Pool) inputsOf(id job.ID) func(context.Context, string) ([]job.FlowInput, error) {
	if p.cfg.Inputs == nil {
		return nil
	}
	return func(ctx context.Context, name string) ([]job.FlowInput, error) { return p.cfg.Inputs(ctx, id, name) }
}

// fields returns the attributes of every log line about the lease, followed by more.
func (h *held) fields(more ...any) []any {
	l := &h.lease
	return append([]any{"job_id", l.ID, "tier", l.Tier, "type", l.Type, "attempt", l.Attempt, "trace_id", l.TraceID},
		more...)
}

// untrusted says whether another worker might soon hold the job.
func (h *held) untrusted(now time.Time) bool { return now.After(h.safe.Add(mistrust)) }

// age returns how long ago the handler began, 0 if it never did.
func (h *held) age() time.Duration {
	if h.began.IsZero() {
		return 0
	}
	return time.Since(h.began)
}

// end chooses a lease's ending. It returns false if the lease already has one. Pool.mu is held, and the caller
// calls deliver after releasing it.
func (p *Pool) end(h *held, e job.End) bool {
	if h.ended {
		return false
	}
	h.ended, h.ending, h.ran = true, e, h.age()
	p.undelivered++
	p.unackedBytes += h.weight()
	return true
}

// settle marks a lease as answered or lost, and drops it if its handler has returned. Pool.mu is held.
func (p *Pool) settle(h *held) {
	h.ended, h.settled = true, true
	if !h.running {
		p.drop(h)
	}
}

// drop removes a settled lease whose handler has returned from Pool.held. Pool.mu is held.
func (p *Pool) drop(h *held) {
	last := len(p.held) - 1
	p.held[h.at] = p.held[last]
	p.held[h.at].at = h.at
	p.held[last] = nil
	p.held = p.held[:last]
}
