package app

import (
	"context"

	"github.com/tierq/tierq/internal/admission"
	"github.com/tierq/tierq/internal/handlers"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/ledger"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/telemetry"
)

// batchBook is another name of ledger.Batches: an embedded field with the name Batches would hide the method Batches.
type batchBook = ledger.Batches

// batches makes and reads batches for the API. A batch is in SQL only; Redis is asked for its capacity.
type batches struct {
	*batchBook
	admission *admission.Admission
	view      *queue.View
	metrics   *telemetry.Metrics
}

// Submit accepts a batch with its first members, with the limits of submits. Concurrent requests may exceed the limits.
func (b batches) Submit(ctx context.Context, batch job.Batch, jobs []job.Submission, key job.Idempotency) (
	stored job.Batch, ids []job.ID, replayed bool, err error) {
	defer func() {
		if ctx.Err() == nil {
			how := telemetry.SubmitOf(job.Accepted{Replayed: replayed}, err)
			for i := range jobs {
				b.metrics.Submitted(jobs[i].Tier, how)
			}
		}
	}()
	rows, err := b.admission.PrepareBatch(ctx, &batch, jobs)
	if err == nil {
		err = roomFor(ctx, b.view, b.admission, jobs)
	}
	if err != nil {
		return job.Batch{}, nil, false, err
	}
	stored, ids, err = b.batchBook.Submit(ctx, &batch, rows, key)
	return stored, ids, err == nil && stored.ID != batch.ID, err
}

// owesOfBatches returns the function that makes the journal rows of the jobs that a batch owes at the end of a round:
// its then job and its callback. A job whose tier this process does not know gets the last tier.
func owesOfBatches(plans *job.PlanBook) func(b *job.Batch) []job.JournalRow {
	return func(b *job.Batch) (rows []job.JournalRow) {
		if then, owed := b.ThenJob(); owed {
			rows = append(rows, rowOf(plans, then))
		}
		if b.CallbackURL != "" {
			rows = append(rows, rowOf(plans, handlers.BatchCallback(b)))
		}
		return rows
	}
}

// rowOf returns the journal row of a job that SQL owes to Redis.
func rowOf(plans *job.PlanBook, j job.Job) job.JournalRow {
	l := job.JournalRow{Job: j}
	plan, known := plans.Plan(l.Tier)
	if all := plans.All(); !known && len(all) > 0 {
		plan = all[len(all)-1]
		l.Tier = plan.Tier
	}
	l.Priority = plan.Priority
	return l
}
