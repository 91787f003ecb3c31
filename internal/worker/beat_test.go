package worker

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// Every running job has a heartbeat every 500 ms, however busy the slots are.
func TestHeartbeatInterval(t *testing.T) {
	t.Attr("proves", "S2-N7 S2-P18")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(ctx context.Context) (string, error) { <-time.After(9 * time.Second); return "", nil })
		begin := time.Now()
		r.queue.push(work(1, job.Public), work(2, job.Paid))
		r.start(t)
		after(10 * time.Second)
		last := map[job.ID]time.Time{work(1, job.Public).ID: begin, work(2, job.Paid).ID: begin}
		count := map[job.ID]int{}
		for _, b := range r.pulse.seen() {
			if gap := b.at.Sub(last[b.ID]); gap != 500*time.Millisecond {
				t.Errorf("%v between two heartbeats of %s", gap, b.ID)
			}
			last[b.ID] = b.at
			count[b.ID]++
			want := 15 * time.Second
			if b.ID == work(1, job.Public).ID {
				want = 3 * time.Second
			}
			if b.Timeout != want || b.Attempt != 1 || b.Token != "nonce:1" {
				t.Errorf("beat = %+v, want timeout %v and the lease's proof", b, want)
			}
		}
		for id, n := range count {
			if n < 17 || n > 18 {
				t.Errorf("%s: %d heartbeats in 9 s", id, n)
			}
		}
		if len(count) != 2 {
			t.Errorf("%d jobs had heartbeats, want 2", len(count))
		}
		r.stop(t)
	})
}

func TestHeartbeatsAreBatchedAndSpareTheYoung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(ctx context.Context) (string, error) { <-time.After(5 * time.Second); return "", nil },
			func(c *Config) { c.Slots = 250 })
		for i := range 250 {
			r.queue.push(work(i, job.Paid))
		}
		r.start(t)
		after(600 * time.Millisecond)
		total := 0
		for _, n := range r.pulse.sizes() {
			total += n
			if n > job.MaxBatch {
				t.Errorf("a batch of %d", n)
			}
		}
		if total != 250 || len(r.pulse.sizes()) != 3 {
			t.Errorf("%d leases in batches %v, want 250 in 3", total, r.pulse.sizes())
		}
		r.stop(t)
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(ctx context.Context) (string, error) { <-time.After(200 * time.Millisecond); return "", nil })
		r.start(t)
		after(300 * time.Millisecond)
		r.queue.push(work(1, job.Paid)) // claimed 200 ms before the round, still running at it
		r.Wake()
		after(time.Second)
		if seen := r.pulse.seen(); len(seen) != 0 {
			t.Errorf("a lease that was claimed just now had %d heartbeats", len(seen))
		}
		r.stop(t)
	})
}

// A LOST heartbeat ends the handler's context with ErrLeaseLost as the cause, and the handler's result is dropped.
func TestHeartbeatLost(t *testing.T) {
	t.Attr("proves", "F10 S2-G3 S2-P5")
	for _, late := range []struct {
		name string
		err  error
	}{{"a result", nil}, {"an error", errors.New("late")}} {
		t.Run(late.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var cause error
				var toldAt time.Duration
				r := newRig(func(ctx context.Context) (string, error) {
					if run, _ := handler.Running(ctx); run.ID == work(2, job.Paid).ID {
						<-time.After(3 * time.Second)
						return "bystander", ctx.Err()
					}
					cause, toldAt = until(ctx), time.Since(begin)
					return "", late.err
				})
				r.pulse.word = func(b job.Beat) (job.Word, error) {
					if b.ID == work(1, job.Paid).ID && time.Since(begin) > time.Second {
						return job.Lost, nil
					}
					return job.OK, nil
				}
				r.queue.push(work(1, job.Paid), work(2, job.Paid))
				r.start(t)
				after(4 * time.Second)
				if !errors.Is(cause, handler.ErrLeaseLost) || toldAt > 1500*time.Millisecond {
					t.Errorf("told %v after %v", cause, toldAt)
				}
				done, failures, back := r.queue.endings()
				if len(done) != 1 || done[0].ID != work(2, job.Paid).ID || len(failures)+len(back) != 0 {
					t.Errorf("completed %+v, failed %+v, released %+v, want only the bystander", done, failures, back)
				}
				lost := 0
				for _, b := range r.pulse.seen() {
					if b.ID == work(1, job.Paid).ID && b.at.Sub(begin) > time.Second {
						lost++
					}
				}
				if s := r.Stats(); s.Lost != 1 || s.Free != 2 || s.Undelivered != 0 || lost != 1 {
					t.Errorf("stats %+v, %d heartbeats answered LOST, want one and no more", s, lost)
				}
				r.stop(t)
				if len(r.held) != 0 {
					t.Errorf("%d leases are still held", len(r.held))
				}
			})
		})
	}
}

