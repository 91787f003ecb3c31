package worker

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// A handler that ignores its context is counted and logged, its slot goes to another job, and its result is
// dropped.
func TestStuckHandler(t *testing.T) {
	t.Attr("proves", "F47 S4-N10")
	synctest.Test(t, func(t *testing.T) {
		var ran, running, most atomic.Int32
		r := newRig(func(ctx context.Context) (string, error) {
			if run, _ := handler.Running(ctx); run.ID == work(1, job.Public).ID {
				<-time.After(100 * time.Second) // ten times its maximum
				return "late", nil
			}
			most.Store(max(most.Load(), running.Add(1)))
			<-time.After(10 * time.Millisecond)
			running.Add(-1)
			ran.Add(1)
			return "", nil
		})
		r.queue.push(work(1, job.Public))
		r.start(t)
		after(11 * time.Second)
		if s := r.Stats(); s.Stuck != 0 || s.Running != 1 || s.Free != 1 {
			t.Errorf("a second after the maximum: %+v, want it not stuck yet", s)
		}
		after(1500 * time.Millisecond)
		if s := r.Stats(); s.Stuck != 1 || s.Running != 0 || s.Free != 2 || s.Wedged != 0 || s.Undelivered != 0 ||
			s.Failed != 1 {
			t.Errorf("2.5 s after the maximum: %+v, want one stuck handler without a slot, and the failure reported", s)
		}
		for i := range 50 {
			r.queue.push(work(2+i, job.Paid))
		}
		r.Wake()
		after(time.Second)
		if ran.Load() != 50 || most.Load() != 2 {
			t.Errorf("%d of 50 other jobs ran, %d at a time, want both slots at work", ran.Load(), most.Load())
		}
		after(100 * time.Second)
		s := r.Stats()
		done, failures, _ := r.queue.endings()
		if s.Stuck != 0 || s.Running != 0 || s.Free != 2 || len(done) != 50 || len(failures) != 1 {
			t.Errorf("after it returned: %+v, %d completed, %d failed, want two slots, and its result dropped", s, len(done),
				len(failures))
		}
		if n := strings.Count(r.logs.String(), "it is stuck"); n != 1 ||
			!strings.Contains(r.logs.String(), string(work(1, job.Public).ID)) {
			t.Errorf("told %d times, want once, with the job's id:\n%s", n, r.logs)
		}
		r.stop(t)
		if len(r.held) != 0 {
			t.Errorf("%d leases are still held", len(r.held))
		}
	})
}

// However many handlers never return, there are never more than 2 * Slots handlers, and the pool works with the
// slots that are left. Lost slots come back as handlers return, in whatever order.
func TestStuckHandlersDoNotWedgeThePool(t *testing.T) {
	t.Attr("proves", "F47")
	for _, slots := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(slots, " slots"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { wedge(t, slots) })
		})
	}
}

