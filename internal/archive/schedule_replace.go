package archive

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/job"
)

const (
	// A job that was asked to be cancelled is not replaced.
	replaceable = "SELECT a.job_id, a.generation, a.arrived_at, a.recorded_at FROM schedule_runs r " +
		"JOIN accepted_jobs a ON a.job_id = r.job_id WHERE r.name = ? AND r.job_id <> '' AND r.occurrence <= ? AND " +
		"a.cancel_requested = 0 AND " + unended
	// The row names no incarnation: until Redis has the cancel, the reconciler sends it.
	noteReplaced = "UPDATE accepted_jobs SET cancel_requested = 1, submitting = 0, run_id = '' WHERE job_id = ?"
)

// replacedReason is why a job is cancelled that an occurrence replaces.
const replacedReason = "a later occurrence of its schedule replaces it"

// replace marks the jobs that wait to be cancelled, and gives the new job the earliest arrival: it keeps the place of
// the jobs that it replaces.
func (a *Archive) replace(ctx context.Context, conn gorm.ConnPool, f *job.Firing) error {
	f.Replaced = nil
	if !f.Replaces {
		return nil
	}
	generations := map[job.ID]int{}
	args := []any{f.Name, f.Run.Occurrence.UTC()}
	err := eachRow(ctx, conn, replaceable, args, func(scan func(...any) error) error {
		var id job.ID
		var generation int
		var arrived sql.NullTime
		var recorded time.Time
		if err := scan(&id, &generation, &arrived, &recorded); err != nil {
			return err
		}
		if id == f.Row.ID || slices.Contains(f.Running, id) {
			return nil
		}
		if !arrived.Valid {
			arrived.Time = recorded
		}
		if f.Row.ArrivedAt.IsZero() || arrived.Time.Before(f.Row.ArrivedAt) {
			f.Row.ArrivedAt = arrived.Time
		}
		f.Replaced, generations[id] = append(f.Replaced, id), generation
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the jobs of a schedule that wait: %w", err)
	}
	for _, id := range f.Replaced {
		if _, err := conn.ExecContext(ctx, noteReplaced, string(id)); err != nil {
			return fmt.Errorf("update accepted_jobs: %w", err)
		}
		if _, err := conn.ExecContext(ctx, a.insertReason(), string(id), generations[id], replacedReason); err != nil {
			return fmt.Errorf("insert cancel_reasons: %w", err)
		}
	}
	return nil
}
