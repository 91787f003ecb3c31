package worker

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// mistrust is how long after the heartbeat timeout the pool believes in a lease it could not extend: the watches look
// twice, 2 s apart, so nobody else can hold the job before timeout + 2 s.
const mistrust = time.Second

// held is a lease in this process' hands.
type held struct {
	pool      *Pool
	lease     job.Lease
	partition int
	began     time.Time  // when its handler was to begin; zero = never
	ctx       runContext // its deadline is the maximum processing time

	// Under Pool.mu.
	at      int       // its place in Pool.held
	running bool      // the handler has not returned: it occupies a slot
	ended   bool      // its ending is chosen; nothing may choose another
	settled bool      // the ending was answered, or the lease is lost: no heartbeat any more
	beaten  time.Time // when the last heartbeat that succeeded was sent
	safe    time.Time // until then the lease is ours for certain
	fenced  bool      // not trusted any more: the handler was told
	told    time.Time // when its context was first seen ended
	stuck   bool      // counted as stuck
	saves   int       // checkpoints so far

	ending ending        // set by whoever set ended
	ran    time.Duration // and how long the handler had run by then
}

// maxUnackedBytes is how many bytes of undelivered endings may be in memory before the pool claims no more. What runs
// by then may still end, so that at the worst there is beside them a payload and a result per slot.
const maxUnackedBytes = 64 << 20

// weight is about what a lease with an ending keeps in memory.
func (h *held) weight() int { return 1024 + len(h.lease.Payload) + h.ending.size() }

// Running implements handler.Runner, for the handler.
func (h *held) Running() handler.Run {
	l := &h.lease
	return handler.Run{
		ID: l.ID, Generation: l.Generation, Attempt: l.Attempt, RetryCount: l.RetryCount, MaxRetries: l.MaxRetries,
		Tier: l.Tier, Type: l.Type, Owner: l.Owner, Everybody: l.Everybody, TraceID: l.TraceID, Deadline: h.ctx.deadline,
		FirstTriedAt: l.FirstTriedAt, StartedAt: l.StartedAt, Saved: l.Checkpoint,
		Save: func(ctx context.Context, data []byte) error { return h.pool.save(ctx, h, data) },
		Log:  h.pool.log,
	}
}

// fields are what every log line about the lease carries, followed by more.
func (h *held) fields(more ...any) []any {
	l := &h.lease
	return append([]any{"job_id", l.ID, "tier", l.Tier, "type", l.Type, "attempt", l.Attempt, "trace_id", l.TraceID},
		more...)
}

// untrusted: another worker might soon hold this job.
func (h *held) untrusted(now time.Time) bool { return now.After(h.safe.Add(mistrust)) }

// age is how long ago the handler began, 0 if it never did.
func (h *held) age() time.Duration {
	if h.began.IsZero() {
		return 0
	}
	return time.Since(h.began)
}

// end chooses a lease's ending; it is false if it has one. Pool.mu is held, and deliver follows after it is released.
func (p *Pool) end(h *held, e ending) bool {
	if h.ended {
		return false
	}
	h.ended, h.ending, h.ran = true, e, h.age()
	p.undelivered++
	p.unackedBytes += h.weight()
	return true
}

// settle ends what is owed for a lease: it is answered, or lost. Pool.mu is held.
func (p *Pool) settle(h *held) {
	h.ended, h.settled = true, true
	if !h.running {
		p.drop(h)
	}
}

// drop forgets a lease that is settled and whose handler has returned. Pool.mu is held.
func (p *Pool) drop(h *held) {
	last := len(p.held) - 1
	p.held[h.at] = p.held[last]
	p.held[h.at].at = h.at
	p.held[last] = nil
	p.held = p.held[:last]
}
