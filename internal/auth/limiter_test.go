package auth

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tierq/tierq/internal/job"
)

// store is a Rater that counts in this process as Redis does. If before is set, it is called first.
type store struct {
	before func(ctx context.Context, asks []job.RateAsk) error

	mu    sync.Mutex
	own   memory
	calls []int // number of asks in each call
}

func newStore() *store { return &store{own: newMemory()} }

func (s *store) RatePartition(bucket string) int { return len(bucket) % 3 }

func (s *store) Rates(ctx context.Context, _ int, asks []job.RateAsk) ([]job.RateAnswer, error) {
	s.mu.Lock()
	s.calls = append(s.calls, len(asks))
	before := s.before
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx, asks); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := make([]job.RateAnswer, len(asks))
	for i, ask := range asks {
		answers[i] = s.own.take(ask, time.Now())
	}
	return answers, nil
}

func (s *store) asked() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int(nil), s.calls...)
}

// passed takes one request n times, and returns how many passed.
func passed(l *Limiter, n int, bucket string, rate float64, burst int) int {
	ok := 0
	for range n {
		if l.Take(context.Background(), bucket, rate, burst, 1).RetryIn == 0 {
			ok++
		}
	}
	return ok
}

func TestTake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := NewLimiter(s, nil)
		defer l.Stop()
		for _, rate := range []float64{0, -1, math.NaN()} {
			if got := l.Take(t.Context(), "x", rate, 1, 1000); got != (job.Allowance{}) {
				t.Errorf("rate %g: %+v", rate, got)
			}
		}
		if len(s.asked()) > 0 {
			t.Error("what is unlimited was counted")
		}
		want := job.Allowance{Limited: true, Rate: 2, Burst: 4, Remaining: 1, Reset: 1500 * time.Millisecond}
		if got := l.Take(t.Context(), "x", 2, 4, 3); got != want {
			t.Errorf("three of four: %+v", got)
		}
		want.RetryIn = 500 * time.Millisecond
		if got := l.Take(t.Context(), "x", 2, 4, 2); got != want {
			t.Errorf("two more: %+v", got)
		}
		if got := l.Take(t.Context(), "x", 2, 4, 5); got.RetryIn != job.Never {
			t.Errorf("more than the burst: %+v", got)
		}
		<-time.After(500 * time.Millisecond)
		want = job.Allowance{Limited: true, Rate: 2, Burst: 4, Reset: 2 * time.Second}
		if got := l.Take(t.Context(), "x", 2, 4, 2); got != want {
			t.Errorf("half a second later: %+v", got)
		}
		if got := l.Take(t.Context(), "y", 1, 0, 1); got.Burst != 1 || got.RetryIn != 0 {
			t.Errorf("a burst of nothing: %+v", got)
		}
	})
}

// For any rate, and over any time, no more requests pass than the burst and the rate allow, and no fewer if the
// caller keeps asking.
func TestTakeHoldsTheRate(t *testing.T) {
	t.Attr("proves", "A06 A31")
	t.Parallel()
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("store away %v", away), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				rate := rapid.Float64Range(0.01, 500).Draw(rt, "rate")
				burst := rapid.IntRange(1, 30).Draw(rt, "burst")
				gaps := rapid.SliceOfN(rapid.IntRange(0, 3000), 1, 60).Draw(rt, "gaps")
				var wrong string
				synctest.Test(t, func(*testing.T) {
					s := newStore()
					if away {
						s.before = func(context.Context, []job.RateAsk) error { return job.ErrUnavailable }
					}
					l := NewLimiter(s, nil)
					defer l.Stop()
					tokens := float64(burst) // a token bucket, which counts the other way round
					for i, gap := range gaps {
						<-time.After(time.Duration(gap) * time.Millisecond)
						tokens = min(tokens+rate*float64(gap)/1000, float64(burst))
						got := l.Take(context.Background(), "x", rate, burst, 1)
						if got.RetryIn == 0 {
							tokens--
						}
						if got.RetryIn == 0 && tokens < -0.01 || got.RetryIn > 0 && tokens > 1.01 {
							wrong = fmt.Sprintf("ask %d: %+v with %.3f tokens", i, got, tokens)
							return
						}
					}
				})
				if wrong != "" {
					rt.Fatal(wrong)
				}
			})
		})
	}
}

