package archive

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// KeepCancelReason stores why a generation of a job is to be cancelled. An existing reason stays, unless over says
// that its request was not carried out; then the new reason replaces it. The call may be repeated.
func (a *Archive) KeepCancelReason(ctx context.Context, id job.ID, generation int, reason string, over bool) error {
	d := &a.db.Dialect
	end := d.KeepFirst("job_id")
	if over {
		end = d.OnConflict(
			"job_id, generation",
		) + "reason = " + d.Offered(
			"reason",
		) + ", asked_at = " + d.Offered(
			"asked_at",
		)
	}
	insert := "INSERT INTO cancel_reasons (job_id, generation, reason, asked_at) VALUES (?, ?, ?, " + d.Now + ") " + end
	if _, err := a.db.Exec(ctx, insert, []any{string(id), generation, reason}); err != nil {
		return database.Unavailable("keep the reason of a cancel", err)
	}
	return nil
}

const (
	cancelReasons = "SELECT c.generation, c.reason, c.asked_at, " +
		"CASE WHEN r.job_id IS NOT NULL THEN 'COMPLETED' ELSE COALESCE(o.outcome, '') END AS outcome FROM cancel_reasons c " +
		"LEFT JOIN job_results r ON r.job_id = c.job_id AND r.generation = c.generation " +
		"LEFT JOIN job_outcomes o ON o.job_id = c.job_id AND o.generation = c.generation WHERE c.job_id = ? ORDER BY " +
		"c.generation"
	requeueReasons = "SELECT f.generation, f.requeue_reason AS reason, f.requeue_requested_at AS asked_at, 'FAILED' AS outcome " +
		"FROM failed_jobs f WHERE f.job_id = ? AND f.requeue_reason <> '' ORDER BY f.generation"
	dismissReasons = "SELECT f.generation, f.dismiss_reason AS reason, f.dismissed_at AS asked_at, 'FAILED' AS outcome " +
		"FROM failed_jobs f WHERE f.job_id = ? AND f.dismiss_reason <> '' ORDER BY f.generation"
)

// Reasons reads why a job was requeued or dismissed, and why a cancel was asked for, in the order of
// generations. SQL does not know whether a cancel was carried out, unless the generation has an outcome.
func (a *Archive) Reasons(ctx context.Context, id job.ID) ([]job.Reason, error) {
	var all []job.Reason
	for _, q := range []struct{ action, query string }{
		{job.RequeueAction, requeueReasons}, {job.CancelAction, cancelReasons}, {job.DismissAction, dismissReasons},
	} {
		var rows []struct {
			Generation int
			Reason     string
			AskedAt    *time.Time
			Outcome    string
		}
		if err := a.db.Read.WithContext(ctx).Raw(q.query, string(id)).Scan(&rows).Error; err != nil {
			return nil, database.Unavailable("read reasons", err)
		}
		for _, r := range rows {
			all = append(all, job.Reason{
				Action: q.action, Generation: r.Generation, At: database.OrZero(r.AskedAt), Text: r.Reason,
				Outcome: job.Status(r.Outcome),
			})
		}
	}
	return all, nil
}
