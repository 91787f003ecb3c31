package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

func TestDrain(t *testing.T) {
	t.Attr("proves", "S2-P4 F09")
	cases := []struct {
		name  string
		fn    func(ctx context.Context) (string, error)
		took  time.Duration
		done  int // completed; the rest of the two is released
		error string
	}{
		{"jobs finish", func(ctx context.Context) (string, error) { <-time.After(20 * time.Second); return "", ctx.Err() },
			19 * time.Second, 2, ""},
		{"jobs stop when told", func(ctx context.Context) (string, error) {
			if err := until(ctx); !errors.Is(err, handler.ErrDraining) {
				t.Errorf("told %v", err)
			}
			return "", ctx.Err()
		}, 30 * time.Second, 0, ""},
		{"jobs finish when told", func(ctx context.Context) (string, error) {
			_ = until(ctx)
			<-time.After(900 * time.Millisecond)
			return "", nil
		}, 30*time.Second + 900*time.Millisecond, 2, ""},
		{"jobs fail when told: not their fault",
			func(ctx context.Context) (string, error) { _ = until(ctx); panic("interrupted") }, 30 * time.Second, 0, ""},
		{"jobs do not listen", func(context.Context) (string, error) { <-time.After(45 * time.Second); return "", nil },
			31 * time.Second, 0, "2 handlers still run"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(c.fn)
				r.queue.push(work(1, job.Paid), work(2, job.Paid), work(3, job.Paid))
				r.start(t)
				after(time.Second)
				claims := len(r.queue.asked())
				begin := time.Now()
				err := r.Stop(t.Context())
				if took := time.Since(begin); took != c.took {
					t.Errorf("Stop took %v, want %v", took, c.took)
				}
				if (err == nil) != (c.error == "") || err != nil && !strings.Contains(err.Error(), c.error) {
					t.Errorf("Stop = %v, want %q", err, c.error)
				}
				done, failures, back := r.queue.endings()
				if len(done) != c.done || len(failures) != 0 || len(back) != 2-c.done {
					t.Errorf("completed %+v, failed %+v, released %+v, want %d completed and nothing failed", done, failures, back,
						c.done)
				}
				for _, b := range back {
					if b.Delay != 0 {
						t.Errorf("released with a delay of %v", b.Delay)
					}
				}
				if n := len(r.queue.asked()); n != claims {
					t.Errorf("%d claims while it drained", n-claims)
				}
				last := begin
				for _, b := range r.pulse.seen() {
					if b.at.After(last.Add(500 * time.Millisecond)) {
						t.Errorf("no heartbeat between %v and %v", last, b.at)
					}
					if b.at.After(last) {
						last = b.at
					}
				}
				if silent := time.Since(last); silent > time.Second {
					t.Errorf("the last heartbeat was %v before the end of the drain", silent)
				}
				after(time.Minute) // the results of late handlers are dropped
				if d, f, b := r.queue.endings(); len(d)+len(f)+len(b) != 2 {
					t.Errorf("after the drain: %d endings of 2 jobs", len(d)+len(f)+len(b))
				}
			})
		})
	}
}

func TestStopIsSafeAtAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(quick)
		for range 2 {
			r.stop(t)
		}
		if err := r.Start(t.Context()); err == nil {
			t.Error("a stopped pool started")
		}
		if len(r.queue.asked()) != 0 {
			t.Error("a pool that never started claimed")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(context.Context) (string, error) { <-time.After(5 * time.Second); return "", nil })
		r.queue.push(work(1, job.Paid))
		r.start(t)
		if err := r.Start(t.Context()); err == nil {
			t.Error("a started pool started again")
		}
		synctest.Wait()
		begin := time.Now()
		second := make(chan error)
		go func() { second <- r.Stop(t.Context()) }()
		go func() { second <- r.Stop(t.Context()) }()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		synctest.Wait()
		if err := r.Stop(impatient); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second Stop whose context ended = %v", err)
		}
		for range 2 {
			if err := <-second; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("Stop returned after %v, want both to wait for the job", took)
		}
	})
}

// If Stop's context ends, Stop stops waiting for handlers; their jobs are still released.
func TestStopContextEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(ctx context.Context) (string, error) { return "", until(ctx) })
		r.queue.push(work(1, job.Paid))
		r.start(t)
		synctest.Wait()
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := r.Stop(ctx); err != nil {
			t.Error(err)
		}
		if _, _, back := r.queue.endings(); time.Since(begin) != 2*time.Second || len(back) != 1 {
			t.Errorf("took %v, released %+v", time.Since(begin), back)
		}
	})
}

// A store that does not answer delays Stop for a bounded time only.
func TestStopInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(ctx context.Context) (string, error) { <-time.After(time.Hour); return "", nil })
		r.queue.release = func([]job.Release) ([]job.EndReply, error) { return nil, job.ErrUnavailable }
		r.pulse.word = func(job.Beat) (job.Word, error) { return "", job.ErrUnavailable }
		r.queue.push(work(1, job.Paid))
		r.start(t)
		synctest.Wait()
		begin := time.Now()
		err := r.Stop(t.Context())
		if took := time.Since(begin); took > 34*time.Second {
			t.Errorf("Stop took %v", took)
		}
		if err == nil || !strings.Contains(err.Error(), "1 endings are undelivered") {
			t.Errorf("Stop = %v", err)
		}
		after(2 * time.Hour)
	})
}

func TestEndingsAreDeliveredBeforeStopReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(quick)
		begin := time.Now()
		r.queue.complete = func(b []job.Completion) ([]job.EndReply, error) {
			if time.Since(begin) < 1500*time.Millisecond {
				return nil, job.ErrAmbiguous
			}
			return all(job.OK, len(b)), nil
		}
		r.queue.push(work(1, job.Paid))
		r.start(t)
		synctest.Wait()
		r.stop(t)
		if s := r.Stats(); s.Completed != 1 || len(r.recorder.offers) != 1 {
			t.Errorf("stats = %+v, %d offers", s, len(r.recorder.offers))
		}
	})
}
