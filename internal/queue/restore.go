package queue

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// Restore gives living jobs back to a Redis that lost them, with their arrival, generation, attempts and retries, bypassing the capacity but
// counted. OK: it is in its place; one that was running is in the hands of its dead holder until the crashed watch takes it back. DUPLICATE: that
// generation is there; BUSY: an earlier one is; LATE: as with Submit, try again. A checkpoint and the history of attempts are not restored.
func (q *Queue) Restore(ctx context.Context, partition int, batch []job.Living) ([]job.Word, error) {
	args := make([]any, 0, 3+16*len(batch))
	args = append(args, q.opts.PriorityBase, q.clock.notAfter(), ms(q.opts.KeepKeys))
	for i := range batch {
		l := &batch[i]
		holder, started := "", l.StartedAt
		if l.Running() {
			holder = l.Worker
			if holder == "" {
				holder = "unknown"
			}
		} else {
			started = l.FirstTriedAt // when it ran last is not kept
		}
		args = append(args, string(l.ID), max(l.Generation, 1), string(l.Tier), l.Priority, l.MaxRetries, stamp(l.ArrivedAt),
			about(l.Type, l.Owner, l.TraceID, l.Options), l.Payload, l.Attempt, l.RetryCount, stamp(l.FirstTriedAt), stamp(l.RunAt),
			holder, stamp(started), l.Idempotency.Key, l.Idempotency.Body)
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

// MarkKeys says that every Idempotency-Key of the journal is there: in the life of Redis that run names, as RunID did before the first of
// them was read. Until then a submit with a key that Redis does not know is answered BEHIND.
func (q *Queue) MarkKeys(ctx context.Context, run string) error {
	if now, err := q.RunID(ctx); err != nil || now != run {
		return err // lost again meanwhile: whoever saw that gives them back again
	}
	server, _, _ := strings.Cut(run, ".")
	for p := range q.opts.Partitions {
		if err := q.redis.Main.Set(ctx, Key(p, "mark"), server, max(q.opts.KeepKeys, markLife)).Err(); err != nil {
			return classify("mark keys", err)
		}
	}
	return nil
}

// stamp is a time in the scripts' milliseconds, "0" for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}
