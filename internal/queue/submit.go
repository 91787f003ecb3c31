package queue

import (
	"context"
	"fmt"
	"strconv"

	"github.com/tierq/tierq/internal/job"
)

// Submit accepts a batch into one partition; every id carries it. OK and DUPLICATE mean accepted, FULL and LATE not. On LATE the
// process' idea of Redis' time was off: it has been read anew, try again.
func (q *Queue) Submit(ctx context.Context, partition int, batch []job.Submission) ([]job.Word, error) {
	args := make([]any, 0, 2+8*len(batch))
	args = append(args, q.opts.PriorityBase, q.clock.notAfter())
	for i := range batch {
		s := &batch[i]
		plan, ok := q.plans.Plan(s.Tier)
		if !ok {
			return nil, fmt.Errorf("submit %s: %w: %s", s.ID, job.ErrUnknownTier, s.Tier)
		}
		args = append(args, string(s.ID), string(s.Tier), plan.Priority, q.limit(plan, s.Delay > 0), ms(s.Delay), s.MaxRetries,
			about(s.Type, s.Owner, s.TraceID), s.Payload)
	}
	words, err := q.words(ctx, q.redis.Main, q.submit, partition, len(batch), args)
	q.reread(ctx, words)
	return words, err
}

// limit is the count of never-claimed jobs at which one partition refuses a tier: its share of the partition's part of the capacity, at
// least 1. Jobs scheduled at submit have a limit of their own, the same for every tier.
func (q *Queue) limit(plan job.Plan, delayed bool) string {
	if delayed {
		return strconv.Itoa(max(q.opts.ScheduledLimit/q.opts.Partitions, 1))
	}
	return strconv.Itoa(max(q.opts.Capacity*plan.Share/100/q.opts.Partitions, 1))
}
