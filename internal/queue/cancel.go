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
	return q.endWaiting(ctx, q.cancel, partition, len(batch), args, q.opts.Cancelled)
}

// endWaiting runs a script that answers "WORD" per job, and "WORD tier" for a job that the call ended: ended is called
// for each of these.
func (q *Queue) endWaiting(
	ctx context.Context, b bound, partition, entries int, args []any, ended func(job.Tier),
) ([]job.Word, error) {
	texts, err := q.texts(ctx, q.redis.Main, b, partition, args)
	if err != nil {
		return nil, err
	}
	if len(texts) != entries {
		return nil, fmt.Errorf("%s: %d words for %d jobs", b.name, len(texts), entries)
	}
	words := make([]job.Word, len(texts))
	for i, text := range texts {
		word, tier, here := strings.Cut(text, " ")
		if words[i], err = b.word(word); err != nil {
			return nil, err
		}
		if here {
			ended(job.Tier(tier))
		}
	}
	return words, nil
}
