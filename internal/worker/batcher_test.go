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

// Endings are kept through an outage of any length, and each is answered once.
func TestEndingsSurviveAnOutage(t *testing.T) {
	for _, outage := range []error{job.ErrUnavailable, job.ErrAmbiguous} {
		t.Run(outage.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(func(ctx context.Context) (string, error) {
					switch run, _ := handler.Running(ctx); run.Tier {
					case job.Public:
						return "", errors.New("boom")
					case job.Unpaid:
						return "", handler.Later(time.Minute)
					}
					return "done", nil
				})
				var down atomic.Bool
				down.Store(true)
				failing := func(n int) ([]job.EndReply, error) {
					if down.Load() {
						return nil, outage
					}
					return all(job.OK, n), nil
				}
				r.queue.complete = func(b []job.Completion) ([]job.EndReply, error) { return failing(len(b)) }
				r.queue.fail = func(b []job.Failure) ([]job.EndReply, error) { return failing(len(b)) }
				r.queue.release = func(b []job.Release) ([]job.EndReply, error) { return failing(len(b)) }
				for i, tier := range []job.Tier{job.Paid, job.Public, job.Unpaid, job.Paid} {
					r.queue.push(work(i, tier))
				}
				r.start(t)
				after(time.Minute)
				if offers, _ := r.recorder.seen(); len(offers) != 0 {
					t.Errorf("%d offers before an answer", len(offers))
				}
				if s := r.Stats(); s.Undelivered != 4 || s.Free != 2 {
					t.Errorf("in the outage: %+v, want 4 undelivered endings that hold no slot", s)
				}
				if n := len(r.queue.times()); n > 4*90 || n < 4*50 {
					t.Errorf("%d entries sent in a minute of outage, want a back-off up to 1 s", n)
				}
				down.Store(false)
				after(2 * time.Second)
				s := r.Stats()
				if s.Undelivered != 0 || s.Completed != 2 || s.Failed != 1 || s.Released != 1 || len(r.recorder.offers) != 2 {
					t.Errorf("after it: %+v, %d offers", s, len(r.recorder.offers))
				}
				r.stop(t)
				if n := strings.Count(r.logs.String(), "a call to Redis fails"); n != 3 {
					t.Errorf("%d warnings, want one for each kind of call:\n%s", n, r.logs)
				}
			})
		})
	}
}

func TestAnswers(t *testing.T) {
	boom := errors.New("boom")
	cases := []struct {
		name          string
		err           error
		attempt       int // before the claim
		word          job.Word
		offers, wakes int
		stat          func(Stats) int64
		log           string
	}{
		{"a first attempt goes the short way", nil, 0, job.OK, 1, 0, func(s Stats) int64 { return s.Completed }, ""},
		{"a later attempt has its history in Redis", nil, 1, job.OK, 0, 1, func(s Stats) int64 { return s.Completed }, ""},
		{"completed but cancelled", nil, 0, job.WasCancelled, 0, 1, func(s Stats) int64 { return s.Cancelled }, ""},
		{"completed too late", nil, 0, job.Lost, 0, 0, func(s Stats) int64 { return s.Lost }, "level=WARN"},
		{"failed, retried", boom, 0, job.OK, 0, 0, func(s Stats) int64 { return s.Failed }, "cause=HANDLER_ERROR"},
		{"failed for good", boom, 0, job.Discarded, 0, 1, func(s Stats) int64 { return s.Failed }, "cause=HANDLER_ERROR"},
		{"failed too late", boom, 0, job.Lost, 0, 0, func(s Stats) int64 { return s.Lost }, "level=WARN"},
		{"given back", handler.Later(time.Second), 0, job.OK, 0, 0, func(s Stats) int64 { return s.Released }, ""},
		{"an unknown word", nil, 0, "WHAT", 0, 0, func(Stats) int64 { return 1 }, "level=ERROR"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(func(context.Context) (string, error) { return "done", c.err })
				r.queue.complete = func(b []job.Completion) ([]job.EndReply, error) { return all(c.word, len(b)), nil }
				r.queue.fail = func(b []job.Failure) ([]job.EndReply, error) { return all(c.word, len(b)), nil }
				j := work(1, job.Unpaid)
				j.Attempt, j.RetryCount, j.Owner = c.attempt, c.attempt, "owner"
				r.queue.push(j)
				r.start(t)
				after(time.Second)
				r.stop(t)
				s := r.Stats()
				if len(r.recorder.offers) != c.offers || r.recorder.wakes != c.wakes || c.stat(s) != 1 || s.Undelivered != 0 {
					t.Errorf("%d offers, %d wakes, stats %+v", len(r.recorder.offers), r.recorder.wakes, s)
				}
				if len(r.held) != 0 {
					t.Errorf("%d leases are still held", len(r.held))
				}
				if !strings.Contains(r.logs.String(), c.log) {
					t.Errorf("log lacks %s:\n%s", c.log, r.logs)
				}
				for _, o := range r.recorder.offers {
					if o.ID != j.ID || o.Status != job.Completed || !o.EndedAt.Equal(endTime) || string(o.Result) != `"done"` ||
						o.Attempt != 1 || o.Owner != "owner" {
						t.Errorf("outcome = %+v", o)
					}
				}
			})
		})
	}
	t.Run("a refused offer is the outbox's business", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(quick)
			r.recorder.refuse = true
			r.queue.push(work(1, job.Paid))
			r.start(t)
			after(time.Minute)
			r.stop(t)
			if len(r.recorder.offers) != 1 || r.recorder.wakes != 0 {
				t.Errorf("%d offers, %d wakes", len(r.recorder.offers), r.recorder.wakes)
			}
		})
	})
}

