package archive

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// noteReplace names the generation: the payload of a requeued job is that of its dead letter. The row is no submit's
// any more, because Redis has the job: the stamp of its submit, which comes a moment later, would write the old due
// time.
const noteReplace = "UPDATE accepted_jobs SET tier = ?, priority = ?, type = ?, payload = ?, options = ?, " +
	"max_retries = ?, trace_id = ?, due_at = ?, submitting = 0 WHERE job_id = ? AND generation = 1"

// Replace gives the rows of jobs the tier, type, payload, options, retries, trace id and due time of the submits that
// replaced them. A job without a row has ended.
func (a *Archive) Replace(ctx context.Context, rows []job.JournalRow) error {
	err := a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		for i := range rows {
			l := &rows[i]
			_, err := conn.ExecContext(ctx, noteReplace, string(l.Tier), l.Priority, l.Type, database.BytesOrNull(l.Payload),
				database.BytesOrNull(options(l.Options)), l.MaxRetries, l.TraceID, database.OrNull(l.RunAt), string(l.ID))
			if err != nil {
				return fmt.Errorf("update accepted_jobs: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return database.Unavailable("note replaced payloads", err)
	}
	return nil
}

// Replace gives rows of jobs what the submits that replaced them asked for.
func (j *Journal) Replace(ctx context.Context, rows []job.JournalRow) error {
	return j.archive.Replace(ctx, rows)
}
