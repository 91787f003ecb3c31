package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func TestHintsLeadToAClaim(t *testing.T) {
	t.Attr("proves", "S0-N2 S1-N3 S3-Q3 S3-I17 S4-N1")
	cases := []struct {
		name   string
		hint   func(r *rig)
		within time.Duration
	}{
		{"a wake in the same process", func(r *rig) { r.Wake() }, 0},
		{"a token", func(r *rig) { r.bell.token.Set() }, 0},
		{"a lost token", func(*rig) {}, time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(quick)
				r.start(t)
				after(2300 * time.Millisecond)
				r.queue.push(work(1, job.Paid))
				c.hint(r)
				after(c.within)
				if done, _, _ := r.queue.endings(); len(done) != 1 {
					t.Errorf("the job is not done after %v", c.within)
				}
				r.stop(t)
			})
		})
	}
}

// A pool without a free slot passes a token on, and does not wait at the doorbell any more.
func TestTokenWithoutAFreeSlotIsRungAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		r := newRig(func(context.Context) (string, error) { <-finish; return "", nil }, func(c *Config) { c.Slots = 1 })
		r.start(t)
		after(300 * time.Millisecond) // the waiter listens
		r.queue.push(work(1, job.Paid))
		r.Wake()
		synctest.Wait()
		r.bell.token.Set()
		synctest.Wait()
		waits, rings := r.bell.seen()
		if rings != 1 || len(r.bell.token) != 1 {
			t.Fatalf("rung again %d times, want once", rings)
		}
		after(10 * time.Second)
		if w, n := r.bell.seen(); w != waits || n != 1 {
			t.Errorf("without a free slot the pool waited %d more times and rang %d more times", w-waits, n-1)
		}
		claims := len(r.queue.asked())
		close(finish)
		synctest.Wait()
		if n := len(r.queue.asked()); n <= claims {
			t.Error("no claim after a slot was freed")
		}
		if w, _ := r.bell.seen(); w == waits {
			t.Error("the pool does not listen with a free slot")
		}
		r.stop(t)
	})
}

func TestDoorbellOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(quick)
		r.bell.wait = func(context.Context) error { return job.ErrUnavailable }
		r.start(t)
		after(5 * time.Second)
		r.queue.push(work(1, job.Paid))
		after(time.Second)
		if done, _, _ := r.queue.endings(); len(done) != 1 {
			t.Error("without a doorbell no job is found")
		}
		if waits, _ := r.bell.seen(); waits > 12 {
			t.Errorf("%d waits in 6 s of outage", waits)
		}
		r.stop(t)
	})
}

func TestTokenAtStopIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(quick)
		r.bell.wait = func(ctx context.Context) error { <-ctx.Done(); return nil } // the token came at that moment
		r.start(t)
		synctest.Wait()
		r.stop(t)
		if _, rings := r.bell.seen(); rings != 1 {
			t.Errorf("rung %d times, want the token passed on", rings)
		}
	})
}
