package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// outcomeFields is how many texts take_outbox returns per job before its attempts.
const outcomeFields = 13

// TakeOutbox returns ended jobs of a partition that SQL does not have yet, at most limit and about
// job.MaxBatchBytes, and hides them from other takers for OutboxLead.
func (q *Queue) TakeOutbox(ctx context.Context, partition, limit int) ([]job.Outcome, error) {
	reply, err := q.call(ctx, q.redis.Main, q.takeOutbox, partition,
		[]any{min(limit, job.MaxBatch), ms(OutboxLead), job.MaxBatchBytes})
	if err != nil {
		return nil, err
	}
	list, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("take_outbox: reply is a %T, not a list", reply)
	}
	outcomes := make([]job.Outcome, 0, len(list))
	for _, item := range list {
		o, err := readOutcome(item)
		if errors.Is(err, errPartly) {
			q.opts.Log.Error("an outcome goes to SQL without what cannot be read of it", "job_id", o.ID, "err", err)
		} else if err != nil { // the other outcomes must not wait for it; the outbox offers it again
			q.opts.Log.Error("an outcome cannot be read; it stays in the outbox", "job_id", o.ID, "err", err)
			continue
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}

// errPartly means that an outcome was read except for parts that SQL does not need to end the job: its options or
// lines of its history, which were edited by hand.
var errPartly = errors.New("not all of it can be read")

func readOutcome(item any) (o job.Outcome, err error) {
	list, ok := item.([]any)
	if !ok || len(list) < outcomeFields {
		return o, fmt.Errorf("an entry is a %T of %d", item, len(list))
	}
	f := make([]string, len(list))
	for i := range list {
		if f[i], ok = list[i].(string); !ok {
			return o, fmt.Errorf("entry field %d is a %T", i, list[i])
		}
	}
	o.Job = job.Job{
		ID: job.ID(f[0]), Status: job.Status(f[2]).Shown(), Attempt: number(f[3]), RetryCount: number(f[4]),
		FirstTriedAt: msTime(f[5]),
		StartedAt:    msTime(f[6]), EndedAt: msTime(f[7]), Cause: job.Cause(f[8]), LastError: f[9], Result: payload(f[10]),
		Worker: holder(f[11]), Payload: payload(f[12]),
	}
	if err = readHead(f[1], &o.Job); err != nil && !errors.Is(err, errOptions) {
		return o, err
	}
	for _, line := range f[outcomeFields:] {
		a, bad := readAttempt(line, o.Generation)
		if bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		o.Attempts = append(o.Attempts, a)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errPartly, err)
	}
	return o, err
}

// Acknowledge tells Redis that SQL has these outcomes of one partition. It returns a word per job: OK, or EMPTY if
// the job was not in the outbox with these numbers, because it was acknowledged before.
func (q *Queue) Acknowledge(ctx context.Context, partition int, batch []job.Ack) ([]job.Word, error) {
	args := make([]any, 0, 2*len(batch))
	for _, a := range batch {
		ttl := q.ttl(a.Status)
		if a.Known && a.Status == job.Failed {
			ttl = 0 // error and attempts may be those of another incarnation too: SQL has all of them
		}
		args = append(args, string(a.ID),
			fmt.Sprintf("%d %d %s %d %t", a.Generation, a.Attempt, a.Status, ttl.Milliseconds(), a.Known))
	}
	return q.words(ctx, q.redis.Main, q.acknowledge, partition, len(batch), args)
}

// ttl returns how long Redis keeps an acknowledged job with this status.
func (q *Queue) ttl(s job.Status) time.Duration {
	retention := q.opts.Retention
	if s == job.Failed {
		retention = q.opts.FailedRetention
	}
	return timeToLive(retention, q.opts.KeepEnded, q.pace.rate())
}
