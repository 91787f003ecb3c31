package archive

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/job"
)

// unneeded reads the facts about old jobs, with a few reads by key, and returns the jobs that nothing needs.
// letters is the statement that reads their dead letters.
func unneeded(
	ctx context.Context, conn gorm.ConnPool, q *retention, letters string, old []job.OldJob,
) (free []job.OldJob, err error) {
	if len(old) == 0 {
		return nil, nil
	}
	known := make(map[job.ID]*facts, len(old))
	ids := oldIDs(old)
	for _, id := range ids {
		known[id] = &facts{}
	}
	// The letters come first: where they are locked, no requeue can be promised any more while the rest is read.
	err = eachRow(ctx, conn, letters, padded(ids, q.size), func(scan func(...any) error) error {
		return scan(new(job.ID))
	})
	if err != nil {
		return nil, fmt.Errorf("read failed_jobs: %w", err)
	}
	for table, ended := range map[string]string{"job_outcomes": q.outcomes, "job_results": q.results} {
		err = eachRow(ctx, conn, ended, padded(ids, q.size), func(scan func(...any) error) error {
			var id job.ID
			var generation int
			if err := scan(&id, &generation); err != nil {
				return err
			}
			known[id].latest = max(known[id].latest, generation)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", table, err)
		}
	}
	if err := living(ctx, conn, q, old, known); err != nil {
		return nil, err
	}
	err = eachRow(ctx, conn, q.flows, padded(ids, q.size), func(scan func(...any) error) error {
		var id job.ID
		if err := scan(&id); err != nil {
			return err
		}
		known[id].flow = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read flow_jobs: %w", err)
	}
	err = eachRow(ctx, conn, q.attempts, padded(ids, q.size), func(scan func(...any) error) error {
		var id job.ID
		var n int
		if err := scan(&id, &n); err != nil {
			return err
		}
		known[id].attempts = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read job_attempts: %w", err)
	}
	for _, o := range old {
		if f := known[o.ID]; f.needed(&o) == "" {
			o.Rows = max(f.latest, f.attempts)
			free = append(free, o)
		}
	}
	return free, nil
}

// living records in known which of the jobs have a journal row, which have a callback job with a journal row, and
// for which an Idempotency-Key stands.
func living(ctx context.Context, conn gorm.ConnPool, q *retention, old []job.OldJob, known map[job.ID]*facts) error {
	ids, tells := oldIDs(old), map[job.ID]job.ID{}
	both := ids[:len(ids):len(ids)]
	for _, o := range old {
		if o.Callback != "" {
			tells[o.Callback] = o.ID
			both = append(both, o.Callback)
		}
	}
	err := eachRow(ctx, conn, q.journal, padded(both, 2*q.size), func(scan func(...any) error) error {
		var id job.ID
		if err := scan(&id); err != nil {
			return err
		}
		if f := known[id]; f != nil {
			f.lives = true
		}
		if of, ok := tells[id]; ok {
			known[of].callback = true
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read accepted_jobs: %w", err)
	}
	err = eachRow(ctx, conn, q.keys, padded(ids, q.size), func(scan func(...any) error) error {
		var id job.ID
		if err := scan(&id); err != nil {
			return err
		}
		known[id].keyed = true
		return nil
	})
	if err != nil {
		return fmt.Errorf("read idempotency_keys: %w", err)
	}
	return nil
}

// eachRow runs a query and calls do for each row, with the function that scans the row.
func eachRow(
	ctx context.Context, conn gorm.ConnPool, query string, args []any, do func(scan func(...any) error) error,
) error {
	rows, err := conn.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(rows.Scan); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return rows.Close() // before the next statement on this connection
}
