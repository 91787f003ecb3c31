package queue

import (
	"context"
	"strconv"

	"github.com/tierq/tierq/internal/job"
)

// Cancellation asks to end a job. Generation 0 means whichever lives; Untried only if nobody ever claimed it.
type Cancellation struct {
	ID         job.ID
	Generation int
	Untried    bool
}

// Cancel answers per job CANCELLED (done), CANCEL (running: its holder is told by the next heartbeat), BUSY (Untried wanted and it was
// claimed), ENDED or EMPTY (no such job or generation).
func (q *Queue) Cancel(ctx context.Context, partition int, batch []Cancellation) ([]job.Word, error) {
	args := make([]any, 0, 3*len(batch))
	for _, c := range batch {
		generation, untried := "", "0"
		if c.Generation > 0 {
			generation = strconv.Itoa(c.Generation)
		}
		if c.Untried {
			untried = "1"
		}
		args = append(args, string(c.ID), generation, untried)
	}
	return q.words(ctx, q.redis.Main, q.cancel, partition, len(batch), args)
}
