package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// lane is what waits for one partition: all of it goes into one call, and what arrives meanwhile into the next.
// Limiter.mu guards it.
type lane struct {
	waiting loop.Batcher[*entry]
	busy    bool // somebody serves it
}

func newLane() *lane {
	return &lane{waiting: loop.Batcher[*entry]{MaxEntries: maxAsks, Size: func(*entry) int { return 0 }}}
}

// entry is one ask that waits for its answer.
type entry struct {
	ask    job.RateAsk
	answer chan job.RateAnswer
	left   bool // nobody waits for it any more
}

// serve makes calls until nothing waits.
func (l *Limiter) serve(partition int, q *lane) {
	for batch := l.next(q); len(batch) > 0; batch = l.next(q) {
		asks := make([]job.RateAsk, len(batch))
		for i, e := range batch {
			asks[i] = e.ask
		}
		sent := time.Now()
		// the call is everybody's: no caller that leaves ends it
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		answers, err := l.rater.Rates(ctx, partition, asks)
		cancel()
		if err == nil && len(answers) != len(asks) {
			err = fmt.Errorf("%d answers for %d asks", len(answers), len(asks))
		}
		l.settle(batch, sent, answers, err)
	}
}

// next takes what fits one call; nobody serves the lane any more if that is nothing.
func (l *Limiter) next(q *lane) []*entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch := q.waiting.Next(nil, func(e *entry) bool { return e.left })
	q.busy = len(batch) > 0
	return batch
}

// settle hands out the answers of a call. Where there are none the asks are not sent again, but counted here.
func (l *Limiter) settle(batch []*entry, sent time.Time, answers []job.RateAnswer, err error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.resume = time.Time{}
	case errors.Is(err, job.ErrUnavailable), errors.Is(err, job.ErrAmbiguous):
		l.lost(err, now)
	default: // these buckets' own trouble
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
