// Package loop has the tools for repeated background work: the loop itself, the signal that wakes it, the pace
// that sets its delay, and the batcher of entries that share a call.
package loop

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Loop calls runOnce, waits for the time that runOnce returned or until it is woken, and starts over. It may be
// stopped twice, and before it starts.
type Loop struct {
	runOnce func(ctx context.Context) (wait time.Duration)
	wake    Signal
	next    atomic.Pointer[time.Time] // when the next run is due; nil = the first run is not over

	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
}

// New makes a loop that does nothing until Start. runOnce returns how long to wait before the next run.
func New(runOnce func(ctx context.Context) time.Duration) *Loop {
	return &Loop{runOnce: runOnce, wake: NewSignal()}
}

// Start starts the loop, which then runs until Stop; the context is not used. A second Start, or a Start after
// Stop, does nothing.
func (l *Loop) Start(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel, l.done = cancel, make(chan struct{})
	go func() {
		defer close(l.done)
		timer := time.NewTimer(0)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			case <-l.wake:
			}
			wait := l.runOnce(ctx)
			at := time.Now().Add(wait)
			l.next.Store(&at)
			timer.Reset(wait)
		}
	}()
	return nil
}

// Stop ends the loop and waits until the present run has returned, or until ctx ends, which is an error.
func (l *Loop) Stop(ctx context.Context) error {
	l.mu.Lock()
	cancel, done := l.cancel, l.done
	l.mu.Unlock()
	if done == nil {
		return nil
	}
	cancel()
	return Ended(ctx, done)
}

// Ended waits until done is closed, or until ctx ends, whose error it returns.
func Ended(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Waited is Ended for a WaitGroup.
func Waited(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	return Ended(ctx, done)
}

// Running says whether the loop was started and its last run has not ended.
func (l *Loop) Running() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		return false
	}
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}

// Next returns in how long the next run begins; 0 means that a run is due or under way. moves is false if the loop
// is not running.
func (l *Loop) Next() (in time.Duration, moves bool) {
	if !l.Running() {
		return 0, false
	}
	if at := l.next.Load(); at != nil {
		in = max(time.Until(*at), 0)
	}
	return in, true
}

// Wake makes the next run begin at once. It never blocks.
func (l *Loop) Wake() { l.wake.Set() }

// Signal tells one goroutine that there is work. Several signals before the goroutine receives count as one.
type Signal chan struct{}

// NewSignal makes a signal that is not set.
func NewSignal() Signal { return make(Signal, 1) }

// Set sets the signal. It never blocks.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Pace bounds the wait between a loop's runs: at least Floor, at most Ceiling.
type Pace struct{ Floor, Ceiling time.Duration }

// Next doubles the wait after a run that failed and halves it after one that succeeded.
func (p Pace) Next(wait time.Duration, failed bool) time.Duration {
	if failed {
		return min(wait*2, p.Ceiling)
	}
	return max(wait/2, p.Floor)
}
