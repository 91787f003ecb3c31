package queuetest

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// Requeue puts dead jobs in with their next generation, as the ledger does with rows that it has just read. It
// uses ID, Generation (the new one), Attempt, Tier, MaxRetries, Type, Owner, TraceID, Options and Payload of each
// job; the priority is that of the default plan.
func Requeue(ctx context.Context, q *queue.Queue, partition int, batch []job.Job) ([]job.Word, error) {
	next := make([]job.JournalRow, len(batch))
	for i := range batch {
		d := job.DeadLetter{Job: batch[i]}
		d.Generation--
		for _, plan := range job.DefaultPlans() {
			if plan.Tier == d.Tier {
				next[i] = d.Next(plan.Priority)
			}
		}
	}
	return q.Restore(ctx, partition, next, time.Now())
}

// Requeue is Requeue for the queue under test.
func (e *Env) Requeue(ctx context.Context, partition int, batch []job.Job) ([]job.Word, error) {
	return Requeue(ctx, e.Queue, partition, batch)
}
