// Package recovery brings back what a crash or an outage left lying: the two watches over running jobs, the promoter of scheduled ones, and
// the drainer of the outbox. Each is a loop around runOnce. Any number of processes may run them at once: every step is atomic in
// Redis, and what one has done the others no longer find.
package recovery

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Loop runs runOnce, waits as long as that says or until it is woken, and starts over. It may be stopped twice, and before it starts.
type Loop struct {
	runOnce func(ctx context.Context) (wait time.Duration)
	wake    chan struct{}
	next    atomic.Pointer[time.Time] // when the next run is due; nil = the first one is not over

	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
}

// NewLoop makes a loop that stands still until Start. runOnce says how long to wait before the next run.
func NewLoop(runOnce func(ctx context.Context) time.Duration) *Loop {
	return &Loop{runOnce: runOnce, wake: make(chan struct{}, 1)}
}

// Start begins to run, until Stop.
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

// Stop ends the loop and waits until the run under way has returned, or ctx ends.
func (l *Loop) Stop(ctx context.Context) error {
	l.mu.Lock()
	cancel, done := l.cancel, l.done
	l.mu.Unlock()
	if done == nil {
		return nil
	}
	cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// running says whether the loop was started and not yet stopped.
func (l *Loop) running() bool {
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

// Next is in how long the next run begins: 0 = it is due, or under way. false: the loop stands still.
func (l *Loop) Next() (in time.Duration, moves bool) {
	if !l.running() {
		return 0, false
	}
	if at := l.next.Load(); at != nil {
		in = max(time.Until(*at), 0)
	}
	return in, true
}

// Wake makes the next run come at once. It never blocks.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