// A lease whose ending is not answered yet keeps its heartbeats, and LOST does not stop the ending: the ending
// itself may have been executed and have ended the lease.
func TestHeartbeatOfAnUndeliveredEnding(t *testing.T) {
	for _, word := range []job.Word{job.OK, job.Lost} {
		t.Run(string(word), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var down atomic.Bool
				down.Store(true)
				r := newRig(quick)
				r.pulse.word = func(job.Beat) (job.Word, error) { return word, nil }
				r.queue.complete = func(b []job.Completion) ([]job.EndReply, error) {
					if down.Load() {
						return nil, job.ErrAmbiguous
					}
					return all(job.OK, len(b)), nil
				}
				r.queue.push(work(1, job.Public))
				r.start(t)
				after(10 * time.Second)
				if n := len(r.pulse.seen()); n < 18 {
					t.Errorf("%d heartbeats in 10 s", n)
				}
				down.Store(false)
				after(time.Second)
				if s := r.Stats(); s.Completed != 1 || s.Lost != 0 || len(r.recorder.offers) != 1 {
					t.Errorf("stats %+v, %d offers, want it completed", s, len(r.recorder.offers))
				}
				r.stop(t)
			})
		})
	}
}

// Handlers that use every core do not delay the heartbeats.
func TestHeartbeatsUnderLoad(t *testing.T) {
	t.Attr("proves", "F48")
	enough := make(chan struct{})
	r := newRig(func(ctx context.Context) (string, error) {
		for n := 0; ; n++ {
			if n%1000 == 0 {
				select {
				case <-enough:
					return "", ctx.Err()
				default:
				}
			}
		}
	}, func(c *Config) { c.Slots, c.HeartbeatInterval = 4*runtime.GOMAXPROCS(0), 50*time.Millisecond })
	for i := range r.cfg.Slots {
		r.queue.push(work(i, job.Public))
	}
	rounds := 0
	r.pulse.word = func(b job.Beat) (job.Word, error) {
		if b.ID == work(0, job.Public).ID {
			if rounds++; rounds == 20 {
				close(enough)
			}
		}
		return job.OK, nil
	}
	r.start(t)
	<-enough
	r.stop(t)
	last := map[job.ID]time.Time{}
	for _, b := range r.pulse.seen() {
		if gap := b.at.Sub(last[b.ID]); !last[b.ID].IsZero() && gap > time.Second {
			t.Errorf("%v between two heartbeats of %s, a third of its timeout is the most", gap, b.ID)
		}
		last[b.ID] = b.at
	}
	if s := r.Stats(); s.Completed != int64(r.cfg.Slots) || s.BeatLag > time.Second {
		t.Errorf("stats = %+v", s)
	}
}

// A heartbeat call that hangs does not stop the following heartbeats.
func TestHeartbeatCallIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(context.Context) (string, error) { <-time.After(20 * time.Second); return "", nil })
		pulse := &hangingPulse{}
		r.Pool.pulse = pulse
		r.queue.push(work(1, job.Paid))
		r.start(t)
		after(10 * time.Second)
		if n := pulse.calls.Load(); n < 8 {
			t.Errorf("%d heartbeats in 10 s", n)
		}
		r.stop(t)
	})
}

// A call that Stop cancels is not logged as an outage.
func TestStopCutsCallsOffQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(context.Context) (string, error) { <-time.After(600 * time.Millisecond); return "", nil })
		pulse := &hangingPulse{}
		r.Pool.pulse = pulse
		r.queue.push(work(1, job.Paid))
		r.start(t)
		after(550 * time.Millisecond)
		begin := time.Now()
		r.stop(t)
		if took := time.Since(begin); pulse.calls.Load() != 1 || took != 50*time.Millisecond || r.logs.String() != "" {
			t.Errorf("%d calls, Stop took %v, log %q", pulse.calls.Load(), took, r.logs)
		}
	})
}

type hangingPulse struct{ calls, saves atomic.Int32 }

func (h *hangingPulse) Heartbeat(ctx context.Context, _ int, batch []job.Beat) ([]job.Word, error) {
	h.calls.Add(1)
	if len(batch[0].Checkpoint) > 0 {
		h.saves.Add(1)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}
