package queue

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// OutboxLead is how long the process that completed a first attempt has to write the outcome to SQL from memory
// before the outbox offers the outcome to every drainer. A drainer has the same time for the outcomes it took.
const OutboxLead = 10 * time.Second

// Complete ends jobs of one partition as COMPLETED and puts them into the outbox. It returns a reply per lease:
// OK, CANCELLED (a cancel had been requested) or LOST (the lease is not the stored one; nothing changed).
func (q *Queue) Complete(ctx context.Context, partition int, batch []job.Completion) ([]job.EndReply, error) {
	return q.completing(ctx, partition, batch, OutboxLead)
}

// CompleteElsewhere is Complete for a process that does not have the jobs in memory: the outbox offers the outcomes to
// every drainer at once.
func (q *Queue) CompleteElsewhere(ctx context.Context, partition int, batch []job.Completion) ([]job.EndReply,
	error) {
	return q.completing(ctx, partition, batch, 0)
}

func (q *Queue) completing(ctx context.Context, partition int, batch []job.Completion, lead time.Duration) (
	[]job.EndReply, error) {
	args := make([]any, 0, 1+4*len(batch))
	args = append(args, ms(lead))
	for i := range batch {
		c := &batch[i]
		args = append(args, string(c.ID), c.Attempt, c.Token, c.Result)
	}
	return q.endings(ctx, q.complete, partition, len(batch), args)
}
