package archive

import (
	"context"
	"fmt"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// wholeLetter selects dead letters with everything that a requeue needs.
const wholeLetter = "SELECT " + letterColumns + ", f.payload FROM failed_jobs f WHERE "

func (r *failedRow) letter() (job.DeadLetter, error) {
	l := job.DeadLetter{
		Job: job.Job{
			ID: job.ID(r.JobID), Generation: r.Generation, Tier: job.Tier(r.Tier), Type: r.Type, Owner: r.Owner,
			TraceID: r.TraceID,
			Payload: r.Payload, Status: job.Failed, Attempt: r.Attempts, RetryCount: r.TotalRetries, MaxRetries: r.MaxRetries,
			ArrivedAt: database.OrZero(r.ArrivedAt), FirstTriedAt: database.OrZero(r.FirstTriedAt),
			StartedAt: database.OrZero(r.StartedAt), EndedAt: database.OrZero(r.DiscardedAt),
			Cause: job.Cause(r.FailureCause), LastError: r.LastError,
		},
		RequestedAt: database.OrZero(r.RequeueRequestedAt), RequeuedAt: database.OrZero(r.RequeuedAt),
		DismissedAt: database.OrZero(r.DismissedAt),
	}
	if r.RequeueRequestID != nil {
		l.RequestID = *r.RequeueRequestID
	}
	var err error
	if l.Options, err = job.ReadOptions(string(r.Options)); err != nil {
		return l, fmt.Errorf("read dead letter %s: %w", r.JobID, err)
	}
	return l, nil
}

// DeadLetter reads the dead letter of a job's latest generation with its payload, options and requeue marks. It
// returns job.ErrNotFound for a job that has no outcome here, and job.ErrWrongState for a job whose latest outcome
// is not FAILED.
func (a *Archive) DeadLetter(ctx context.Context, id job.ID) (job.DeadLetter, error) {
	latest, err := a.Find(ctx, id)
	if err != nil {
		return job.DeadLetter{}, err
	}
	if latest.Status != job.Failed {
		return job.DeadLetter{}, fmt.Errorf("read dead letter: the job is %s: %w", latest.Status, job.ErrWrongState)
	}
	var r failedRow
	letter := wholeLetter + "f.job_id = ? AND f.generation = ?"
	if err := a.db.Read.WithContext(ctx).Raw(letter, string(id), latest.Generation).Take(&r).Error; err != nil {
		return job.DeadLetter{}, findError(err)
	}
	return r.letter()
}