func wedge(t *testing.T, slots int) {
	var running, most atomic.Int32
	back := make(chan struct{})
	r := newRig(func(ctx context.Context) (string, error) {
		if run, _ := handler.Running(ctx); run.Tier == job.Public {
			most.Store(max(most.Load(), running.Add(1)))
			<-back
			running.Add(-1)
		}
		return "", nil
	}, func(c *Config) { c.Slots = slots })
	poison := func(n int) {
		for i := range n {
			r.queue.push(work(i, job.Public))
		}
		r.Wake()
	}
	good := func(want int64, when string) {
		t.Helper()
		before := r.Stats().Completed
		r.queue.push(work(1000, job.Paid))
		r.Wake()
		after(2 * time.Second)
		if got := r.Stats().Completed - before; got != want {
			t.Errorf("%s: %d good jobs ran, want %d: %+v", when, got, want, r.Stats())
		}
	}
	expect := func(when string, stuck, wedged int) {
		t.Helper()
		s := r.Stats()
		if s.Stuck != stuck || s.Wedged != wedged || s.Running != wedged || s.Free != slots-wedged || s.Undelivered != 0 {
			t.Errorf("%s: %+v, want %d stuck, %d slots lost, the others free", when, s, stuck, wedged)
		}
	}
	r.start(t)
	poison(slots)
	after(13 * time.Second)
	expect("as many as slots", slots, 0)
	good(1, "as many as slots")
	if strings.Contains(r.logs.String(), "level=ERROR") {
		t.Errorf("shouted before a slot was lost:\n%s", r.logs)
	}
	poison(slots - 1)
	after(13 * time.Second)
	if slots > 1 {
		expect("one slot is left", 2*slots-1, slots-1)
		good(1, "one slot is left")
	}
	poison(3) // one for the last slot, and two that must wait
	after(13 * time.Second)
	expect("nothing is left", 2*slots, slots)
	claims := len(r.queue.asked())
	good(0, "nothing is left")
	if n := len(r.queue.asked()); n != claims || running.Load() != int32(2*slots) {
		t.Errorf("%d claims without a slot, %d handlers", n-claims, running.Load())
	}
	if n := strings.Count(r.logs.String(), "level=ERROR"); n != min(slots, 2) ||
		strings.Count(r.logs.String(), "every slot is lost") != 1 {
		t.Errorf("shouted %d times, want it once when the first slot is lost and once when the last is:\n%s", n, r.logs)
	}

	back <- struct{}{} // one returns: its slot runs the two that waited and then the good job
	after(time.Millisecond)
	if running.Load() != int32(2*slots) {
		t.Errorf("%d handlers, want the next one in the place of the one that returned", running.Load())
	}
	close(back)
	after(time.Second)
	good(1, "all returned")
	expect("all returned", 0, 0)
	if most.Load() != int32(2*slots) || !strings.Contains(r.logs.String(), "all slots are usable again") {
		t.Errorf("%d handlers at a time; log:\n%s", most.Load(), r.logs)
	}
	r.stop(t)
	if len(r.held) != 0 || r.running != 0 || r.stuck != 0 || r.idle > slots {
		t.Errorf("%d held, %d running, %d stuck, %d goroutines for %d slots", len(r.held), r.running, r.stuck, r.idle, slots)
	}
}

// A drain waits for handlers that may still end their jobs, not for handlers whose jobs have their endings.
func TestDrainDoesNotWaitForStuckHandlers(t *testing.T) {
	t.Attr("proves", "F47")
	cases := []struct {
		name string
		ran  time.Duration // when Stop is called
		rest time.Duration // how long the other job then still runs
		took time.Duration
	}{
		{"stuck before: it waits for the other job only", 13 * time.Second, 5 * time.Second, 5 * time.Second},
		{"stuck while it drains, after the other job is done", 9 * time.Second, time.Second, 3 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				back := make(chan struct{})
				r := newRig(func(ctx context.Context) (string, error) {
					if run, _ := handler.Running(ctx); run.Tier == job.Public {
						<-back
						return "", nil
					}
					<-time.After(c.ran + c.rest)
					return "", nil
				}, func(c *Config) { c.DrainTimeout = 20 * time.Second })
				r.queue.push(work(1, job.Public), work(2, job.Paid))
				r.start(t)
				after(c.ran)
				begin := time.Now()
				err := r.Stop(t.Context())
				if took := time.Since(begin); took < c.took || took > c.took+300*time.Millisecond {
					t.Errorf("Stop took %v, want %v", took, c.took)
				}
				if err == nil || !strings.Contains(err.Error(), "1 handlers still run, 0 endings") {
					t.Errorf("Stop = %v", err)
				}
				if done, failures, released := r.queue.endings(); len(done) != 1 || len(failures) != 1 || len(released) != 0 {
					t.Errorf("completed %+v, failed %+v, released %+v", done, failures, released)
				}
				close(back)
			})
		})
	}
}
