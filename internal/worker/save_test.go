package worker

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// saves returns the checkpoints that reached the store, in their order.
func (f *fakePulse) saves() string {
	var all []string
	for _, b := range f.seen() {
		if len(b.Checkpoint) > 0 {
			all = append(all, string(b.Checkpoint))
		}
	}
	return strings.Join(all, " ")
}

// A checkpoint is sent at once, with a heartbeat of its own and the lease's token. Ordinary heartbeats carry no
// checkpoint, and a checkpoint extends the lease.
func TestCheckpointIsStoredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var saved []byte
		r := newRig(func(ctx context.Context) (string, error) {
			run, _ := handler.Running(ctx)
			saved = run.Saved
			<-time.After(1400 * time.Millisecond)
			begin := time.Now()
			for _, text := range []string{"one", "two"} {
				if err := handler.Checkpoint(ctx, []byte(text)); err != nil || time.Since(begin) != 0 {
					t.Errorf("%s: %v after %v", text, err, time.Since(begin))
				}
			}
			<-time.After(time.Second)
			return "", nil
		})
		j := work(1, job.Public)
		j.Checkpoint = []byte("zero")
		r.queue.push(j)
		begin := time.Now()
		r.start(t)
		after(3 * time.Second)
		r.stop(t)
		if string(saved) != "zero" || r.pulse.saves() != "one two" {
			t.Errorf("saved before %q, stored %q", saved, r.pulse.saves())
		}
		var at []time.Duration
		for _, b := range r.pulse.seen() {
			if b.ID != j.ID || b.Attempt != 1 || b.Token != "nonce:1" || b.Timeout != 3*time.Second {
				t.Errorf("beat = %+v", b)
			}
			if len(b.Checkpoint) == 0 {
				at = append(at, b.at.Sub(begin))
			}
		}
		// At 1.5 s the last heartbeat is 100 ms old: the lease needs no other.
		if len(at) != 3 || at[0] != 500*time.Millisecond || at[1] != time.Second || at[2] != 2*time.Second {
			t.Errorf("ordinary heartbeats at %v", at)
		}
		if done, _, _ := r.queue.endings(); len(done) != 1 {
			t.Errorf("completed %+v", done)
		}
	})
}

func TestCheckpointAnswers(t *testing.T) {
	refused := errors.New("the script failed")
	down := func(n int) func(int) (job.Word, error) { // the first n calls are lost
		return func(call int) (job.Word, error) {
			if call <= n {
				return "", job.ErrAmbiguous
			}
			return job.OK, nil
		}
	}
	always := func(w job.Word, err error) func(int) (job.Word, error) {
		return func(int) (job.Word, error) { return w, err }
	}
	cases := []struct {
		name   string
		answer func(call int) (job.Word, error)
		want   error
		calls  int // 0 = several
		took   time.Duration
		cause  error // why the handler's context ended
		stat   func(Stats) int64
	}{
		{"stored", always(job.OK, nil), nil, 1, 0, nil, func(s Stats) int64 { return s.Completed }},
		{"stored, and cancelled", always(job.Cancel, nil), nil, 1, 0, handler.ErrCancelled,
			func(s Stats) int64 { return s.Completed }},
		{"lost", always(job.Lost, nil), handler.ErrLeaseLost, 1, 0, handler.ErrLeaseLost,
			func(s Stats) int64 { return s.Lost }},
		{"stored in the end", down(2), nil, 3, 300 * time.Millisecond, nil, func(s Stats) int64 { return s.Completed }},
		{"an outage", always("", job.ErrUnavailable), job.ErrUnavailable, 0, 2 * time.Second, nil,
			func(s Stats) int64 { return s.Completed }},
		{"what trying again does not mend", always("", refused), refused, 1, 0, nil,
			func(s Stats) int64 { return s.Completed }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var err, cause error
				var took time.Duration
				var calls atomic.Int32
				r := newRig(func(ctx context.Context) (string, error) {
					begin := time.Now()
					err = handler.Checkpoint(ctx, []byte("data"))
					took, cause = time.Since(begin), context.Cause(ctx)
					return "", nil
				})
				r.pulse.word = func(b job.Beat) (job.Word, error) {
					if len(b.Checkpoint) == 0 {
						return job.OK, nil
					}
					return c.answer(int(calls.Add(1)))
				}
				r.queue.push(work(1, job.Paid))
				r.start(t)
				after(5 * time.Second)
				r.stop(t)
				if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || took > c.took || !errors.Is(cause, c.cause) {
					t.Errorf("%v after %v, cause %v, want %v within %v, cause %v", err, took, cause, c.want, c.took, c.cause)
				}
				if n := int(calls.Load()); c.calls != 0 && n != c.calls || n > 10 || n < 1 {
					t.Errorf("%d calls", n)
				}
				if s := r.Stats(); c.stat(s) != 1 || s.Undelivered != 0 || len(r.held) != 0 {
					t.Errorf("stats %+v, %d held", s, len(r.held))
				}
			})
		})
	}
}

