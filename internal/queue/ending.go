package queue

import (
	"context"
	"fmt"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// endings runs a script that answers "WORD at" or "LOST" per lease.
func (q *Queue) endings(ctx context.Context, b bound, partition, entries int, args []any) ([]job.EndReply, error) {
	texts, err := q.texts(ctx, q.redis.Worker, b, partition, args)
	if err != nil {
		return nil, err
	}
	if len(texts) != entries {
		return nil, fmt.Errorf("%s: %d words for %d leases", b.name, len(texts), entries)
	}
	replies := make([]job.EndReply, len(texts))
	for i, text := range texts {
		word, at, _ := strings.Cut(text, " ")
		if replies[i].Word, err = b.word(word); err != nil {
			return nil, err
		}
		replies[i].At = msTime(at)
	}
	return replies, nil
}