func TestTakeInGroups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.before = func(context.Context, []job.RateAsk) error { <-time.After(time.Millisecond); return nil }
		l := NewLimiter(s, nil)
		defer l.Stop()
		var ok atomic.Int64
		var group sync.WaitGroup
		for range 350 {
			group.Go(func() { ok.Add(int64(passed(l, 1, "bucket", 0.001, 300))) })
		}
		group.Wait()
		calls := s.asked()
		total := 0
		for _, n := range calls {
			total += n
			if n > maxAsks {
				t.Errorf("a call of %d asks", n)
			}
		}
		if ok.Load() != 300 || total != 350 || len(calls) > 5 {
			t.Errorf("%d passed, in calls of %v", ok.Load(), calls)
		}
	})
}

// A flood from one caller costs the store only some calls, and exactly as many requests pass as its rate allows.
func TestTakeRefusesByItself(t *testing.T) {
	t.Attr("proves", "A29")
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := NewLimiter(s, nil)
		defer l.Stop()
		ok := 0
		for range 60_000 { // a minute of 1000 requests a second
			ok += passed(l, 1, "flood", 10, 10)
			<-time.After(time.Millisecond)
		}
		if ok != 10+600-1 && ok != 10+600 {
			t.Errorf("%d passed", ok)
		}
		if calls := len(s.asked()); calls > 2*ok {
			t.Errorf("%d calls for %d that passed", calls, ok)
		}
		passed(l, 2, "flood", 10, 10)
		before := len(s.asked())
		if got := l.Take(t.Context(), "flood", 10, 10, 1); got.RetryIn == 0 || got.RetryIn > 100*time.Millisecond ||
			got.Reset > time.Second {
			t.Errorf("one more: %+v", got)
		}
		if got := l.Take(t.Context(), "flood", 10, 10, 3); got.RetryIn < 200*time.Millisecond ||
			got.RetryIn > 300*time.Millisecond {
			t.Errorf("three more: %+v", got)
		}
		if got := l.Take(t.Context(), "flood", 10, 10, 11); got.RetryIn != job.Never {
			t.Errorf("eleven more: %+v", got)
		}
		if len(s.asked()) != before {
			t.Error("the store was asked what was known")
		}
		if passed(l, 1, "flood", 10, 30) != 1 || passed(l, 1, "other", 10, 10) != 1 || len(s.asked()) != before+2 {
			t.Error("a changed burst, or another caller, is refused for the flood's sake")
		}
		if passed(l, 1, "flood", 20, 10); len(s.asked()) != before+3 {
			t.Error("of a changed rate the store is not asked")
		}
		// An ask for less than what was refused gets what is left. The RetryIn and Reset of a refusal count from the time
		// when the store gave it.
		l.Take(t.Context(), "batches", 1, 10, 7)
		refused := l.Take(t.Context(), "batches", 1, 10, 5)
		<-time.After(500 * time.Millisecond)
		later := l.Take(t.Context(), "batches", 1, 10, 5)
		if refused.RetryIn-later.RetryIn != 500*time.Millisecond || refused.Reset-later.Reset != 500*time.Millisecond ||
			later.Remaining != 3 {
			t.Errorf("refused %+v, half a second later %+v", refused, later)
		}
		if passed(l, 3, "batches", 1, 10) != 3 {
			t.Error("single requests are refused for a batch's sake")
		}
		// The store may lose a bucket: an ask that it refused for an hour is sent to it again after a second.
		passed(l, 2, "slow", 1.0/3600, 1)
		s.mu.Lock()
		s.own = newMemory()
		s.mu.Unlock()
		<-time.After(longest)
		if passed(l, 1, "slow", 1.0/3600, 1) != 1 {
			t.Error("a refusal outlives its bucket")
		}
	})
}
