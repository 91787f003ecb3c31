package worker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

// runContext is a handler's context. It ends at its deadline (handler.ErrMaxTime), for the cause that cancel is told,
// or when the handler has returned. What ends it, two contexts and a timer, is made when somebody first asks for it:
// most short handlers never do.
type runContext struct {
	base     context.Context
	deadline time.Time
	run      handler.Runner
	made     atomic.Pointer[endable]
}

// endable is the context behind a runContext. Contexts that handlers derive are its children, so that they need no
// goroutine.
type endable struct {
	context.Context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc // of the one with the deadline, the other's parent
}

// over stands in for the context of a handler that returned and never asked for it.
var over = func() *endable {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return &endable{Context: ctx, cancel: func(error) {}, stop: func() {}}
}()

func (c *runContext) get() *endable {
	if e := c.made.Load(); e != nil {
		return e
	}
	withDeadline, stop := context.WithDeadlineCause(c.base, c.deadline, handler.ErrMaxTime)
	ctx, cancel := context.WithCancelCause(withDeadline)
	e := &endable{Context: ctx, cancel: cancel, stop: stop}
	if !c.made.CompareAndSwap(nil, e) {
		stop()
		return c.made.Load()
	}
	return e
}

// cancel ends it. The first cause stands.
func (c *runContext) cancel(cause error) { c.get().cancel(cause) }

// free ends it when the handler has returned; the cause must have been read.
func (c *runContext) free() {
	if c.made.Load() == nil && c.made.CompareAndSwap(nil, over) {
		return
	}
	c.made.Load().stop()
}

// ended says whether it has ended.
func (c *runContext) ended(now time.Time) bool {
	if e := c.made.Load(); e != nil {
		return e.Err() != nil
	}
	return !now.Before(c.deadline)
}

// cause is why it ended, nil if it has not.
func (c *runContext) cause() error { return context.Cause(c.get()) }

// Deadline implements context.Context.
func (c *runContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements context.Context.
func (c *runContext) Done() <-chan struct{} { return c.get().Done() }

// Err implements context.Context.
func (c *runContext) Err() error { return c.get().Err() }

// Value implements context.Context. It also answers what package context asks of the contexts it makes.
func (c *runContext) Value(key any) any {
	if key == (handler.RunKey{}) {
		return c.run
	}
	return c.get().Value(key)
}
