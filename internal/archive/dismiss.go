package archive

import (
	"context"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// Dismiss closes the dead letter of a job that nobody asked to requeue, with the reason, and says whether it did: false
// means that there is no such letter, or that it was dismissed before. A job has at most one such letter, because the
// outcome of a later generation closes those before it.
func (a *Archive) Dismiss(ctx context.Context, id job.ID, reason string) (bool, error) {
	update := "UPDATE failed_jobs SET dismissed_at = " + a.db.Dialect.Now + ", dismiss_reason = ? WHERE job_id = ? AND " +
		"requeue_requested_at IS NULL AND requeued_at IS NULL AND dismissed_at IS NULL"
	n, err := a.db.Exec(ctx, update, []any{reason, string(id)})
	switch {
	case err == nil:
		return n > 0, nil
	case a.db.ChangedNothing(err):
		return false, database.Unavailable("dismiss a dead letter", err)
	}
	return false, database.Ambiguous("dismiss a dead letter", err)
}
