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

// Rater counts rates for all processes. A call must not be repeated after an error: the requests may have been
// charged.
type Rater interface {
	// RatePartition returns the store's partition that has a bucket.
	RatePartition(bucket string) int
	// Rates charges buckets of one partition, one ask after the other. The error is job.ErrUnavailable or
	// job.ErrAmbiguous if the store is at fault.
	Rates(ctx context.Context, partition int, asks []job.RateAsk) ([]job.RateAnswer, error)
}

const (
	maxAsks    = 100                    // in one call
	maxWaiting = 1000                   // asks for one partition
	callTime   = 250 * time.Millisecond // timeout of one call
	patience   = 400 * time.Millisecond // how long a request waits for its own call, and the rest of the call before
	away       = time.Second            // how long the store is left alone after it did not answer
	tellEvery  = time.Minute
)

var (
	errTooMany = errors.New("too many requests wait to be counted")
	errSlow    = fmt.Errorf("no answer within %s", patience)
)

// Limiter keeps callers to their rates, over all processes. While the store that counts them is away, slow or
// overloaded, this process counts by itself, and each bucket starts full. Wrong keys are slowed even then, and no
// request is refused because of the store's trouble. Limiter runs no goroutine without a request, and is safe for
// concurrent use.
type Limiter struct {
	rater Rater
	log   *slog.Logger
	group sync.WaitGroup

	mu      sync.Mutex
	lanes   map[int]*lane
	own     memory
	resume  time.Time // the store did not answer: the first ask after this time tries again; zero = it answers
	told    time.Time // when it was last logged that the store is away
	stopped bool
}

// NewLimiter makes a Limiter. log may be nil.
func NewLimiter(r Rater, log *slog.Logger) *Limiter {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Limiter{rater: r, log: log, lanes: map[int]*lane{}, own: newMemory()}
}

// Take charges n requests to a bucket that holds burst requests (at least 1) and gets rate new ones per second. A
// rate of 0 means no limit. Take returns within half a second, whatever the store does.
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

// Stop waits until no call is under way. Later requests are counted by this process alone.
func (l *Limiter) Stop() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.group.Wait()
}

// enter adds an ask to the batch of its partition, or returns its answer at once and a nil entry.
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
		l.resume = now.Add(away) // this ask tries the store; the others do not wait for it
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

// wait returns the store's answer. If the caller leaves or the store takes too long, it returns this process's own
// count.
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

// lost makes the limiter leave the store alone for the time away. l.mu must be held.
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
