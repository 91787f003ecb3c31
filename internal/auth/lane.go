package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// lane batches the asks that wait for one partition: all of them go into one call, and those that arrive meanwhile
// into the next call. Limiter.mu guards it.
type lane struct {
	waiting loop.Batcher[*entry]
	busy    bool // a goroutine runs serve for it
}

func newLane() *lane {
	return &lane{waiting: loop.Batcher[*entry]{MaxEntries: maxAsks, Size: func(*entry) int { return 0 }}}
}

// entry is an ask that waits for its answer.
type entry struct {
	ask    job.RateAsk
	answer chan job.RateAnswer
	left   bool // its caller does not wait any more
}

// serve makes calls for a lane until no ask waits.
func (l *Limiter) serve(partition int, q *lane) {
	for batch := l.next(q); len(batch) > 0; batch = l.next(q) {
		asks := make([]job.RateAsk, len(batch))
		for i, e := range batch {
			asks[i] = e.ask
		}
		sent := time.Now()
		// the call is for all callers in the batch: none of them can cancel it
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		answers, err := l.rater.Rates(ctx, partition, asks)
		cancel()
		if err == nil && len(answers) != len(asks) {
			err = fmt.Errorf("%d answers for %d asks", len(answers), len(asks))
		}
		l.settle(batch, sent, answers, err)
	}
}

// next returns the asks of the next call. If there are none, it marks the lane as not busy.
func (l *Limiter) next(q *lane) []*entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch := q.waiting.Next(nil, func(e *entry) bool { return e.left })
	q.busy = len(batch) > 0
	return batch
}

// settle hands out the answers of a call. After an error it does not repeat the asks, but counts them in this
// process.
func (l *Limiter) settle(batch []*entry, sent time.Time, answers []job.RateAnswer, err error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.resume = time.Time{}
	case errors.Is(err, job.ErrUnavailable), errors.Is(err, job.ErrAmbiguous):
		l.lost(err, now)
	default: // the fault is with these buckets, not with the store
		l.tell(err, now)
	}
	for i, e := range batch {
		if err != nil {
			if !e.left {
				e.answer <- l.own.take(e.ask, now)
			}
			continue
		}
		l.own.learn(e.ask, answers[i], sent)
		e.answer <- answers[i]
	}
}
