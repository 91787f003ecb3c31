package queue

import (
	"context"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// Expire ends jobs of one partition that nobody claimed by the time that their submit said, at most job.MaxBatch, and
// returns how many entries it found.
func (q *Queue) Expire(ctx context.Context, partition int) (int, error) {
	texts, err := q.texts(ctx, q.redis.Main, q.expire, partition, []any{job.MaxBatch})
	if err != nil {
		return 0, err
	}
	for _, text := range texts {
		word, tier, _ := strings.Cut(text, " ")
		switch w, err := q.expire.word(word); {
		case err != nil:
			return 0, err
		case w == job.WasExpired:
			q.opts.Expired(job.Tier(tier))
		}
	}
	return len(texts), nil
}
