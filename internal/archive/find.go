package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// endedColumns and endedJoins read ended jobs: an outcome with its result's or dead letter's columns, except
// result, payload and options. The worker of the last claim comes from the result, or else from the attempt of
// that number.
const (
	endedColumns = "o.job_id, o.generation, o.outcome, o.attempt, o.tier, o.type, o.owner, o.retry_count, " +
		"o.max_retries, o.arrived_at, " +
		"o.trace_id, o.recorded_at, o.first_tried_at, o.started_at, o.ended_at, " +
		"r.first_tried_at AS r_first, r.started_at AS r_start, r.completed_at AS r_end, r.worker AS r_worker, r.note, " +
		"f.first_tried_at AS f_first, f.started_at AS f_start, f.discarded_at AS f_end, f.failure_cause, f.last_error, " +
		"a.worker AS a_worker"
	endedJoins = " LEFT JOIN job_results r ON r.job_id = o.job_id AND r.generation = o.generation " +
		"LEFT JOIN failed_jobs f ON f.job_id = o.job_id AND f.generation = o.generation " +
		"LEFT JOIN job_attempts a ON a.job_id = o.job_id AND a.attempt = o.attempt"

	findJob = "SELECT " + endedColumns + ", r.result FROM job_outcomes o" + endedJoins +
		" WHERE o.job_id = ? ORDER BY o.generation DESC LIMIT 1"
)

type endedRow struct {
	Ended        outcomeRow `gorm:"embedded"`
	Result       []byte
	ResultFirst  *time.Time `gorm:"column:r_first"`
	ResultStart  *time.Time `gorm:"column:r_start"`
	ResultEnd    *time.Time `gorm:"column:r_end"`
	ResultWorker string     `gorm:"column:r_worker"`
	Note         string
	FailedFirst  *time.Time `gorm:"column:f_first"`
	FailedStart  *time.Time `gorm:"column:f_start"`
	FailedEnd    *time.Time `gorm:"column:f_end"`
	FailureCause string
	LastError    string
	LastWorker   string `gorm:"column:a_worker"`
}

func (r *endedRow) job() job.Job {
	o := &r.Ended
	j := job.Job{
		ID: job.ID(o.JobID), Generation: o.Generation, Tier: job.Tier(o.Tier), Type: o.Type, Owner: o.Owner,
		TraceID: o.TraceID,
		Status:  job.Status(o.Outcome), Attempt: o.Attempt, RetryCount: o.RetryCount, MaxRetries: o.MaxRetries,
		ArrivedAt: database.OrZero(o.ArrivedAt),
		Worker:    r.LastWorker,
	}
	switch j.Status {
	case job.Completed:
		j.Result, j.Worker, j.Note = r.Result, r.ResultWorker, r.Note
		j.FirstTriedAt, j.StartedAt, j.EndedAt =
			database.OrZero(r.ResultFirst), database.OrZero(r.ResultStart), database.OrZero(r.ResultEnd)
	case job.Failed:
		j.Cause, j.LastError = job.Cause(r.FailureCause), r.LastError
		j.FirstTriedAt, j.StartedAt, j.EndedAt =
			database.OrZero(r.FailedFirst), database.OrZero(r.FailedStart), database.OrZero(r.FailedEnd)
	default:
		j.FirstTriedAt, j.StartedAt, j.EndedAt =
			database.OrZero(o.FirstTriedAt), database.OrZero(o.StartedAt), database.OrZero(o.EndedAt)
		if j.EndedAt.IsZero() { // the row was recorded by a version without ended_at
			j.EndedAt = o.RecordedAt
		}
	}
	return j
}

// Find reads the outcome of a job's latest generation: COMPLETED with its result, FAILED with cause and error, or
// CANCELLED. Payload and options are not read. Find returns job.ErrNotFound for a job that has no outcome here,
// and job.ErrUnavailable if the database did not answer.
func (a *Archive) Find(ctx context.Context, id job.ID) (job.Job, error) {
	var row endedRow
	if err := a.db.Read.WithContext(ctx).Raw(findJob, string(id)).Take(&row).Error; err != nil {
		return job.Job{}, findError(err)
	}
	return row.job(), nil
}

// maxAttempts bounds a history. A generation stores at most 50 attempts, so twenty generations fit.
const maxAttempts = 1000

// attemptsOf reads a history. For a row from before the column generation, the query derives the generation:
// attempts are numbered on over all generations, and each outcome says which attempt was its last.
const attemptsOf = "SELECT a.job_id, a.attempt, a.worker, a.started_at, a.finished_at, a.outcome, a.error, " +
	"a.until_at, " +
	"CASE WHEN a.generation > 0 THEN a.generation ELSE COALESCE((SELECT MIN(o.generation) FROM job_outcomes o " +
	"WHERE o.job_id = a.job_id AND o.attempt >= a.attempt), 0) END AS generation " +
	"FROM job_attempts a WHERE a.job_id = ? ORDER BY a.attempt DESC LIMIT ?"

// Attempts reads the unsuccessful attempts of a job over all its generations, the oldest first; if there are more
// than 1,000, the latest 1,000. The attempt that completed the job is not among them: Find returns its worker and
// times. The answer is empty for a job without such attempts and for an unknown job.
func (a *Archive) Attempts(ctx context.Context, id job.ID) ([]job.Attempt, error) {
	var rows []attemptRow
	err := a.db.Read.WithContext(ctx).Raw(attemptsOf, string(id), maxAttempts).Scan(&rows).Error
	if err != nil {
		return nil, database.Unavailable("read attempts", err)
	}
	attempts := make([]job.Attempt, len(rows))
	for i, r := range rows {
		attempts[len(rows)-1-i] = job.Attempt{
			Number: r.Attempt, Generation: r.Generation, Worker: r.Worker,
			StartedAt: database.OrZero(r.StartedAt), FinishedAt: database.OrZero(r.FinishedAt),
			Outcome: r.Outcome, Error: r.Error, Until: database.OrZero(r.UntilAt),
		}
	}
	return attempts, nil
}

func findError(err error) error {
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return fmt.Errorf("find job: %w", job.ErrNotFound)
	}
	return database.Unavailable("find job", err)
}
