package leasing

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// ending is a report on its way to the store.
type ending struct {
	ref   job.LeaseRef
	end   job.End
	reply job.EndReply
	err   error
	done  chan struct{} // closed once there is a reply or an error; nil = no caller waits
}

// lane has the reports of one verb for one partition that wait to be sent. One call is under way at a time: what comes
// meanwhile shares the next one.
type lane struct {
	room      *Room
	partition int
	verb      job.Verb

	mu      sync.Mutex
	waiting loop.Batcher[*ending]
	busy    bool
}

func newLane(r *Room, partition int, verb job.Verb) *lane {
	return &lane{room: r, partition: partition, verb: verb, waiting: loop.Batcher[*ending]{
		MaxEntries: job.MaxBatch, MaxBytes: job.MaxBatchBytes, Size: func(e *ending) int { return e.end.Size() },
	}}
}

func (l *lane) add(e *ending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.room.io.Err() != nil {
		e.answer(job.EndReply{}, job.ErrUnavailable)
		return
	}
	l.waiting.Add(e)
	if !l.busy {
		l.busy = true
		l.room.reports.Go(l.run)
	}
}

// run sends what waits until nothing does.
func (l *lane) run() {
	var batch []*ending
	for {
		l.mu.Lock()
		if batch = l.waiting.Next(batch, nil); len(batch) == 0 {
			l.busy = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		l.settle(batch)
	}
}

// settle sends a batch and gives each report its answer. If the store refuses a call of several, one of them may be the
// reason: each is sent by itself.
func (l *lane) settle(batch []*ending) {
	var replies []job.EndReply
	err := l.room.again(func(ctx context.Context) (err error) {
		replies, err = l.send(ctx, batch)
		return err
	})
	if err != nil && len(batch) > 1 && !job.Outage(err) && !errors.Is(err, context.DeadlineExceeded) {
		for i := range batch {
			l.settle(batch[i : i+1])
		}
		return
	}
	for i, e := range batch {
		if err != nil {
			e.answer(job.EndReply{}, err)
			continue
		}
		e.answer(replies[i], nil)
	}
}

func (e *ending) answer(reply job.EndReply, err error) {
	e.reply, e.err = reply, err
	if e.done != nil {
		close(e.done)
	}
}

func (l *lane) send(ctx context.Context, batch []*ending) (replies []job.EndReply, err error) {
	q := l.room.Queue
	switch l.verb {
	case job.Completes:
		call := make([]job.Completion, len(batch))
		for i, e := range batch {
			call[i] = job.Completion{LeaseRef: e.ref, Result: e.end.Result}
		}
		replies, err = q.CompleteElsewhere(ctx, l.partition, call)
	case job.Fails:
		call := make([]job.Failure, len(batch))
		for i, e := range batch {
			call[i] = job.Failure{
				LeaseRef: e.ref, Cause: e.end.Cause, Error: e.end.Text, Final: e.end.Final, Delay: e.end.Delay,
			}
		}
		replies, err = q.Fail(ctx, l.partition, call)
	default:
		call := make([]job.Release, len(batch))
		for i, e := range batch {
			call[i] = job.Release{
				LeaseRef: e.ref, Delay: e.end.Delay, Reason: e.end.Text, Returned: e.end.Returned,
			}
		}
		replies, err = q.Release(ctx, l.partition, call)
	}
	if err == nil && len(replies) != len(batch) {
		return nil, fmt.Errorf("%s: %d replies for %d reports", l.verb, len(replies), len(batch))
	}
	return replies, err
}
