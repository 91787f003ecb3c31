package worker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

// runContext is a handler's context. It ends at its deadline (handler.ErrMaxTime), with the cause that cancel
// gets, or when the handler has returned. The contexts and the timer behind it are made when they are first
// needed, which for most short handlers is never.
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
	stop   context.CancelFunc // of the parent, which has the deadline
}

// over is the context of a handler that returned and never used its context.
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

// cancel ends the context. The first cause stands.
func (c *runContext) cancel(cause error) { c.get().cancel(cause) }

// free ends the context after the handler has returned. The caller must have read the cause before.
func (c *runContext) free() {
	if c.made.Load() == nil && c.made.CompareAndSwap(nil, over) {
		return
	}
	c.made.Load().stop()
}

// ended says whether the context has ended.
func (c *runContext) ended(now time.Time) bool {
	if e := c.made.Load(); e != nil {
		return e.Err() != nil
	}
	return !now.Before(c.deadline)
}

// cause returns why the context ended, nil if it has not ended.
func (c *runContext) cause() error { return context.Cause(c.get()) }

// Deadline implements context.Context.
func (c *runContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements context.Context.
func (c *runContext) Done() <-chan struct{} { return c.get().Done() }

// Err implements context.Context.
func (c *runContext) Err() error { return c.get().Err() }

// Value implements context.Context. It also answers the private keys with which package context finds its own
// contexts.
func (c *runContext) Value(key any) any {
	if key == (handler.RunKey{}) {
		return c.run
	}
	return c.get().Value(key)
}
