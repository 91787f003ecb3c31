package queue

import (
	"context"
	"strconv"

	"github.com/tierq/tierq/internal/job"
)

// Cancel answers per job CANCELLED (done), CANCEL (running: its holder is told by the next heartbeat), BUSY (Untried wanted and it was
// claimed, or another submit was answered with it), ENDED or EMPTY (no such job or generation).
func (q *Queue) Cancel(ctx context.Context, partition int, batch []job.Cancellation) ([]job.Word, error) {
	args := make([]any, 0, 4*len(batch))
	for _, c := range batch {
		generation, untried := "", "0"
		if c.Generation > 0 {
			generation = strconv.Itoa(c.Generation)
		}
		if c.Untried {
			untried = "1"
		}
		args = append(args, string(c.ID), generation, untried, c.Once)
	}
	return q.words(ctx, q.redis.Main, q.cancel, partition, len(batch), args)
}
