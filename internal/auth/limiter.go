package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Rater counts rates for all processes. A call may not be repeated: what it asked for may have been taken.
type Rater interface {
	// RatePartition is the part of the store that keeps a bucket.
	RatePartition(bucket string) int
	// Rates takes from buckets of one partition, one ask after the other; job.ErrUnavailable or job.ErrAmbiguous if the
	// store is to blame.
	Rates(ctx context.Context, partition int, asks []job.RateAsk) ([]job.RateAnswer, error)
}

const (
	maxAsks    = 100                    // of one call
	maxWaiting = 1000                   // asks for one partition
	callTime   = 250 * time.Millisecond // of one call
	patience   = 400 * time.Millisecond // of a request, for an answer: its own call, and what is left of the one before
	away       = time.Second            // how long a store that did not answer is left alone
	tellEvery  = time.Minute
)

var (
	errTooMany = errors.New("too many requests wait to be counted")
	errSlow    = fmt.Errorf("no answer within %s", patience)
)

// Limiter holds callers to their rates, over all processes. Where the store that counts them is away, slow or overfull,
// this process counts for itself, each bucket from the beginning: a brute force is slowed all the same, and nobody is
// refused for the store's trouble. It starts nothing that a request does not ask for.
type Limiter struct {
	rater Rater
	log   *slog.Logger
	group sync.WaitGroup

	mu      sync.Mutex
	lanes   map[int]*lane
	own     memory
	resume  time.Time // the store did not answer: the first ask after this tries it again; zero = it answers
	told    time.Time // when the log last heard that the store is away
	stopped bool
}

// NewLimiter makes one; log may be nil.
func NewLimiter(r Rater, log *slog.Logger) *Limiter {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Limiter{rater: r, log: log, lanes: map[int]*lane{}, own: newMemory()}
}

// Take takes n requests from a bucket that holds burst of them (at least 1) and gets rate new ones a second. A rate of
// 0 limits nothing. It answers within half a second, whatever the store does.
func (l *Limiter) Take(ctx context.Context, bucket string, rate float64, burst, n int) job.Allowance {
	if !(rate > 0) {
		return job.Allowance{}
	}
	ask := job.RateAsk{Bucket: bucket, Rate: rate, Burst: max(burst, 1), N: max(n, 0)}
	e, answer := l.enter(ask)
	if e != nil {
		answer = l.wait(ctx, e)
	}
	allowed := job.Allowance{Limited: true, Rate: ask.Rate, Burst: ask.Burst, Remaining: answer.Remaining,
		Reset: answer.Reset}
	if !answer.OK {
		allowed.RetryIn = max(answer.RetryIn, 1)
	}
	return allowed
}

// Stop returns when no call is under way any more. What is asked later is counted by this process alone.
func (l *Limiter) Stop() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.group.Wait()
}

// enter puts an ask on the list of its partition, or has its answer at once.
func (l *Limiter) enter(ask job.RateAsk) (*entry, job.RateAnswer) {
	partition, now := l.rater.RatePartition(ask.Bucket), time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if answer, known := l.own.refuses(ask, now); known {
		return nil, answer
	}
	if l.stopped || now.Before(l.resume) {
		return nil, l.own.take(ask, now)
	}
	if !l.resume.IsZero() {
		l.resume = now.Add(away) // this one tries; the others do not wait for it
	}
	q := l.lanes[partition]
	if q == nil {
		q = newLane()
		l.lanes[partition] = q
	}
	if q.waiting.Len() >= maxWaiting {
		l.tell(errTooMany, now)
		return nil, l.own.take(ask, now)
	}
	e := &entry{ask: ask, answer: make(chan job.RateAnswer, 1)}
	q.waiting.Add(e)
	if !q.busy {
		q.busy = true
		l.group.Go(func() { l.serve(partition, q) })
	}
	return e, job.RateAnswer{}
}

// wait returns the answer, or this process' own where the caller leaves, or the store takes too long.
func (l *Limiter) wait(ctx context.Context, e *entry) job.RateAnswer {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	slow := false
	select {
	case answer := <-e.answer:
		return answer
	case <-ctx.Done():
	case <-timer.C:
		slow = true
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	e.left = true
	if slow {
		l.lost(errSlow, now)
	}
	return l.own.take(e.ask, now)
}

// lost leaves the store alone for a while; l.mu is held.
func (l *Limiter) lost(err error, now time.Time) {
	l.resume = now.Add(away)
	l.tell(err, now)
}

func (l *Limiter) tell(err error, now time.Time) {
	if !l.told.IsZero() && now.Sub(l.told) < tellEvery {
		return
	}
	l.told = now
	l.log.Warn("rates are not counted in Redis: this process counts for itself", "err", err)
}
