package queue

import (
	"context"

	"github.com/tierq/tierq/internal/job"
)

// Release gives jobs back unharmed: to their place, or with a delay to scheduled. No retry is spent, unless the delay
// is asked for beyond
// LaterLimit or LaterAge: then it is one with the cause LATER_LIMIT, and FAILED without a retry left.
func (q *Queue) Release(ctx context.Context, partition int, batch []job.GiveBack) ([]job.EndReply, error) {
	args := make([]any, 0, 2+5*len(batch))
	args = append(args, q.opts.LaterLimit, ms(q.opts.LaterAge))
	for i := range batch {
		g := &batch[i]
		args = append(args, string(g.ID), g.Attempt, g.Token, ms(g.Delay), g.Reason)
	}
	return q.endings(ctx, q.release, partition, len(batch), args)
}
