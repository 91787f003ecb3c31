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

// completedColumns read a completed job: its result's row, except result. endedColumns and endedJoins read any other
// ended job: its outcome with its dead letter's columns, except payload and options, and the worker of the last claim
// from the attempt of that number.
const (
	completedColumns = "r.job_id, r.generation, 'COMPLETED' AS outcome, r.attempts AS attempt, r.tier, r.type, r.owner, " +
		"r.retry_count, r.max_retries, r.arrived_at, r.trace_id, r.first_tried_at, r.started_at, " +
		"r.completed_at AS ended_at, r.worker, r.note, r.queue"

	endedColumns = "o.job_id, o.generation, o.outcome, o.attempt, o.tier, o.type, o.owner, o.retry_count, " +
		"o.max_retries, o.arrived_at, o.queue, " +
		"o.trace_id, o.recorded_at, o.first_tried_at, o.started_at, o.ended_at, " +
		"f.first_tried_at AS f_first, f.started_at AS f_start, f.discarded_at AS f_end, f.failure_cause, f.last_error, " +
		"a.worker"
	endedJoins = " LEFT JOIN failed_jobs f ON f.job_id = o.job_id AND f.generation = o.generation " +
		"LEFT JOIN job_attempts a ON a.job_id = o.job_id AND a.attempt = o.attempt"

	findCompleted = "SELECT " + completedColumns + ", r.result, l.progress, COALESCE(LENGTH(l.log), 0) AS log_bytes " +
		"FROM job_results r LEFT JOIN job_logs l ON l.job_id = r.job_id AND l.generation = r.generation " +
		"WHERE r.job_id = ?"
	findOther = "SELECT " + endedColumns + ", l.progress, COALESCE(LENGTH(l.log), 0) AS log_bytes " +
		"FROM job_outcomes o" + endedJoins +
		" LEFT JOIN job_logs l ON l.job_id = o.job_id AND l.generation = o.generation" +
		" WHERE o.job_id = ? AND o.outcome <> 'COMPLETED' ORDER BY o.generation DESC LIMIT 1"
)

// endedRow is a row of either query.
type endedRow struct {
	Ended        outcomeRow `gorm:"embedded"`
	Worker       string
	Result       []byte
	Note         string
	FailedFirst  *time.Time `gorm:"column:f_first"`
	FailedStart  *time.Time `gorm:"column:f_start"`
	FailedEnd    *time.Time `gorm:"column:f_end"`
	FailureCause string
	LastError    string
	Progress     *string
	LogBytes     int
}

func (r *endedRow) job() job.Job {
	o := &r.Ended
	j := job.Job{
		ID: job.ID(o.JobID), Generation: o.Generation, Tier: job.Tier(o.Tier), Type: o.Type, Owner: o.Owner,
		TraceID: o.TraceID,
		Status:  job.Status(o.Outcome), Attempt: o.Attempt, RetryCount: o.RetryCount, MaxRetries: o.MaxRetries,
		ArrivedAt:    database.OrZero(o.ArrivedAt),
		FirstTriedAt: database.OrZero(o.FirstTriedAt), StartedAt: database.OrZero(o.StartedAt),
		EndedAt: database.OrZero(o.EndedAt),
		Worker:  r.Worker,
		Options: job.Options{Queue: o.Queue},
	}
	if r.Progress != nil {
		j.Progress = job.ReadProgress(*r.Progress)
	}
	j.LogBytes = r.LogBytes
	switch j.Status {
	case job.Completed:
		j.Result, j.Note = r.Result, r.Note
	case job.Failed:
		j.Cause, j.LastError = job.Cause(r.FailureCause), r.LastError
		j.FirstTriedAt, j.StartedAt, j.EndedAt =
			database.OrZero(r.FailedFirst), database.OrZero(r.FailedStart), database.OrZero(r.FailedEnd)
	default:
		if j.EndedAt.IsZero() { // the row was recorded by a version without ended_at
			j.EndedAt = o.RecordedAt
		}
	}
	return j
}

// Find reads the outcome of a job's latest generation: COMPLETED with its result, FAILED with cause and error,
// CANCELLED or EXPIRED. Payload and options are not read. Find returns job.ErrNotFound for a job that has no outcome
// here, and job.ErrUnavailable if the database did not answer.
func (a *Archive) Find(ctx context.Context, id job.ID) (job.Job, error) {
	var row endedRow
	db := a.db.Read.WithContext(ctx)
	err := db.Raw(findCompleted, string(id)).Take(&row).Error // a completed job has no later generation
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = db.Raw(findOther, string(id)).Take(&row).Error
	}
	if err != nil {
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
	"WHERE o.job_id = a.job_id AND o.attempt >= a.attempt), (SELECT r.generation FROM job_results r " +
	"WHERE r.job_id = a.job_id AND r.attempts >= a.attempt), 0) END AS generation " +
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
