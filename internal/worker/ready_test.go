package worker

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// Each woken goroutine wakes the next before it runs its handler: all claimed jobs begin, even if no handler
// returns.
func TestEverythingClaimedBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots = 50
		var all sync.WaitGroup
		r := newRig(func(context.Context) (string, error) {
			all.Done()
			all.Wait()
			return "", nil
		}, func(c *Config) { c.Slots = slots })
		r.start(t)
		for n := range 3 { // first new goroutines, then idle ones
			all.Add(slots)
			for i := range slots {
				r.queue.push(work(100*n+i, job.Paid))
			}
			r.Wake()
			after(time.Second)
			if s := r.Stats(); s.Completed != int64(slots*(n+1)) {
				t.Fatalf("stats = %+v, want %d completed", s, slots*(n+1))
			}
		}
		r.stop(t)
	})
}

// Claimed jobs begin before more are claimed; otherwise a process that is short of processors would take jobs that
// others could run now.
func TestNoClaimBeforeWhatIsHereBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		r := newRig(func(context.Context) (string, error) { <-hold; return "", nil }, func(c *Config) { c.Slots = 3 })
		r.mu.Lock()
		r.waking = true // a goroutine was woken and does not run yet
		r.mu.Unlock()
		r.queue.push(work(1, job.Paid))
		r.start(t)
		synctest.Wait()
		r.queue.push(work(2, job.Paid))
		r.Wake()
		synctest.Wait()
		if asked := r.queue.asked(); len(asked) != 1 {
			t.Errorf("claims %+v while a job waits for a goroutine", asked)
		}
		if s := r.Stats(); s.Running != 1 || s.Free != 2 {
			t.Errorf("stats = %+v, want a slot taken", s)
		}
		go r.slot() // the woken goroutine
		synctest.Wait()
		if s := r.Stats(); s.Running != 2 || s.Claimed != 2 {
			t.Errorf("stats = %+v, want the second claimed once the first began", s)
		}
		close(hold)
		r.stop(t)
	})
}

// A goroutine that was woken for a lease that another goroutine took waits again and counts as idle.
func TestCalledInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(quick)
		r.start(t)
		r.mu.Lock()
		r.waking = true
		r.mu.Unlock()
		go r.slot()
		synctest.Wait()
		r.mu.Lock()
		if r.idle != 1 || r.waking {
			t.Errorf("%d goroutines wait, one is called: %v", r.idle, r.waking)
		}
		r.mu.Unlock()
		r.queue.push(work(1, job.Paid))
		r.Wake()
		synctest.Wait()
		if s := r.Stats(); s.Completed != 1 || r.idle != 1 {
			t.Errorf("stats = %+v, %d goroutines wait, want the same one to have run it", s, r.idle)
		}
		r.stop(t)
	})
}

// After handlers that end their goroutine, no count of goroutines is wrong.
func TestGoroutinesThatDoNotStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(ctx context.Context) (string, error) {
			run, _ := handler.Running(ctx)
			switch run.ID[len(run.ID)-3] {
			case '1', '4', '7':
				runtime.Goexit()
			case '2':
				panic("2")
			}
			return "", nil
		}, func(c *Config) { c.Slots = 4 })
		for i := range 40 {
			r.queue.push(work(i, job.Paid))
		}
		r.start(t)
		after(time.Second)
		done, failures, _ := r.queue.endings()
		if len(done) != 24 || len(failures) != 16 {
			t.Errorf("%d completed, %d failed, want 24 and 16", len(done), len(failures))
		}
		r.mu.Lock()
		if r.idle > 4 || r.running != 0 || !r.ready.empty() || r.waking {
			t.Errorf("%d goroutines wait, %d run, one is called: %v", r.idle, r.running, r.waking)
		}
		r.mu.Unlock()
		r.stop(t)
	})
}
