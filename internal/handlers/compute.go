package handlers

import (
	"context"
	"crypto/sha256"
	"time"
)

// sliceIterations is the number of hashes in one slice of a COMPUTE step: less than a millisecond's work.
const sliceIterations = 2048

// processor lets the COMPUTE steps of this process work in turns. After each slice it rests as long as the slice
// took. So COMPUTE steps in any number of slots use half of one processor, and a submit that arrives meanwhile
// waits for one slice at most.
type processor struct {
	turn chan struct{} // holds one entry while a step computes or rests
	rest func(ctx context.Context, d time.Duration) error
}

var ownProcessor = newProcessor()

func newProcessor() *processor { return &processor{turn: make(chan struct{}, 1), rest: pause} }

// do waits for its turn and runs one slice; if more slices follow, it rests afterwards. Its error is the cause for
// which ctx ended.
func (p *processor) do(ctx context.Context, slice func(), more bool) error {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.turn }()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	began := time.Now()
	slice()
	if !more {
		return nil
	}
	return p.rest(ctx, time.Since(began))
}

// compute hashes its own last hash again and again: real work that no compiler can shorten.
func (r *simulation) compute(ctx context.Context, s Step) error {
	r.computed = true
	for left := *s.Iterations; left > 0; left -= sliceIterations {
		err := r.processor.do(ctx, func() {
			for range min(left, sliceIterations) {
				r.chain = sha256.Sum256(r.chain[:])
			}
		}, left > sliceIterations)
		if err != nil {
			return err
		}
	}
	return nil
}
