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

// Whoever is called calls the next before it runs its handler: all that was claimed begins, though nobody returns.
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
		for n := range 3 { // new goroutines, and then those that stayed
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

// What was claimed has to begin before more is claimed, or a process that is short of processors takes jobs that others
// could run now.
func TestNoClaimBeforeWhatIsHereBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		r := newRig(func(context.Context) (string, error) { <-hold; return "", nil }, func(c *Config) { c.Slots = 3 })
		r.mu.Lock()
		r.waking = true // somebody was called, and does not come
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
		go r.slot() // who was called
		synctest.Wait()
		if s := r.Stats(); s.Running != 2 || s.Claimed != 2 {
			t.Errorf("stats = %+v, want the second claimed once the first began", s)
		}
		close(hold)
		r.stop(t)
	})
}

// Who was called for a lease that another took meanwhile waits on, and counts.
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

// Handlers that take their goroutine along, or are stuck with it, leave nothing behind that waits for one.
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
