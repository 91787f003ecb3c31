package worker

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// Two pools share one store: each job runs once, and neither pool logs a problem.
func TestTwoPoolsShareTheWork(t *testing.T) {
	t.Attr("proves", "S0-P3")
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		runs := map[job.ID]int{}
		first := newRig(func(ctx context.Context) (string, error) {
			run, _ := handler.Running(ctx)
			mu.Lock()
			runs[run.ID]++
			mu.Unlock()
			<-time.After(time.Second)
			return "", nil
		})
		second := New(first.cfg, first.queue, first.pulse, first.bell, first.recorder)
		for i := range 9 {
			first.queue.push(work(i, job.Paid))
		}
		first.start(t)
		if err := second.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		after(10 * time.Second)
		first.stop(t)
		if err := second.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		for id, n := range runs {
			if n != 1 {
				t.Errorf("%s ran %d times", id, n)
			}
		}
		a, b := first.Stats(), second.Stats()
		if len(runs) != 9 || a.Completed+b.Completed != 9 || a.Completed == 0 || b.Completed == 0 || a.Lost+b.Lost != 0 ||
			first.logs.String() != "" {
			t.Errorf("%d jobs ran: %+v and %+v, log %q", len(runs), a, b, first.logs)
		}
	})
}

// While a handler runs, nothing is locked: no call to the store is under way, and the pool answers Stats and Wake
// and sends heartbeats.
func TestNothingIsHeldWhileAHandlerRuns(t *testing.T) {
	t.Attr("proves", "S0-P4")
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		var r *rig
		r = newRig(func(ctx context.Context) (string, error) {
			<-time.After(700 * time.Millisecond) // the claimer asks again each second
			if s := r.Stats(); s.Running != 1 || calls.Load() != 0 {
				t.Errorf("stats %+v, %d calls under way", s, calls.Load())
			}
			r.Wake()
			return "", handler.Checkpoint(ctx, []byte("half"))
		})
		r.queue.claim = func(req job.ClaimRequest) (job.ClaimReply, error) {
			calls.Add(1)
			defer calls.Add(-1)
			<-time.After(time.Millisecond)
			return r.queue.pop(req), nil
		}
		r.queue.push(work(1, job.Paid))
		r.start(t)
		after(time.Second)
		r.stop(t)
		if done, _, _ := r.queue.endings(); len(done) != 1 || len(r.pulse.seen()) != 2 {
			t.Errorf("completed %+v, %d heartbeats", done, len(r.pulse.seen()))
		}
	})
}

// A long job holds its slot only: the claimer goes on, and short jobs that arrived later end earlier.
func TestLaterJobsMayEndFirst(t *testing.T) {
	t.Attr("proves", "S3-I10 S4-P5")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(ctx context.Context) (string, error) {
			if run, _ := handler.Running(ctx); run.ID == work(0, job.Paid).ID {
				<-time.After(40 * time.Second)
			}
			return "", nil
		})
		r.queue.push(work(0, job.Paid), work(1, job.Paid))
		r.start(t)
		for i := range 30 {
			r.queue.push(work(2+i, job.Paid))
			r.Wake()
			after(time.Second)
		}
		if s := r.Stats(); s.Running != 1 || s.Completed != 31 {
			t.Errorf("stats %+v, want all but the long one done", s)
		}
		after(20 * time.Second)
		r.stop(t)
		done, _, _ := r.queue.endings()
		if len(done) != 32 || done[31].ID != work(0, job.Paid).ID {
			t.Errorf("%d done, the long one not last", len(done))
		}
	})
}

// Every log line about a job names the job, also the handler's own lines; the next job in the same slot has its
// own attributes.
func TestLogLinesNameTheJob(t *testing.T) {
	t.Attr("proves", "S4-O1")
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		r := newRig(func(ctx context.Context) (string, error) {
			handler.Logger(ctx).Info("hello")
			if run, _ := handler.Running(ctx); run.Tier == job.Public {
				<-time.After(14 * time.Second) // over its time, ignores its context: reported, and stuck
				return "", nil
			}
			panic("ouch")
		}, func(c *Config) { c.Slots = 1 })
		r.queue.fail = func(b []job.Failure) ([]job.EndReply, error) { return all(job.Discarded, len(b)), nil }
		r.pulse.word = func(job.Beat) (job.Word, error) {
			if time.Since(begin) < 2*time.Second {
				return job.OK, nil
			}
			return "", job.ErrAmbiguous // then the lease is not trusted any more
		}
		a, b := work(1, job.Public), work(2, job.Paid)
		a.TraceID, b.TraceID = "trace-a", "trace-b"
		r.queue.push(a, b)
		r.start(t)
		after(20 * time.Second)
		r.stop(t)
		lines := map[string]int{}
		for line := range strings.Lines(r.logs.String()) {
			if strings.Contains(line, "call=heartbeat") {
				continue // the line is about a call, not a job
			}
			of := " job_id=" + string(a.ID) + " tier=PUBLIC type=WORK attempt=1 trace_id=trace-a"
			if strings.Contains(line, string(b.ID)) {
				of = " job_id=" + string(b.ID) + " tier=PAID type=WORK attempt=1 trace_id=trace-b"
			}
			if !strings.Contains(line, " worker=nonce"+of) {
				t.Errorf("a line lacks its job: %s", line)
			}
			_, message, _ := strings.Cut(line, "msg=")
			lines[strings.Trim(strings.SplitN(message, " worker=", 2)[0], `"`)]++
		}
		for message, n := range map[string]int{
			"hello": 2, "the job failed for good": 2, "no heartbeat succeeded in time: the worker treats the lease as lost": 1,
			"the handler ignores its context: it is stuck": 1,
		} {
			if lines[message] != n {
				t.Errorf("%d lines %q, want %d", lines[message], message, n)
			}
		}
		if len(lines) != 4 {
			t.Errorf("lines %v", lines)
		}
	})
}
