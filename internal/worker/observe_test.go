package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// seen is an observer that records its calls.
type seen struct {
	mu      sync.Mutex
	started []string
	ended   []string
}

func (s *seen) Started(l *job.Lease, waited time.Duration) {
	s.mu.Lock()
	s.started = append(s.started, fmt.Sprint(l.Attempt, " ", waited))
	s.mu.Unlock()
}

func (s *seen) Ended(_ *job.Lease, how job.Ending, cause job.Cause, ran time.Duration) {
	s.mu.Lock()
	s.ended = append(s.ended, fmt.Sprint(how, " ", cause, " ", ran))
	s.mu.Unlock()
}

func (s *seen) endings() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.ended, ", ")
}

func (s *seen) starts() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.started, ", ")
}

// The observer sees every claim begin once and end once, with the store's answer. It is never called under the
// pool's lock.
func TestObserver(t *testing.T) {
	boom := errors.New("boom")
	arrived := endTime.Add(-time.Minute)
	cases := []struct {
		name    string
		err     error
		word    job.Word // of complete, fail and release
		beat    job.Word
		tier    job.Tier
		takes   time.Duration
		claimed func(*job.Job)
		started string
		ended   string
	}{
		{name: "completed", word: job.OK, takes: time.Second, started: "1 1m0s", ended: "COMPLETED  1s"},
		{name: "retried", err: boom, word: job.OK, takes: time.Second, started: "1 1m0s", ended: "RETRIED HANDLER_ERROR 1s"},
		{name: "failed", err: handler.Permanent(boom), word: job.Discarded, takes: time.Second, started: "1 1m0s",
			ended: "FAILED PERMANENT_ERROR 1s"},
		{name: "later", err: handler.Later(time.Hour), word: job.OK, takes: time.Second, started: "1 1m0s",
			ended: "RELEASED  1s"},
		{name: "an unknown type", err: job.ErrUnknownType, word: job.OK, takes: time.Second, started: "1 1m0s",
			ended: "RELEASED UNKNOWN_JOB_TYPE 1s"},
		{name: "cancelled", err: boom, word: job.WasCancelled, takes: time.Second, started: "1 1m0s", ended: "CANCELLED  1s"},
		{name: "too late", word: job.Lost, takes: time.Second, started: "1 1m0s", ended: "LOST  1s"},
		{name: "lost by a heartbeat", word: job.OK, beat: job.Lost, takes: time.Minute, started: "1 1m0s",
			ended: "LOST  500ms"},
		{name: "over its time", word: job.OK, tier: job.Public, takes: time.Minute, started: "1 1m0s",
			ended: "RETRIED MAX_TIME_EXCEEDED 10.3s"},
		{name: "an unknown word", word: "WHAT", started: "1 1m0s"},
		{name: "a later attempt", word: job.OK, claimed: func(j *job.Job) { j.Attempt, j.FirstTriedAt = 3, arrived },
			started: "4 -1ns", ended: "COMPLETED  0s"},
		{name: "first of a later generation", word: job.OK, claimed: func(j *job.Job) { j.Attempt, j.Generation = 3, 2 },
			started: "4 1m0s", ended: "COMPLETED  0s"},
		{name: "was delayed", word: job.OK, claimed: func(j *job.Job) { j.RunAt = arrived.Add(50 * time.Second) },
			started: "1 10s", ended: "COMPLETED  0s"},
		{name: "a due time of an earlier life", word: job.OK, claimed: func(j *job.Job) { j.RunAt = arrived.Add(-time.Hour) },
			started: "1 1m0s", ended: "COMPLETED  0s"},
		{name: "times that are not known", word: job.OK,
			claimed: func(j *job.Job) { j.StartedAt, j.FirstTriedAt = time.Time{}, time.Time{} }, started: "1 -1ns",
			ended: "COMPLETED  0s"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := &seen{}
				r := newRig(func(context.Context) (string, error) { <-time.After(c.takes); return "", c.err },
					func(cfg *Config) { cfg.Observe = seen })
				r.Pool.cfg.Observe = outside{r.Pool, seen}
				r.queue.complete = func(b []job.Completion) ([]job.EndReply, error) { return all(c.word, len(b)), nil }
				r.queue.fail = func(b []job.Failure) ([]job.EndReply, error) { return all(c.word, len(b)), nil }
				r.queue.release = func(b []job.Release) ([]job.EndReply, error) { return all(c.word, len(b)), nil }
				r.pulse.word = func(job.Beat) (job.Word, error) {
					if c.beat != "" {
						return c.beat, nil
					}
					return job.OK, nil
				}
				j := work(1, job.Paid)
				if c.tier != "" {
					j.Tier = c.tier
				}
				j.ArrivedAt, j.FirstTriedAt, j.StartedAt = arrived, endTime, endTime
				if c.claimed != nil {
					c.claimed(&j)
				}
				r.queue.push(j)
				r.start(t)
				after(2 * time.Minute)
				r.stop(t)
				if seen.starts() != c.started || seen.endings() != c.ended {
					t.Errorf("started %q, ended %q, want %q and %q", seen.starts(), seen.endings(), c.started, c.ended)
				}
			})
		})
	}
	t.Run("claimed too late to begin", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			seen := &seen{}
			r := newRig(quick, func(c *Config) { c.Observe = seen })
			r.queue.claim = func(req job.ClaimRequest) (job.ClaimReply, error) {
				<-time.After(time.Second)
				return r.queue.pop(req), nil
			}
			r.queue.push(work(1, job.Paid))
			r.start(t)
			synctest.Wait()
			r.stop(t)
			if seen.starts() != "" || seen.endings() != "RELEASED  0s" {
				t.Errorf("started %q, ended %q", seen.starts(), seen.endings())
			}
		})
	})
}

// outside is an observer that hangs if it is called while the pool is locked.
type outside struct {
	pool *Pool
	*seen
}

func (o outside) Started(l *job.Lease, waited time.Duration) {
	o.pool.Stats()
	o.seen.Started(l, waited)
}

func (o outside) Ended(l *job.Lease, how job.Ending, cause job.Cause, ran time.Duration) {
	o.pool.Stats()
	o.seen.Ended(l, how, cause, ran)
}

// Around surrounds each handler call: its context is the handler's, and its function gets the handler's error,
// also of a crash.
func TestAround(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		fn   func() (string, error)
		want string
	}{
		"success": {func() (string, error) { return "", nil }, "<nil>"},
		"failure": {func() (string, error) { return "", boom }, "boom"},
		"a crash": {func() (string, error) { panic("ouch") }, "panic: ouch"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var heard string
				var around, inside job.ID
				r := newRig(func(ctx context.Context) (string, error) {
					run, _ := handler.Running(ctx)
					if inside = run.ID; ctx.Value(ctxKey{}) != "span" {
						t.Error("the handler does not run in Around's context")
					}
					return c.fn()
				}, func(cfg *Config) {
					cfg.Around = func(ctx context.Context, l *job.Lease) (context.Context, func(error)) {
						around = l.ID
						return context.WithValue(ctx, ctxKey{}, "span"), func(err error) {
							heard, _, _ = strings.Cut(fmt.Sprint(err), "\n")
						}
					}
				})
				r.queue.push(work(1, job.Paid))
				r.start(t)
				after(time.Second)
				r.stop(t)
				if heard != c.want || around != work(1, job.Paid).ID || inside != around {
					t.Errorf("around %s ended with %q, inside %s", around, heard, inside)
				}
			})
		})
	}
}
