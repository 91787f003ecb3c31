package app

import (
	"context"
	"sync"
	"time"
)

// lookAge is how long the answer of a store to a health check is reused.
const lookAge = 250 * time.Millisecond

// sharedLook asks a store one question for all callers: one call at a time, whose answer is reused for lookAge.
// Health checks need no key and have no rate limit, so the calls to the store must not grow with the requests.
type sharedLook[T any] struct {
	ask func(ctx context.Context) (T, error)

	mu     sync.Mutex
	flight chan struct{} // closed when the present call has its answer; nil = there is no call
	at     time.Time     // the time of the answer; zero = none yet
	answer T
	err    error
}

func newSharedLook[T any](ask func(ctx context.Context) (T, error)) *sharedLook[T] {
	return &sharedLook[T]{ask: ask}
}

// look returns an answer that is at most lookAge old, or the error of ctx. The call to the store does not end with
// ctx, which belongs to one of many callers, but after healthBound.
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
