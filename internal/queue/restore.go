package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Restore puts journaled jobs back into a Redis that lost them, with their arrival, generation, attempts and
// retries. The jobs count against the capacity but are never refused by it. A job that was running comes back as
// running, in the hands of its holder, whose reports count as before. Until the first heartbeat the watches reclaim it
// at no cost, and as a crash if the row has no Token. A job with a requested cancel comes back as CANCELLED in the
// outbox or, if it was running, with the request; a killed job comes back as a dead letter in the outbox. A checkpoint
// and the history of attempts are not restored.
//
// Restore returns a word per job: OK; DUPLICATE (that generation, or a later one, is there); BUSY (an earlier
// generation is there); or LATE (as with Submit: try again). read is a local time before the rows were read or
// written. The call does nothing if it arrives more than 5 s after read, because by then another incarnation may
// have begun and the row may be out of date.
func (q *Queue) Restore(
	ctx context.Context,
	partition int,
	batch []job.JournalRow,
	read time.Time,
) ([]job.Word, error) {
	args := make([]any, 0, 2+20*len(batch))
	args = append(args, q.opts.PriorityBase, q.clock.within(partition, read, rowsFresh))
	for i := range batch {
		l := &batch[i]
		options := l.Options
		if plan, known := q.plans.Plan(l.Tier); known { // a callback, or a job from before its tier had lines
			options.Line = plan.LineFor(options.Line, l.Owner)
		}
		if l.Generation > 1 { // an operator, who asked for this generation, wants it to run
			options.ExpiresMs = 0
		}
		token, started, arrived, end := l.Token, l.StartedAt, l.ArrivedAt, ""
		lives, ends := time.Duration(0), time.Time{}
		if arrived.IsZero() {
			arrived = l.FirstTriedAt // may be zero too: then the job arrives now
		}
		switch {
		case !l.Running():
			token, started = "", l.FirstTriedAt // the row does not have the start of the last attempt
		case token == "":
			token = cmp.Or(l.Worker, "unknown") + ":0"
		default:
			lives, ends = max(l.LeaseFor, leastRestored), l.StartedAt.Add(q.longestRun(&l.Job))
		}
		switch {
		case l.KillReason != "":
			end = string(job.NeedDiscard)
		case l.CancelRequested:
			end = string(job.Cancelled)
		}
		args = append(args, string(l.ID), max(l.Generation, 1), string(l.Tier), l.Priority,
			fmt.Sprintf("%d %s %d%s", l.MaxRetries, ownerOf(l.Owner, l.Options), l.MaxRunMs,
				classOptions(options)+callbackOption(l.ID, l.Generation, options)),
			stamp(arrived),
			descriptor(l.Type, l.TraceID, l.Options), l.Payload, l.Attempt, l.RetryCount, stamp(l.FirstTriedAt),
			stamp(l.RunAt),
			token, stamp(started), end, l.QueueName(), l.KillReason, l.Crashes, lives.Milliseconds(), stamp(ends))
	}
	words, err := q.words(ctx, q.redis.Main, q.restore, partition, len(batch), args)
	if slices.Contains(words, job.Late) {
		q.reread(ctx)
	}
	return words, err
}

// leastRestored is how long a restored lease lives at least, and leastRun how long its attempt may go on: its holder,
// who was cut off, finds the server again. leastRun is that of lua/restore.lua.
const (
	leastRestored = 30 * time.Second
	leastRun      = 10 * time.Second
)

// longestRun returns how long an attempt of a job may run.
func (q *Queue) longestRun(j *job.Job) time.Duration {
	plan, known := q.plans.Plan(j.Tier)
	if !known {
		plan = job.DefaultPlans()[0]
	}
	return j.MaxRun(plan)
}

// stamp converts a time to the scripts' milliseconds, "0" for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}
