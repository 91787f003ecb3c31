package queue

import (
	"context"

	"github.com/tierq/tierq/internal/job"
)

// Fail reports failed attempts. OK: the job will be retried; FAILED: it is a dead letter now, in the outbox.
func (q *Queue) Fail(ctx context.Context, partition int, batch []job.Failure) ([]job.EndReply, error) {
	args := make([]any, 0, 7*len(batch))
	for i := range batch {
		f := &batch[i]
		final := "0"
		if f.Final {
			final = "1"
		}
		args = append(args, string(f.ID), f.Attempt, f.Token, string(f.Cause), f.Error, final, ms(f.Delay))
	}
	return q.endings(ctx, q.fail, partition, len(batch), args)
}
