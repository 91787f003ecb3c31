package queue

import (
	"context"

	"github.com/tierq/tierq/internal/job"
)

// Release gives jobs back unharmed: to their place, or with a delay to scheduled. No retry is spent.
func (q *Queue) Release(ctx context.Context, partition int, batch []job.GiveBack) ([]job.EndReply, error) {
	args := make([]any, 0, 5*len(batch))
	for i := range batch {
		g := &batch[i]
		args = append(args, string(g.ID), g.Attempt, g.Token, ms(g.Delay), g.Reason)
	}
	return q.endings(ctx, q.release, partition, len(batch), args)
}
