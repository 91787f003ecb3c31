package handlers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

// COMPUTE steps work one at a time, in slices, and rest after each slice except the last.
func TestCompute_TakesTurnsAndRests(t *testing.T) {
	t.Attr("proves", "A29")
	p := newProcessor()
	var resting, rests atomic.Int64
	together := false
	p.rest = func(context.Context, time.Duration) error {
		together = together || resting.Add(1) > 1
		rests.Add(1)
		resting.Add(-1)
		return nil
	}
	iterations := int64(3*sliceIterations + 1)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			run := simulation{processor: p}
			if err := run.compute(t.Context(), Step{Iterations: &iterations}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if rests.Load() != 4*3 || together {
		t.Errorf("four steps of four slices rested %d times, two at once: %v", rests.Load(), together)
	}
}

// A step that waits for its turn ends with its context.
func TestCompute_WaitingEndsWithTheContext(t *testing.T) {
	p := newProcessor()
	p.turn <- struct{}{} // another step computes
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	iterations := int64(1)
	run := simulation{processor: p}
	go func() { ended <- run.compute(ctx, Step{Iterations: &iterations}) }()
	cancel(handler.ErrDraining)
	if err := <-ended; !errors.Is(err, handler.ErrDraining) || run.chain != [32]byte{} {
		t.Errorf("it ended with %v and computed %x", err, run.chain)
	}
}
