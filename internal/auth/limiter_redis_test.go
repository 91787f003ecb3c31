package auth

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// Two processes with many requests at once together let pass the burst of each bucket, and no more.
func TestTakeOverTwoProcesses(t *testing.T) {
	t.Attr("proves", "A06 A31")
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Partitions = 3 }, func(t *testing.T, e *queuetest.Env) {
		for try := range 20 {
			limiters := []*Limiter{NewLimiter(e.Queue, nil), NewLimiter(e.Process("second"), nil)}
			var ok [4]atomic.Int64
			var group sync.WaitGroup
			for i := range 120 {
				group.Go(func() {
					bucket := i % len(ok)
					if limiters[i/4%2].Take(t.Context(), fmt.Sprint("bucket ", try, bucket), 0.001, 10+bucket, 1).RetryIn == 0 {
						ok[bucket].Add(1)
					}
				})
			}
			group.Wait()
			counted := true
			for _, l := range limiters {
				l.Stop()
				counted = counted && l.told.IsZero()
			}
			if !counted { // a call took too long on a busy machine: then each process counts by itself
				continue
			}
			for i := range ok {
				if got := ok[i].Load(); got != int64(10+i) {
					t.Errorf("bucket %d: %d passed", i, got)
				}
			}
			return
		}
		t.Error("Redis never answered in time")
	})
}

// slowest records the longest of several durations.
type slowest struct{ atomic.Int64 }

func (s *slowest) time(f func()) {
	began := time.Now()
	f()
	for {
		old := s.Load()
		if took := int64(time.Since(began)); took <= old || s.CompareAndSwap(old, took) {
			return
		}
	}
}

// While Redis is frozen, this process alone slows wrong keys, no request waits for long, and no other request is
// refused.
func TestTakeWhileRedisIsFrozen(t *testing.T) {
	t.Attr("proves", "A06")
	t.Parallel()
	r := testkit.NewRedis(t, "--appendonly", "no")
	clients, err := queue.Connect(r.URL())
	if err != nil {
		t.Fatal(err)
	}
	e := queuetest.Open(t, clients, func(*queue.Options) {})
	l := NewLimiter(e.Queue, nil)
	defer l.Stop()
	take := func(bucket string) bool {
		return l.Take(context.Background(), bucket, 0.001, 20, 1).RetryIn == 0
	}
	for tries := 0; take("brute"); tries++ {
		if tries > 100 {
			t.Fatal("the limit does not limit")
		}
	}
	if err := r.Freeze(); err != nil {
		t.Fatal(err)
	}
	var longest slowest
	var brute atomic.Int64
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			longest.time(func() {
				if take("brute") {
					brute.Add(1)
				}
				if !take(fmt.Sprint("neighbour ", i)) {
					t.Errorf("neighbour %d is refused", i)
				}
			})
		})
	}
	group.Wait()
	if err := r.Thaw(); err != nil {
		t.Fatal(err)
	}
	if n := brute.Load(); n > 20 {
		t.Errorf("%d of the brute force passed", n)
	}
	if took := time.Duration(longest.Load()); took > 5*time.Second { // two waits of 0.4 s, on a busy machine
		t.Errorf("somebody waited %s", took)
	}
	// Redis comes back, and counts as before.
	testkit.Eventually(t, 20*time.Second, "Redis counts again", func() (bool, string) {
		answers, err := e.Rates(t.Context(), 0, []job.RateAsk{{Bucket: "brute", Rate: 0.001, Burst: 20, N: 1}})
		return err == nil && !answers[0].OK, fmt.Sprint(answers, err)
	})
}
