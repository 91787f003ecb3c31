package queue

import (
	"context"
	"fmt"

	"github.com/tierq/tierq/internal/job"
)

// Requeue gives dead jobs a new life, with a new arrival. Of each job it takes ID, Generation (the new one), Attempt
// (as SQL knows it; attempts go on counting), Tier, MaxRetries, Type, Owner, TraceID, Options and Payload. It answers
// as Restore does; BUSY also means that the earlier life ended and is not in SQL yet.
func (q *Queue) Requeue(ctx context.Context, partition int, batch []job.Job) ([]job.Word, error) {
	next := make([]job.Living, len(batch))
	for i := range batch {
		j := &batch[i]
		plan, ok := q.plans.Plan(j.Tier)
		if !ok {
			return nil, fmt.Errorf("requeue %s: %w: %s", j.ID, job.ErrUnknownTier, j.Tier)
		}
		next[i] = job.Living{Priority: plan.Priority, Job: job.Job{
			ID: j.ID, Generation: j.Generation, Attempt: j.Attempt, Tier: j.Tier, MaxRetries: j.MaxRetries,
			Type: j.Type, Owner: j.Owner, TraceID: j.TraceID, Options: j.Options, Payload: j.Payload,
		}}
	}
	return q.Restore(ctx, partition, next)
}
