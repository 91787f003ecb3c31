package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/job"
)

// Find reads the outcome of a job's latest generation: COMPLETED with its result, FAILED with cause and error, or CANCELLED
// (EndedAt is then when SQL heard of it). The payload is not read. It returns job.ErrNotFound for a job that has no outcome
// here, and an error that is job.ErrUnavailable if the database did not answer.
func (a *Archive) Find(ctx context.Context, id job.ID) (job.Job, error) {
	db := a.read.WithContext(ctx)
	var o outcomeRow
	if err := db.Where("job_id = ?", string(id)).Order("generation DESC").Limit(1).Take(&o).Error; err != nil {
		return job.Job{}, findError(err)
	}
	j := job.Job{
		ID: id, Generation: o.Generation, Tier: job.Tier(o.Tier), Type: o.Type, Owner: o.Owner, TraceID: o.TraceID,
		Status: job.Status(o.Outcome), Attempt: o.Attempt, RetryCount: o.RetryCount, MaxRetries: o.MaxRetries, ArrivedAt: orZero(o.ArrivedAt),
	}
	var err error
	switch j.Status {
	case job.Completed:
		var r resultRow
		err = db.Where("job_id = ?", string(id)).Take(&r).Error
		j.Result, j.FirstTriedAt, j.StartedAt, j.EndedAt = r.Result, orZero(r.FirstTriedAt), orZero(r.StartedAt), orZero(r.CompletedAt)
	case job.Failed:
		var f failedRow
		err = db.Omit("payload", "options").Where("job_id = ? AND generation = ?", string(id), o.Generation).Take(&f).Error
		j.Cause, j.LastError = job.Cause(f.FailureCause), f.LastError
		j.FirstTriedAt, j.StartedAt, j.EndedAt = orZero(f.FirstTriedAt), orZero(f.StartedAt), orZero(f.DiscardedAt)
	default:
		j.EndedAt = o.RecordedAt
	}
	if err != nil {
		return job.Job{}, findError(err)
	}
	return j, nil
}

func findError(err error) error {
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return fmt.Errorf("find job: %w", job.ErrNotFound)
	}
	return unavailable("find job", err)
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
