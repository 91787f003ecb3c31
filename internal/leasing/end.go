package leasing

import (
	"context"
	"math/rand/v2"

	"github.com/tierq/tierq/internal/job"
)

// End ends attempts as their worker reports, and returns an answer per report, in their order.
func (r *Room) End(ctx context.Context, key string, reports []job.WorkerReport) []job.WorkerEnd {
	answers := make([]job.WorkerEnd, len(reports))
	endings := make([]*ending, len(reports))
	leases := make([]held, len(reports))
	for i := range reports {
		h, err := r.open(ctx, key, reports[i].Sealed)
		if err != nil {
			answers[i].Err = err
			continue
		}
		plan, report := r.plan(h.Tier), reports[i].Report
		report.MaxRun, report.Returned = h.MaxRun(plan), report.Kind == job.GaveBack
		backoff := plan.BackoffOf(h.Type).Delay(h.RetryCount, rand.Float64())
		leases[i] = h
		endings[i] = &ending{
			ref: h.Ref(), end: job.Decide(report, r.ResultLimit, backoff), done: make(chan struct{}),
		}
		r.lanes[h.ID.Partition()][endings[i].end.Verb].add(endings[i])
	}
	var left []string
	for i, e := range endings {
		if e == nil {
			continue
		}
		select {
		case <-e.done:
			answers[i] = r.answer(ctx, &leases[i], e)
			if e.err == nil && e.reply.Word != job.Lost {
				left = append(left, seatOf(e.ref))
			}
		case <-ctx.Done():
			answers[i].Err = ctx.Err() // the call goes on: the report counts
		}
	}
	r.leaveSeats(key, left)
	return answers
}

// answer returns what a worker is told of its report.
func (r *Room) answer(ctx context.Context, h *held, e *ending) job.WorkerEnd {
	a := job.WorkerEnd{ID: h.ID, RetryCount: h.RetryCount, MaxRetries: h.MaxRetries, At: e.reply.At, Err: e.err}
	if e.err != nil {
		return a
	}
	a.How, a.Cause = e.end.Answered(e.reply.Word)
	switch a.How {
	case job.EndLost, "":
		a.Err = job.ErrLeaseLost
	case job.EndRetried:
		a.RetryCount++
		a.RunAt = a.At.Add(e.end.Delay)
	case job.EndReleased:
		if e.end.Delay > 0 {
			a.RunAt = a.At.Add(e.end.Delay)
		}
	case job.EndCompleted, job.EndFailed, job.EndCancelled:
		if a.Err = r.Ended(ctx, h.ID); a.Err != nil {
			return a
		}
	}
	r.Observe.Ended(&h.Lease, a.How, a.Cause, max(a.At.Sub(h.StartedAt), 0))
	return a
}
