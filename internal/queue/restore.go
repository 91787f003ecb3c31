package queue

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// Restore gives living jobs back to a Redis that lost them, with their arrival, generation, attempts and retries, bypassing the capacity but
// counted. OK: it is in its place; one that was running is in the hands of its dead holder until the crashed watch takes it back. DUPLICATE: that
// generation is there; BUSY: an earlier one is; LATE: as with Submit, try again. One that is to be cancelled comes back CANCELLED, in the outbox, or with
// the request if it was running. A checkpoint and the history of attempts are not restored. read is a time before the
// rows were read, or written, on this process' clock: 5 s after it the call does nothing, for a life that a row told of
// may be over by then, and forgotten.
func (q *Queue) Restore(
	ctx context.Context,
	partition int,
	batch []job.JournalRow,
	read time.Time,
) ([]job.Word, error) {
	args := make([]any, 0, 3+17*len(batch))
	args = append(args, q.opts.PriorityBase, q.clock.within(partition, read, rowsFresh), ms(q.opts.KeepKeys))
	for i := range batch {
		l := &batch[i]
		holder, started, arrived, cancelled := "", l.StartedAt, l.ArrivedAt, ""
		if arrived.IsZero() {
			arrived = l.FirstTriedAt // zero too: it arrives now
		}
		if l.Running() {
			holder = l.Worker
			if holder == "" {
				holder = "unknown"
			}
		} else {
			started = l.FirstTriedAt // when it ran last is not kept
		}
		if l.CancelRequested {
			cancelled = string(job.Cancelled)
		}
		args = append(args, string(l.ID), max(l.Generation, 1), string(l.Tier), l.Priority, l.MaxRetries, stamp(arrived),
			about(l.Type, l.Owner, l.TraceID, l.Options), l.Payload, l.Attempt, l.RetryCount, stamp(l.FirstTriedAt), stamp(l.RunAt),
			holder, stamp(started), l.Idempotency.Key, l.Idempotency.Body, cancelled)
	}
	words, err := q.words(ctx, q.redis.Main, q.restore, partition, len(batch), args)
	if slices.Contains(words, job.Late) {
		q.reread(ctx)
	}
	return words, err
}

// keysAtOnce keeps a pipeline below the 4 KiB that the embedded server reads at once: it answers while the rest is still being written, and
// nobody would read the answers.
const keysAtOnce = 16

// RestoreKeys sets the Idempotency-Keys that a Redis lost, each for as long as it has left; one that is there stays. Which partition a key is of,
// home says.
func (q *Queue) RestoreKeys(ctx context.Context, keys []job.KeyKept, home func(key string) int) error {
	now := q.Now()
	for part := range slices.Chunk(keys, keysAtOnce) {
		_, err := q.redis.Main.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, k := range part {
				if left := k.Expires.Sub(now); left > 0 {
					p.SetNX(ctx, Key(home(k.Key), "idempotency")+k.Key, string(k.ID)+" "+k.Body, left)
				}
			}
			return nil
		})
		if err != nil {
			return classify("restore keys", err)
		}
	}
	return nil
}

// markLife is the shortest that a mark of MarkKeys stays; it is set anew much more often.
const markLife = 10 * time.Minute

// MarkKeys says that every Idempotency-Key of the journal is there, in the partitions that runs names a life of: as
// Incarnations did before the first of them was read. Until then a submit with a key that Redis does not know is
// answered BEHIND. It says which partitions have the mark now; one whose server fails keeps no other from it.
func (q *Queue) MarkKeys(ctx context.Context, runs []string) (marked []int, err error) {
	now, unread := q.Incarnations(ctx)
	var problems []error
	marks := make([]int, 0, len(runs))
	for p, run := range runs {
		switch {
		case run == "":
		case now[p] == "":
			problems = append(problems, unread)
		case now[p] == run: // otherwise lost again meanwhile: whoever saw that gives them back again
			marks = append(marks, p)
		}
	}
	for part := range slices.Chunk(marks, keysAtOnce) {
		said, err := q.redis.Main.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, p := range part {
				server := runs[p][:max(strings.LastIndexByte(runs[p], '.'), 0)]
				pipe.Set(ctx, Key(p, "mark"), server, max(q.opts.KeepKeys, markLife))
			}
			return nil
		})
		problems = append(problems, err)
		for i, one := range said {
			if one.Err() == nil && i < len(part) {
				marked = append(marked, part[i])
			}
		}
	}
	return marked, classifyNil("mark keys", errors.Join(problems...))
}

// stamp is a time in the scripts' milliseconds, "0" for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}
