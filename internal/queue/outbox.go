package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// outcomeFields is how many texts take_outbox answers per job before its log and its attempts.
const outcomeFields = 4

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
	o.ID = job.ID(f[0])
	if err = readEnded(f[1], &o.Job); err != nil && !errors.Is(err, errOptions) {
		return o, err
	}
	o.Status = o.Status.Shown()
	if _, rest, ok := strings.Cut(f[2], "\n"); ok { // what follows the record's head
		_, body, _ := strings.Cut(rest, "\n")
		o.Payload = payload(body)
	}
	logged := number(f[outcomeFields-1])
	if logged < 0 || outcomeFields+logged > len(f) {
		return o, fmt.Errorf("an entry of %d has %d lines of a log", len(f), logged)
	}
	o.Log = f[outcomeFields : outcomeFields+logged : outcomeFields+logged]
	for _, line := range f[outcomeFields+logged:] {
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
	args := make([]any, 0, 1+2*len(batch))
	args = append(args, ms(timeToLive(max(q.opts.Retention, q.opts.FailedRetention, time.Minute), q.opts.KeepEnded,
		q.pace.rate())))
	for _, a := range batch {
		args = append(args, string(a.ID),
			fmt.Sprintf("%d %d %s %t %t", a.Generation, a.Attempt, a.Status, q.keeps(a), a.Known))
	}
	return q.words(ctx, q.redis.Main, q.acknowledge, partition, len(batch), args)
}

// keeps says whether Redis goes on answering for an acknowledged job.
func (q *Queue) keeps(a job.Ack) bool {
	if a.Status == job.Failed {
		return q.opts.FailedRetention > 0 && !a.Known // its error and attempts may be another run's: SQL tells all of it
	}
	return q.opts.Retention > 0
}