// No checkpoint is sent after the lease has its ending, or after the given context has ended.
func TestCheckpointTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := map[string]error{}
		var late func(context.Context, []byte) error
		r := newRig(func(ctx context.Context) (string, error) {
			run, _ := handler.Running(ctx)
			late = run.Save
			<-ctx.Done() // the maximum processing time
			got["the context ended"] = handler.Checkpoint(ctx, []byte("a"))
			got["it ended, and one that has not"] = handler.Checkpoint(context.WithoutCancel(ctx), []byte("b"))
			<-time.After(time.Second) // the pool has reported MAX_TIME_EXCEEDED
			got["reported"] = handler.Checkpoint(context.WithoutCancel(ctx), []byte("c"))
			return "", nil
		})
		r.queue.push(work(1, job.Public))
		r.start(t)
		after(15 * time.Second)
		got["returned"] = late(t.Context(), []byte("d"))
		got["nothing"] = late(t.Context(), nil)
		r.stop(t)
		for name, want := range map[string]error{
			"the context ended": handler.ErrMaxTime, "it ended, and one that has not": nil,
			"reported": handler.ErrLeaseLost, "returned": handler.ErrLeaseLost,
		} {
			if err := got[name]; !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		if r.pulse.saves() != "b" || got["nothing"] == nil || errors.Is(got["nothing"], handler.ErrLeaseLost) {
			t.Errorf("stored %q; nothing: %v", r.pulse.saves(), got["nothing"])
		}
	})
}

// A store that hangs delays a checkpoint for 2 s, and the heartbeats not at all.
func TestCheckpointCallIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		var took time.Duration
		r := newRig(func(ctx context.Context) (string, error) {
			begin := time.Now()
			err = handler.Checkpoint(ctx, []byte("data"))
			took = time.Since(begin)
			return "", nil
		})
		pulse := &hangingPulse{}
		r.Pool.pulse = pulse
		r.queue.push(work(1, job.Paid))
		r.start(t)
		after(5 * time.Second)
		r.stop(t)
		if !errors.Is(err, context.DeadlineExceeded) || took != saveBound || pulse.saves.Load() != 4 {
			t.Errorf("%v after %v, %d tries", err, took, pulse.saves.Load())
		}
	})
}

// Checkpoints share the heartbeats' few connections: one is sent at a time, and all are stored.
func TestCheckpointsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saves := func(ctx context.Context) (string, error) { return "", handler.Checkpoint(ctx, []byte("data")) }
		r := newRig(saves, func(c *Config) { c.Slots = 20 })
		var flight, most atomic.Int32
		r.pulse.word = func(job.Beat) (job.Word, error) {
			most.Store(max(most.Load(), flight.Add(1)))
			<-time.After(10 * time.Millisecond)
			flight.Add(-1)
			return job.OK, nil
		}
		for i := range 20 {
			r.queue.push(work(i, job.Paid))
		}
		r.start(t)
		after(400 * time.Millisecond) // before the first round
		if s := r.Stats(); most.Load() != 1 || s.Completed != 20 {
			t.Errorf("%d calls at a time, stats %+v", most.Load(), s)
		}
		r.stop(t)
	})
}

// If the answers to a checkpoint and a heartbeat round overtake each other, the one that was sent later counts.
func TestAnOlderAnswerTakesNothingBack(t *testing.T) {
	r := newRig(quick)
	now := time.Now()
	h := &held{beaten: now}
	r.heard(h, job.OK, now.Add(2*time.Second), &job.Beat{Timeout: time.Minute})
	r.heard(h, job.OK, now.Add(time.Second), &job.Beat{Timeout: time.Minute})
	if !h.beaten.Equal(now.Add(2*time.Second)) || !h.safe.Equal(now.Add(62*time.Second)) {
		t.Errorf("beaten %v, safe %v after %v", h.beaten.Sub(now), h.safe.Sub(now), now)
	}
}
