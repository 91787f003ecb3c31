package app

import (
	"context"

	"github.com/tierq/tierq/internal/admission"
	"github.com/tierq/tierq/internal/handlers"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/ledger"
	"github.com/tierq/tierq/internal/telemetry"
)

// batchBook is another name of ledger.Batches: an embedded field with the name Batches would hide the method Batches.
type batchBook = ledger.Batches

// batches makes and reads batches for the API. A batch is in SQL only; Redis has the places of the jobs that it owes.
type batches struct {
	*batchBook
	admission *admission.Admission
	places    *admission.Reserver
	metrics   *telemetry.Metrics
}

// Create stores a batch without members.
func (b batches) Create(ctx context.Context, batch job.Batch, quota int, key job.Idempotency) (
	stored job.Batch, replayed bool, err error) {
	batch.ID = b.NewID()
	kept, err := b.places.Reserve(ctx, placesOwed(&batch, quota))
	if err != nil {
		return job.Batch{}, false, err
	}
	stored, replayed, err = b.batchBook.Create(ctx, batch, key)
	if replayed || certain(err) {
		b.places.Free(ctx, kept)
	}
	return stored, replayed, err
}

// Submit accepts a batch with its first members, with the limits of submits: the members and the jobs that the batch
// will owe have their places before SQL gets it.
func (b batches) Submit(ctx context.Context, batch job.Batch, jobs []job.Submission, quota int, key job.Idempotency) (
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
	if err != nil {
		return job.Batch{}, nil, false, err
	}
	batch.Total = int64(len(jobs))
	places := placesOwed(&batch, quota)
	for i := range rows {
		places = append(places, placeOf(&rows[i].Job, quota))
	}
	kept, err := b.places.Reserve(ctx, places)
	if err != nil {
		return job.Batch{}, nil, false, err
	}
	stored, ids, err = b.batchBook.Submit(ctx, &batch, rows, key)
	replayed = err == nil && stored.ID != batch.ID
	if replayed || certain(err) {
		b.places.Free(ctx, kept)
	}
	return stored, ids, replayed, err
}

// placesOwed returns the places of the jobs that a batch will owe at the end of its present round. They wait in SQL
// until then, unless the batch ends as it is made.
func placesOwed(b *job.Batch, quota int) []job.Reservation {
	of := *b
	of.Round = max(of.Round, 1)
	var places []job.Reservation
	add := func(j *job.Job) {
		place := placeOf(j, quota)
		place.Waits, place.Batch = !b.Sealed || b.Total > 0, b.ID
		places = append(places, place)
	}
	// The end that is told with the most digits, so that no job is longer than its place.
	of.Total, of.Completed = maxCount, maxCount
	of.Sealed, of.EndedRound = true, of.Round
	if then, owed := of.ThenJob(); owed {
		add(&then)
	}
	if of.CallbackURL != "" {
		of.Failed, of.Cancelled, of.Expired = maxCount, maxCount, maxCount
		callback := handlers.BatchCallback(&of)
		add(&callback)
	}
	return places
}

// maxCount has as many digits as a batch may have members.
const maxCount = 9_999_999

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
