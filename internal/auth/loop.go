package auth

import (
	"context"
	"sync"
	"time"
)

// loop runs once, waits as long as that says or until it is woken, and starts over. It may be stopped twice, and before it starts.
type loop struct {
	runOnce func(ctx context.Context) (wait time.Duration)
	woken   chan struct{}

	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
}

func newLoop(runOnce func(ctx context.Context) time.Duration) *loop {
	return &loop{runOnce: runOnce, woken: make(chan struct{}, 1)}
}

func (l *loop) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil {
		return
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
			case <-l.woken:
			}
			timer.Reset(l.runOnce(ctx))
		}
	}()
}

// stop ends the loop and waits until the run under way has returned, or ctx ends.
func (l *loop) stop(ctx context.Context) error {
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

// wake makes the next run come at once. It never blocks.
func (l *loop) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}
