package worker

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

// oneMinute returns a handler's context that ends in a minute.
func oneMinute() *runContext {
	base := context.WithoutCancel(context.WithValue(context.Background(), ctxKey{}, "value"))
	return &runContext{base: base, deadline: time.Now().Add(time.Minute), run: handler.Run{ID: "the-job"}}
}

// A handler that first uses its context late sees the same end and cause as one that used it from the start.
func TestRunContext(t *testing.T) {
	look := func(c *runContext) { _ = c.Err() }
	never := func(*runContext) {}
	wait := func(d time.Duration) func(*runContext) { return func(*runContext) { <-time.After(d) } }
	cancel := func(cause error) func(*runContext) { return func(c *runContext) { c.cancel(cause) } }
	free := func(c *runContext) { c.free() }
	cases := []struct {
		name  string
		steps []func(*runContext)
		err   error
		cause error
	}{
		{"it runs", []func(*runContext){wait(59 * time.Second)}, nil, nil},
		{"over its time", []func(*runContext){wait(time.Minute)}, context.DeadlineExceeded, handler.ErrMaxTime},
		{"cancelled", []func(*runContext){cancel(handler.ErrCancelled)}, context.Canceled, handler.ErrCancelled},
		{"cancelled, and over its time", []func(*runContext){cancel(handler.ErrDraining), wait(time.Hour)}, context.Canceled,
			handler.ErrDraining},
		{"over its time, and cancelled", []func(*runContext){wait(time.Hour), cancel(handler.ErrLeaseLost)},
			context.DeadlineExceeded, handler.ErrMaxTime},
		{"cancelled twice", []func(*runContext){cancel(handler.ErrLeaseLost), cancel(handler.ErrDraining)}, context.Canceled,
			handler.ErrLeaseLost},
		{"returned", []func(*runContext){free}, context.Canceled, context.Canceled},
		{"returned, long ago", []func(*runContext){free, wait(time.Hour), cancel(handler.ErrDraining)}, context.Canceled,
			context.Canceled},
		{"cancelled, and returned", []func(*runContext){cancel(handler.ErrLeaseLost), free}, context.Canceled,
			handler.ErrLeaseLost},
	}
	for _, c := range cases {
		for first, before := range map[string]func(*runContext){"asked first": look, "not asked before": never} {
			t.Run(c.name+", "+first, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx := oneMinute()
					before(ctx)
					for _, step := range c.steps {
						step(ctx)
					}
					synctest.Wait()
					if ended, cause := ctx.ended(time.Now()), ctx.cause(); ended != (c.err != nil) || !errors.Is(cause, c.cause) {
						t.Errorf("ended %v for %v, want %v", ended, cause, c.cause)
					}
					child, stop := context.WithTimeout(ctx, time.Hour)
					defer stop()
					for of, ctx := range map[string]context.Context{"itself": ctx, "a child": child} {
						if err, cause := ctx.Err(), context.Cause(ctx); !errors.Is(err, c.err) || !errors.Is(cause, c.cause) {
							t.Errorf("%s: %v for %v, want %v for %v", of, err, cause, c.err, c.cause)
						}
						select {
						case <-ctx.Done():
							if c.err == nil {
								t.Errorf("%s is done", of)
							}
						default:
							if c.err != nil {
								t.Errorf("%s is not done", of)
							}
						}
					}
					ctx.free()
					if ctx.Err() == nil || child.Err() == nil {
						t.Error("the handler returned, and the context goes on")
					}
				})
			})
		}
	}
}

func TestRunContextEndsWhoWaits(t *testing.T) {
	for name, end := range map[string]func(*runContext){
		"cancel":   func(c *runContext) { c.cancel(handler.ErrLeaseLost) },
		"returned": func(c *runContext) { c.free() },
		"deadline": func(*runContext) { <-time.After(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := oneMinute()
				defer ctx.free()
				child, stop := context.WithCancel(ctx)
				defer stop()
				var told atomic.Int64
				for _, c := range []context.Context{ctx, child} {
					context.AfterFunc(c, func() { told.Add(1) })
					synctest.Wait()
				}
				end(ctx)
				synctest.Wait()
				if told.Load() != 2 {
					t.Errorf("%d of 2 were told", told.Load())
				}
			})
		})
	}
}

// Package context finds the context behind a runContext, so that derived contexts need no goroutine.
func TestRunContextsChildrenNeedNoGoroutine(t *testing.T) {
	ctx := oneMinute()
	defer ctx.free()
	before := runtime.NumGoroutine()
	for range 100 {
		_, stop := context.WithTimeout(context.WithValue(ctx, ctxKey{}, 1), time.Hour)
		defer stop()
	}
	if now := runtime.NumGoroutine(); now >= before+100 {
		t.Errorf("%d goroutines, %d before 100 children", now, before)
	}
}

func TestRunContextCarries(t *testing.T) {
	ctx := oneMinute()
	defer ctx.free()
	if at, ok := ctx.Deadline(); !ok || !at.Equal(ctx.deadline) {
		t.Errorf("deadline %v, %v", at, ok)
	}
	if run, ok := handler.Running(ctx); !ok || run.ID != "the-job" {
		t.Errorf("run = %+v, %v", run, ok)
	}
	if ctx.made.Load() != nil {
		t.Error("to know its job and its deadline, it was made")
	}
	if ctx.Value(ctxKey{}) != "value" {
		t.Error("the values of its base are lost")
	}
}
