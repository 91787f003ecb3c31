package worker

import (
	"context"
	"fmt"

	"github.com/tierq/tierq/internal/failpoint"
	"github.com/tierq/tierq/internal/job"
)

// sender makes one call at a time and reuses its memory from call to call.
type sender struct {
	pool        *Pool
	batcher     *batcher
	batch       []*held
	completions []job.Completion
	failures    []job.Failure
	giveBacks   []job.Release
}

// send sends the batch with the call of the batcher's verb.
func (s *sender) send(ctx context.Context) (replies []job.EndReply, err error) {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	q, partition := s.pool.queue, s.batcher.partition
	switch s.batcher.verb {
	case job.Completes:
		s.completions = s.completions[:0]
		for _, h := range s.batch {
			s.completions = append(s.completions, job.Completion{LeaseRef: h.lease.Ref(), Result: h.ending.Result})
		}
		replies, err = q.Complete(ctx, partition, s.completions)
	case job.Fails:
		s.failures = s.failures[:0]
		for _, h := range s.batch {
			e := &h.ending
			s.failures = append(s.failures,
				job.Failure{LeaseRef: h.lease.Ref(), Cause: e.Cause, Error: e.Text, Final: e.Final, Delay: e.Delay})
		}
		replies, err = q.Fail(ctx, partition, s.failures)
	default:
		s.giveBacks = s.giveBacks[:0]
		for _, h := range s.batch {
			e := &h.ending
			s.giveBacks = append(s.giveBacks, job.Release{LeaseRef: h.lease.Ref(), Delay: e.Delay, Reason: e.Text})
		}
		replies, err = q.Release(ctx, partition, s.giveBacks)
	}
	if err == nil && len(replies) != len(s.batch) {
		return nil, fmt.Errorf("%s: %d replies for %d entries", s.batcher.verb, len(replies), len(s.batch))
	}
	return replies, err
}

// answered acts on the replies and settles the leases. The caller does not hold Pool.mu.
func (p *Pool) answered(batch []*held, replies []job.EndReply) {
	if failpoint.Enabled {
		ids := make([]job.ID, len(batch))
		for i, h := range batch {
			ids[i] = h.lease.ID
		}
		// the points complete.after, fail.after and release.after: all entries of a call have one verb
		failpoint.Hit(batch[0].ending.Verb.String()+".after", ids...)
	}
	wake := false
	for i, h := range batch {
		if p.note(h, replies[i]) {
			wake = true
		}
	}
	if wake {
		p.recorder.Wake()
	}
	p.mu.Lock()
	for _, h := range batch {
		p.undelivered--
		p.unackedBytes -= h.weight()
		p.settle(h)
	}
	p.mu.Unlock()
	p.freed.Set()
	p.changed.Set()
}

// note counts one reply, calls the observer, and offers the success of a first attempt to the recorder. It returns
// true if the outbox has an outcome that was not offered.
func (p *Pool) note(h *held, reply job.EndReply) (wake bool) {
	how, cause := h.ending.Answered(reply.Word)
	switch how {
	case job.EndCompleted:
		p.counters.completed.Add(1)
		wake = !p.offer(h, reply)
	case job.EndRetried:
		p.counters.failed.Add(1)
		p.log.Info("the attempt failed; the job is retried", h.fields("cause", cause)...)
	case job.EndFailed:
		p.counters.failed.Add(1)
		p.log.Info("the job failed for good", h.fields("cause", cause)...)
		wake = true
	case job.EndReleased:
		p.counters.released.Add(1)
		if cause == job.UnknownJobType {
			p.log.Warn("no handler for the job's type: the job waits for a worker that has one", h.fields()...)
		}
	case job.EndCancelled:
		p.counters.cancelled.Add(1)
		wake = true
	case job.EndLost:
		p.counters.lost.Add(1)
		p.log.Warn("the ending came too late: the lease was lost", h.fields("ending", h.ending.Verb.String())...)
	default:
		p.log.Error("an ending got an unknown answer",
			h.fields("ending", h.ending.Verb.String(), "word", reply.Word)...)
		return false
	}
	p.cfg.Observe.Ended(&h.lease, how, cause, h.ran)
	return wake
}

// offer offers the completion of a first attempt to the recorder and returns true, even if the recorder refuses:
// the outbox offers a refused outcome later. It returns false for a later attempt, because that outcome's history
// is only in Redis, and for one whose handler told anything beside the result.
func (p *Pool) offer(h *held, reply job.EndReply) bool {
	if h.lease.Attempt != 1 || h.notes() != nil {
		return false
	}
	o := job.Outcome{Job: h.lease.Job}
	o.Status, o.EndedAt, o.Result = job.Completed, reply.At, h.ending.Result
	p.recorder.Offer(o)
	return true
}
