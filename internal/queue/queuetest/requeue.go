package queuetest

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// Requeue gives dead jobs their next life, as the ledger does with rows that were just read. Of each job it takes ID,
// Generation (the new one), Attempt, Tier, MaxRetries, Type, Owner, TraceID, Options and Payload; the priority is the
// default plan's.
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
