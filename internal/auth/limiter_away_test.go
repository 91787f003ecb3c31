package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func TestTakeWithoutTheStore(t *testing.T) {
	t.Attr("proves", "A06")
	t.Parallel()
	for name, fault := range map[string]func(context.Context, []job.RateAsk) error{
		"refuses": func(context.Context, []job.RateAsk) error { return fmt.Errorf("rate: %w", job.ErrUnavailable) },
		"is silent": func(ctx context.Context, _ []job.RateAsk) error {
			<-ctx.Done()
			return fmt.Errorf("rate: %w: %w", job.ErrAmbiguous, ctx.Err())
		},
		"keeps no deadline": func(context.Context, []job.RateAsk) error { <-time.After(10 * time.Second); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				s := newStore()
				s.before = fault
				l := NewLimiter(s, slog.New(slog.NewTextHandler(&log, nil)))
				defer l.Stop()
				began := time.Now()
				if ok := passed(l, 1000, "brute", 1, 20); ok != 20 {
					t.Errorf("%d of 1000 at once passed, not 20", ok)
				}
				if took := time.Since(began); took > patience {
					t.Errorf("they waited %s", took)
				}
				if ok := passed(l, 3, "neighbour", 1, 20); ok != 3 {
					t.Errorf("the neighbour: %d of 3", ok)
				}
				<-time.After(10 * time.Second)
				began = time.Now()
				if ok := passed(l, 1000, "brute", 1, 20); ok < 10 || ok > 11 {
					t.Errorf("ten seconds later: %d", ok)
				}
				if took := time.Since(began); took > patience {
					t.Errorf("they waited %s", took)
				}
				if n := strings.Count(log.String(), "this process counts for itself"); n != 1 {
					t.Errorf("the log says it %d times:\n%s", n, log.String())
				}
				<-time.After(tellEvery)
				passed(l, 1, "brute", 1, 20)
				if n := strings.Count(log.String(), "this process counts for itself"); n != 2 {
					t.Errorf("a minute later the log says it %d times", n)
				}
				// The store comes back, and counts again.
				s.mu.Lock()
				s.before = nil
				s.mu.Unlock()
				<-time.After(12 * time.Second)
				calls := len(s.asked())
				passed(l, 2, "brute", 1, 20)
				if got := len(s.asked()) - calls; got != 2 {
					t.Errorf("%d calls after it came back", got)
				}
			})
		})
	}
}

// While the store is away, one ask per second tries it, and no other ask waits for it.
func TestTakeTriesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.before = func(ctx context.Context, _ []job.RateAsk) error { <-ctx.Done(); return job.ErrAmbiguous }
		l := NewLimiter(s, nil)
		defer l.Stop()
		var waited atomic.Int64
		for range 100 {
			var group sync.WaitGroup
			for range 10 {
				group.Go(func() {
					began := time.Now()
					passed(l, 1, "x", 1, 1)
					waited.Add(int64(time.Since(began)))
				})
			}
			<-time.After(100 * time.Millisecond)
			group.Wait()
		}
		if calls := len(s.asked()); calls > 15 {
			t.Errorf("%d calls in some ten seconds", calls)
		}
		if sum := time.Duration(waited.Load()); sum > 10*callTime+15*callTime {
			t.Errorf("they waited %s in all", sum)
		}
	})
}

// An error of the script affects one bucket or one partition: the store still counts the others.
func TestTakeOneBadBucket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.before = func(_ context.Context, asks []job.RateAsk) error {
			if asks[0].Bucket == "bad" {
				return errors.New("rate: WRONGTYPE")
			}
			return nil
		}
		l := NewLimiter(s, nil)
		defer l.Stop()
		if ok := passed(l, 5, "bad", 1, 3); ok != 3 {
			t.Errorf("%d passed", ok)
		}
		if passed(l, 1, "good", 1, 3); len(s.asked()) != 6 {
			t.Errorf("calls %v", s.asked())
		}
	})
}

func TestTakeBounds(t *testing.T) {
	t.Attr("proves", "A31")
	t.Parallel()
	t.Run("waiting", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newStore()
			s.before = func(ctx context.Context, _ []job.RateAsk) error { <-ctx.Done(); return job.ErrAmbiguous }
			l := NewLimiter(s, nil)
			defer l.Stop()
			var ok atomic.Int64
			var group sync.WaitGroup
			for range 5000 {
				group.Go(func() { ok.Add(int64(passed(l, 1, "bucket", 0.001, 700))) })
			}
			synctest.Wait()
			l.mu.Lock()
			waiting := l.lanes[s.RatePartition("bucket")].waiting.Len()
			l.mu.Unlock()
			if waiting > maxWaiting {
				t.Errorf("%d wait", waiting)
			}
			group.Wait()
			if ok.Load() != 700 {
				t.Errorf("%d passed", ok.Load())
			}
		})
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		m, now := newMemory(), time.Now()
		refused := job.RateAnswer{RetryIn: time.Hour}
		for i := range 3 * maxKnown {
			ask := job.RateAsk{Bucket: fmt.Sprint("address:", i), Rate: 0.001, Burst: 1, N: 1}
			if !m.take(ask, now).OK {
				t.Fatalf("%d is refused for others", i)
			}
			m.learn(ask, refused, now)
			first := job.RateAsk{Bucket: "first", Rate: 0.001, Burst: 1, N: 1}
			if m.take(first, now).OK != (i == 0) {
				t.Fatalf("after %d the one that is always asked for is forgotten", i)
			}
		}
		if len(m.items) != maxKnown || m.order.Len() != maxKnown {
			t.Errorf("%d and %d are known", len(m.items), m.order.Len())
		}
	})
}

func TestStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := NewLimiter(s, nil)
		l.Stop()
		l.Stop()
		if ok := passed(l, 5, "x", 1, 3); ok != 3 || len(s.asked()) != 0 {
			t.Errorf("%d passed, calls %v", ok, s.asked())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.before = func(context.Context, []job.RateAsk) error { <-time.After(100 * time.Millisecond); return nil }
		l := NewLimiter(s, nil)
		go passed(l, 1, "x", 1, 3)
		synctest.Wait()
		began := time.Now()
		l.Stop()
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("it waited %s for the call under way", took)
		}
	})
}

// A caller who leaves does not cancel the call for the other callers in it.
func TestTakeCallerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.before = func(ctx context.Context, _ []job.RateAsk) error {
			<-time.After(100 * time.Millisecond)
			return ctx.Err()
		}
		l := NewLimiter(s, nil)
		defer l.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		var group sync.WaitGroup
		for _, c := range []struct {
			ctx  context.Context
			took time.Duration
		}{{ctx, 10 * time.Millisecond}, {t.Context(), 200 * time.Millisecond}, {ctx, 10 * time.Millisecond},
			{t.Context(), 200 * time.Millisecond}} {
			group.Go(func() {
				began := time.Now()
				if got := l.Take(c.ctx, "x", 1, 10, 1); got.RetryIn != 0 || time.Since(began) != c.took {
					t.Errorf("%+v after %s, want %s", got, time.Since(began), c.took)
				}
			})
			synctest.Wait()
		}
		group.Wait()
		if got := s.asked(); len(got) != 2 || got[1] != 2 {
			t.Errorf("calls %v: who had left before was asked for all the same", got)
		}
	})
}
