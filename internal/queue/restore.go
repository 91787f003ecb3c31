package queue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Restore gives living jobs back to a Redis that lost them, with their arrival, generation, attempts and retries,
// bypassing the capacity but counted. OK: it is in its place; one that was running is in the hands of its dead holder
// until the crashed watch takes it back. DUPLICATE: that generation is there; BUSY: an earlier one is; LATE: as with
// Submit, try again. One that is to be cancelled comes back CANCELLED, in the outbox, or with the request if it was
// running. A checkpoint and the history of attempts are not restored. read is a time before the rows were read, or
// written, on this process' clock: 5 s after it the call does nothing, for a life that a row told of may be over by
// then, and forgotten.
func (q *Queue) Restore(
	ctx context.Context,
	partition int,
	batch []job.JournalRow,
	read time.Time,
) ([]job.Word, error) {
	args := make([]any, 0, 2+15*len(batch))
	args = append(args, q.opts.PriorityBase, q.clock.within(partition, read, rowsFresh))
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
		args = append(args, string(l.ID), max(l.Generation, 1), string(l.Tier), l.Priority,
			fmt.Sprintf("%d %s %s", l.MaxRetries, ownerOf(l.Owner, l.Options), noMaxRun), stamp(arrived),
			descriptor(l.Type, l.TraceID, l.Options), l.Payload, l.Attempt, l.RetryCount, stamp(l.FirstTriedAt),
			stamp(l.RunAt),
			holder, stamp(started), cancelled)
	}
	words, err := q.words(ctx, q.redis.Main, q.restore, partition, len(batch), args)
	if slices.Contains(words, job.Late) {
		q.reread(ctx)
	}
	return words, err
}

// stamp is a time in the scripts' milliseconds, "0" for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}
