package queue

import (
	"context"

	"github.com/tierq/tierq/internal/job"
)

// Hasten makes scheduled jobs of one partition ready now. It returns a word per job: OK (the job is ready), BUSY (it
// runs), ENDED or EMPTY (no such job).
func (q *Queue) Hasten(ctx context.Context, partition int, ids []job.ID) ([]job.Word, error) {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = string(id)
	}
	return q.words(ctx, q.redis.Main, q.hasten, partition, len(ids), args)
}
