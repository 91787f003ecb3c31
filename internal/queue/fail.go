package queue

import (
	"context"

	"github.com/tierq/tierq/internal/job"
)

// Fail reports failed attempts. It returns a reply per lease: OK (the job will be retried), FAILED (the job is a
// dead letter and in the outbox), CANCELLED (a cancel had been requested) or LOST (the lease is not the stored
// one). An attempt whose cause is UNKNOWN_JOB_TYPE costs no retry: the script chooses the delay, and the job fails
// after UnknownFor.
func (q *Queue) Fail(ctx context.Context, partition int, batch []job.Failure) ([]job.EndReply, error) {
	args := q.failing(len(batch))
	for i := range batch {
		f := &batch[i]
		report, final := "fail", "0"
		if f.Cause == job.UnknownJobType {
			report = "unknown"
		}
		if f.Final {
			final = "1"
		}
		args = append(args, string(f.ID), f.Attempt, f.Token, report, string(f.Cause), f.Error, final, ms(f.Delay))
	}
	return q.endings(ctx, q.fail, partition, len(batch), args)
}

// Release gives jobs back unharmed: to their place in the queue or, with a delay, to scheduled. That costs no retry. A
// job that was Returned five times in a row within a minute waits longer and longer. A delay beyond LaterLimit or
// LaterAge costs one retry, with the cause LATER_LIMIT; a job without a retry left is then FAILED.
func (q *Queue) Release(ctx context.Context, partition int, batch []job.Release) ([]job.EndReply, error) {
	args := q.failing(len(batch))
	for i := range batch {
		g := &batch[i]
		kind := "release"
		switch {
		case g.Delay > 0:
			kind = "later"
		case g.Returned:
			kind = "return"
		}
		args = append(args, string(g.ID), g.Attempt, g.Token, kind, "", g.Reason, "0", ms(g.Delay))
	}
	return q.endings(ctx, q.fail, partition, len(batch), args)
}

// failing returns the first arguments of the fail script, with room for the arguments of so many leases.
func (q *Queue) failing(leases int) []any {
	return append(make([]any, 0, 3+8*leases), q.opts.LaterLimit, ms(q.opts.LaterAge), ms(q.opts.UnknownFor))
}
