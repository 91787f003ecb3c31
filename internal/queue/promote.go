package queue

import (
	"context"

	"github.com/tierq/tierq/internal/job"
)

// Promote makes scheduled jobs of one partition ready that are due, at most job.MaxBatch, and returns how many it
// found.
func (q *Queue) Promote(ctx context.Context, partition int) (int, error) {
	texts, err := q.texts(ctx, q.redis.Main, q.promote, partition, []any{job.MaxBatch})
	if err != nil {
		return 0, err
	}
	for _, text := range texts {
		if _, err := q.promote.word(text); err != nil {
			return 0, err
		}
	}
	return len(texts), nil
}
