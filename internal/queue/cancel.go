package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// Cancel cancels jobs of one partition. It returns a word per job: CANCELLED (the job is cancelled), CANCEL (the
// job runs; its holder learns of the cancel with the next heartbeat), ENDED (the job has ended otherwise) or EMPTY
// (no such job or generation).
func (q *Queue) Cancel(ctx context.Context, partition int, batch []job.Cancellation) ([]job.Word, error) {
	args := make([]any, 0, 2*len(batch))
	for _, c := range batch {
		generation := ""
		if c.Generation > 0 {
			generation = strconv.Itoa(c.Generation)
		}
		args = append(args, string(c.ID), generation)
	}
	texts, err := q.texts(ctx, q.redis.Main, q.cancel, partition, args)
	if err != nil {
		return nil, err
	}
	if len(texts) != len(batch) {
		return nil, fmt.Errorf("cancel: %d words for %d jobs", len(texts), len(batch))
	}
	words := make([]job.Word, len(texts))
	for i, text := range texts {
		word, tier, ended := strings.Cut(text, " ")
		if words[i], err = q.cancel.word(word); err != nil {
			return nil, err
		}
		if ended {
			q.opts.Cancelled(job.Tier(tier))
		}
	}
	return words, nil
}
