package client

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

const (
	// A completed job's row is its result, any other outcome is a row of job_outcomes.
	outcomesQuery = `SELECT r.job_id AS job_id, r.generation AS generation, 'COMPLETED', r.attempts, r.retry_count,
  r.max_retries, r.tier, r.type, r.trace_id, r.arrived_at, r.first_tried_at, r.started_at, r.completed_at, 1,
  f.job_id IS NOT NULL, f.requeued_at IS NOT NULL, r.result
FROM job_results r
LEFT JOIN failed_jobs f ON f.job_id = r.job_id AND f.generation = r.generation
UNION ALL
SELECT o.job_id, o.generation, o.outcome, o.attempt, o.retry_count, o.max_retries, o.tier, o.type, o.trace_id,
  o.arrived_at, COALESCE(r.first_tried_at, f.first_tried_at, o.first_tried_at),
  COALESCE(r.started_at, f.started_at, o.started_at), COALESCE(r.completed_at, f.discarded_at, o.ended_at),
  r.job_id IS NOT NULL, f.job_id IS NOT NULL, f.requeued_at IS NOT NULL, r.result
FROM job_outcomes o
LEFT JOIN job_results r ON r.job_id = o.job_id AND r.generation = o.generation
LEFT JOIN failed_jobs f ON f.job_id = o.job_id AND f.generation = o.generation
WHERE o.outcome <> 'COMPLETED'
ORDER BY job_id, generation`
	attemptsQuery = `SELECT job_id, attempt, worker, started_at, finished_at, outcome FROM job_attempts ORDER BY ` +
		`job_id, attempt`
	ownersQuery = `SELECT job_id, generation, owner FROM job_results UNION ALL ` +
		`SELECT job_id, generation, owner FROM job_outcomes WHERE outcome <> 'COMPLETED' ORDER BY job_id, generation`
	tablesQuery = `SELECT (SELECT COUNT(*) FROM job_results), (SELECT COUNT(*) FROM failed_jobs), (SELECT COUNT(*) ` +
		`FROM job_outcomes WHERE outcome = 'CANCELLED')`
	journalQuery = `SELECT job_id FROM accepted_jobs ORDER BY job_id`
)

// ReadSQL fills in what the database has: the outcomes with their rows, the tables' sums and, if there is a
// journal, its rows. The database's times are UTC.
func ReadSQL(ctx context.Context, db *sql.DB, journal bool, e *check.Evidence) error {
	e.Outcomes, e.Journal = nil, nil
	err := rows(ctx, db, outcomesQuery, func(scan func(...any) error) error {
		var o check.Outcome
		var arrived, first, started, ended stamp
		var result []byte
		var hasResult, dead bool
		err := scan(&o.ID, &o.Generation, &o.Outcome, &o.Attempt, &o.RetryCount, &o.MaxRetries, &o.Tier, &o.Type, &o.Trace,
			&arrived, &first, &started, &ended,
			&hasResult, &dead, &o.Requeued, &result)
		o.ArrivedAt, o.FirstTriedAt, o.StartedAt, o.EndedAt = arrived.Time, first.Time, started.Time, ended.Time
		if o.Type == "CALLBACK" {
			o.Trace = check.CallbackTrace(o.Trace)
		}
		if hasResult {
			o.Results, o.ResultSum = 1, resultSum(result)
		}
		if dead {
			o.Dead = 1
		}
		e.Outcomes = append(e.Outcomes, o)
		return err
	})
	if err != nil {
		return fmt.Errorf("read outcomes: %w", err)
	}
	if err := readAttempts(ctx, db, e.Outcomes); err != nil {
		return fmt.Errorf("read attempts: %w", err)
	}
	e.Tables = &check.Sums{}
	if err := db.QueryRowContext(ctx, tablesQuery).Scan(&e.Tables.Completed, &e.Tables.Failed,
		&e.Tables.Cancelled); err != nil {
		return fmt.Errorf("count rows: %w", err)
	}
	if !journal {
		return nil
	}
	e.Journal = []job.ID{} // not nil: there is a journal, even if it is empty
	err = rows(ctx, db, journalQuery, func(scan func(...any) error) error {
		var id job.ID
		err := scan(&id)
		e.Journal = append(e.Journal, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	return nil
}

// ReadOwners returns the owners of the outcomes.
func ReadOwners(ctx context.Context, db *sql.DB) (all []check.Owned, err error) {
	err = rows(ctx, db, ownersQuery, func(scan func(...any) error) error {
		var o check.Owned
		err := scan(&o.ID, &o.Generation, &o.Owner)
		all = append(all, o)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read owners: %w", err)
	}
	return all, nil
}

// readAttempts adds each attempt to the outcome of its generation. Attempts are counted on over generations, and
// an outcome has the number of its last attempt.
func readAttempts(ctx context.Context, db *sql.DB, outcomes []check.Outcome) error {
	i := 0 // outcomes and rows are both in the order of ids
	return rows(ctx, db, attemptsQuery, func(scan func(...any) error) error {
		var id job.ID
		var a job.Attempt
		var started, finished stamp
		if err := scan(&id, &a.Number, &a.Worker, &started, &finished, &a.Outcome); err != nil {
			return err
		}
		a.StartedAt, a.FinishedAt = started.Time, finished.Time
		for i < len(outcomes) && (outcomes[i].ID < id || outcomes[i].ID == id && outcomes[i].Attempt < a.Number) {
			i++
		}
		if i < len(outcomes) && outcomes[i].ID == id {
			outcomes[i].Tries = append(outcomes[i].Tries, a)
		}
		return nil
	})
}

func rows(ctx context.Context, db *sql.DB, query string, each func(scan func(...any) error) error) error {
	found, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		if err := each(found.Scan); err != nil {
			return err
		}
	}
	return found.Err()
}

// stamp is a time that may be NULL. Depending on the driver it arrives as a time or as text.
type stamp struct{ time.Time }

// Scan implements sql.Scanner.
func (s *stamp) Scan(v any) error {
	s.Time = time.Time{}
	var text string
	switch v := v.(type) {
	case nil:
		return nil
	case time.Time:
		s.Time = v
		return nil
	case []byte:
		text = string(v)
	case string:
		text = v
	default:
		return fmt.Errorf("a time as a %T", v)
	}
	for _, layout := range []string{"2006-01-02 15:04:05.999999", time.RFC3339Nano, "2006-01-02 15:04:05.999999-07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			s.Time = t
			return nil
		}
	}
	return fmt.Errorf("%q is no time", text)
}
