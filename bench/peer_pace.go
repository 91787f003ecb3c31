package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// together lets so many clients make n calls between them, each with one under way at a time, and returns how long all
// took.
func together(ctx context.Context, clients, n int, call func(client int) error) (time.Duration, error) {
	var left atomic.Int64
	left.Store(int64(n))
	errs := make([]error, clients)
	var group sync.WaitGroup
	began := time.Now()
	for c := range clients {
		group.Go(func() {
			for left.Add(-1) >= 0 && errs[c] == nil {
				if errs[c] = ctx.Err(); errs[c] == nil {
					errs[c] = call(c)
				}
			}
		})
	}
	group.Wait()
	return time.Since(began), errors.Join(errs...)
}

// start is the run of job number n, by the clock of the program that sent it.
type start struct {
	n  int
	at time.Time
}

// pickups sends n jobs, rate a second, and returns each one's time from the answer to its start, in the order they were
// sent. The first warmSubmits that it sends are not among them. send says when job i was answered; the handlers tell of
// their starts, which must not block.
func pickups(ctx context.Context, rate, n int, starts <-chan start,
	send func(i int) (time.Time, error)) ([]time.Duration, error) {
	n += warmSubmits
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	answered, times, seen := make([]time.Time, n), make([]time.Duration, n), make([]bool, n)
	for i := range n {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		var err error
		if answered[i], err = send(i); err != nil {
			return nil, err
		}
	}
	for i := range n {
		select {
		case s := <-starts:
			if s.n < 0 || s.n >= n || seen[s.n] {
				return nil, fmt.Errorf("job %d started twice, or was never sent", s.n)
			}
			seen[s.n], times[s.n] = true, max(s.at.Sub(answered[s.n]), 0)
		case <-time.After(patience):
			return nil, fmt.Errorf("%d of %d jobs started", i, n)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return times[warmSubmits:], nil
}
