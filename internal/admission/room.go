package admission

import (
	"context"
	"sync/atomic"

	"github.com/tierq/tierq/internal/loop"
)

// maxWaiting bounds the submits that wait for their answer, in all partitions of the process.
const maxWaiting = 4096

// room counts the submits that wait for their answer. A single submit that finds no place is refused at once. A
// batch waits for places, one batch at a time, and takes one call's worth of places at once, so that batches and
// single submits do not shut each other out.
type room struct {
	taken atomic.Int64
	turn  chan struct{} // held by the waiting batch
	freed loop.Signal   // set when a place is given back
}

func newRoom() *room { return &room{turn: make(chan struct{}, 1), freed: loop.NewSignal()} }

// take takes n places, or none if fewer are free.
func (r *room) take(n int) bool {
	for {
		taken := r.taken.Load()
		if taken+int64(n) > maxWaiting {
			return false
		}
		if r.taken.CompareAndSwap(taken, taken+int64(n)) {
			return true
		}
	}
}

// takeNow is take for a caller that does not wait.
func (r *room) takeNow(_ context.Context, n int) bool { return r.take(n) }

// give gives one place back.
func (r *room) give() {
	r.taken.Add(-1)
	r.freed.Set()
}

// wait takes n places as soon as they are free, and returns false if ctx ends before. Places are given back one by
// one, so n should be small.
func (r *room) wait(ctx context.Context, n int) bool {
	if r.take(n) {
		return true
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return false
	}
	for !r.take(n) {
		select {
		case <-r.freed:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
