package admission

import (
	"context"
	"sync/atomic"
	"time"
)

// caller waits until all of its entries are answered.
type caller struct {
	left atomic.Int64  // entries without an answer
	done chan struct{} // has space for the one value that is sent when none is left
}

func newCaller(entries int) *caller {
	w := &caller{done: make(chan struct{}, 1)}
	w.left.Store(int64(entries))
	return w
}

func (w *caller) answered() {
	if w.left.Add(-1) == 0 {
		w.done <- struct{}{}
	}
}

// wait is the caller of a single submit, with the timer of its patience. It is reused for one submit after
// another: once its entry is answered, nothing more is sent to it.
type wait struct {
	caller
	timer *time.Timer // stopped between two submits
}

func newWait() *wait {
	w := &wait{caller: caller{done: make(chan struct{}, 1)}, timer: time.NewTimer(patience)}
	w.timer.Stop()
	return w
}

func (w *wait) begin() { w.timer.Reset(patience) }

// end returns when the entry is answered: by its committer, or because its caller left or its patience is over.
func (w *wait) end(ctx context.Context, e *entry) {
	select {
	case <-w.done:
		return
	case <-w.timer.C:
		e.home.leave(e, nil)
	case <-ctx.Done():
		e.home.leave(e, ctx.Err())
	}
	<-w.done
}
