package queue

import (
	"context"

	"github.com/tierq/tierq/internal/job"
)

// Heartbeat extends the crash deadlines of leases of one partition, over its own small connection pool. It returns
// a word per lease: OK; CANCEL (extended, and a user asked to cancel the job); or LOST (the lease is not the
// stored one any more). A checkpoint and a progress are stored with OK and CANCEL.
func (q *Queue) Heartbeat(ctx context.Context, partition int, batch []job.Beat) ([]job.Word, error) {
	args := make([]any, 0, 8*len(batch))
	for i := range batch {
		b := &batch[i]
		progress := ""
		if b.Progress != nil {
			progress = b.Progress.Text()
		}
		args = append(args, string(b.ID), b.Attempt, b.Token, ms(b.Timeout), b.Save, b.Checkpoint, b.Step, progress)
	}
	return q.words(ctx, q.redis.Beat, q.heartbeat, partition, len(batch), args)
}