// An ending that the queue rejects does not delay the other endings.
func TestBadEndingDoesNotBlockTheLane(t *testing.T) {
	t.Attr("proves", "S4-N3")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(quick, func(c *Config) { c.Slots = 50 })
		bad := work(17, job.Paid).ID
		var short atomic.Bool
		r.queue.complete = func(b []job.Completion) ([]job.EndReply, error) {
			for _, c := range b {
				if c.ID == bad {
					if short.Swap(true) {
						return nil, errors.New("an entry that makes no sense")
					}
					return all(job.OK, len(b)-1), nil // an answer with the wrong number of replies counts as none
				}
			}
			return all(job.OK, len(b)), nil
		}
		for i := range 50 {
			r.queue.push(work(i, job.Paid))
		}
		r.start(t)
		after(20 * time.Second)
		if s := r.Stats(); s.Completed != 49 || s.Undelivered != 1 {
			t.Errorf("stats = %+v, want all but the bad one completed", s)
		}
		if err := r.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "1 endings are undelivered") {
			t.Errorf("Stop = %v, want it to say what is left", err)
		}
	})
}

func TestEndingsAreBatched(t *testing.T) {
	cases := []struct {
		name         string
		bytes        int // of each result
		total        int // jobs that return at the same moment
		largest      int // entries in a call
		mostBytes    int
		atMostFlight int
	}{
		{"small ones by number", 10, 350, job.MaxBatch, job.MaxBatchBytes, 2},
		{"large ones by size", 64 << 10, 40, 15, job.MaxBatchBytes, 2},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := make(chan struct{})
				r := newRig(func(context.Context) (string, error) { <-start; return strings.Repeat("x", c.bytes-2), nil },
					func(cfg *Config) {
						cfg.Slots, cfg.ResultLimit = c.total, 1<<20
					})
				var largest, flight atomic.Int32
				r.queue.complete = func(b []job.Completion) ([]job.EndReply, error) {
					if n := flight.Add(1); int(n) > c.atMostFlight {
						t.Errorf("%d calls in flight", n)
					}
					defer flight.Add(-1)
					size := 0
					for _, e := range b {
						size += len(e.Result)
					}
					if len(b) > c.largest || size > c.mostBytes {
						t.Errorf("a call with %d entries and %d bytes", len(b), size)
					}
					largest.Store(max(largest.Load(), int32(len(b))))
					<-time.After(time.Millisecond)
					return all(job.OK, len(b)), nil
				}
				for i := range c.total {
					r.queue.push(work(i, job.Paid))
				}
				r.start(t)
				after(time.Second)
				close(start)
				after(time.Second)
				if s := r.Stats(); s.Completed != int64(c.total) || int(largest.Load()) != c.largest {
					t.Errorf("completed %d of %d, largest call %d, want %d", s.Completed, c.total, largest.Load(), c.largest)
				}
				r.stop(t)
			})
		})
	}
}
