package app

import (
	"context"
	"sync"
	"time"
)

// lookAge is how long what a health check saw of a store is good for.
const lookAge = 250 * time.Millisecond

// sharedLook asks a store something for everybody who wants to know it: one call at a time, whose answer is good for
// lookAge. Health needs no key and counts against no rate, so its calls must not grow with its requests.
type sharedLook[T any] struct {
	ask func(ctx context.Context) (T, error)

	mu     sync.Mutex
	flight chan struct{} // closed when the call that is under way has its answer; nil = none is
	at     time.Time     // of the answer; zero = there is none
	answer T
	err    error
}

func newSharedLook[T any](ask func(ctx context.Context) (T, error)) *sharedLook[T] {
	return &sharedLook[T]{ask: ask}
}

// look returns an answer that is at most lookAge old, or ctx's error. The call itself does not end with ctx, which is
// one caller's of many, but after healthBound.
func (s *sharedLook[T]) look(ctx context.Context) (T, error) {
	for {
		s.mu.Lock()
		if !s.at.IsZero() && time.Since(s.at) < lookAge {
			defer s.mu.Unlock()
			return s.answer, s.err
		}
		flight := s.flight
		if flight == nil {
			flight = make(chan struct{})
			s.flight = flight
			go s.call(context.WithoutCancel(ctx), flight)
		}
		s.mu.Unlock()
		select {
		case <-flight:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}

func (s *sharedLook[T]) call(ctx context.Context, flight chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, healthBound)
	defer cancel()
	answer, err := s.ask(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.err, s.at, s.flight = answer, err, time.Now(), nil
	close(flight)
}
