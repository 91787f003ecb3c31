package queue

import (
	"context"
	"fmt"
	"slices"

	"github.com/tierq/tierq/internal/job"
)

// Requeue gives dead jobs a new life. Of each job it takes ID, Generation (the new one), Attempt (as SQL knows it; attempts go on
// counting), Tier, MaxRetries, Type, Owner, TraceID, Options and Payload. OK: it waits; DUPLICATE: that generation exists; BUSY: the old one lives or
// is not in SQL yet; LATE: as with Submit, try again.
func (q *Queue) Requeue(ctx context.Context, partition int, batch []job.Job) ([]job.Word, error) {
	args := make([]any, 0, 2+8*len(batch))
	args = append(args, q.opts.PriorityBase, q.clock.notAfter(partition))
	for i := range batch {
		j := &batch[i]
		plan, ok := q.plans.Plan(j.Tier)
		if !ok {
			return nil, fmt.Errorf("requeue %s: %w: %s", j.ID, job.ErrUnknownTier, j.Tier)
		}
		args = append(args, string(j.ID), j.Generation, j.Attempt, string(j.Tier), plan.Priority, j.MaxRetries, about(j.Type, j.Owner, j.TraceID, j.Options), j.Payload)
	}
	words, err := q.words(ctx, q.redis.Main, q.requeue, partition, len(batch), args)
	if slices.Contains(words, job.Late) {
		q.reread(ctx)
	}
	return words, err
}
