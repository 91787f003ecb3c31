package queue

import (
	"context"

	"github.com/tierq/tierq/internal/job"
)

// Kill makes dead letters of waiting jobs of one partition. It returns a word per job: FAILED (the job was killed),
// BUSY (the job runs), ENDED (the job has ended otherwise) or EMPTY (no such job or generation).
func (q *Queue) Kill(ctx context.Context, partition int, batch []job.Killing) ([]job.Word, error) {
	args := make([]any, 0, 3*len(batch))
	for _, k := range batch {
		args = append(args, string(k.ID), max(k.Generation, 1), k.Reason)
	}
	return q.endWaiting(ctx, q.kill, partition, len(batch), args, q.opts.Killed)
}
