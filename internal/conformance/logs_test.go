package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// hasSaid waits for a text in a worker's own log.
func hasSaid(t testing.TB, worker *testkit.Process, parts ...string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; <-time.After(20 * time.Millisecond) {
		missing := ""
		for _, part := range parts {
			if !strings.Contains(worker.Output(), part) {
				missing = part
			}
		}
		if missing == "" {
			return
		}
		if worker.Exited() || time.Now().After(end) {
			t.Errorf("the worker's log lacks %q:\n%s", missing, tail(worker.Output()))
			return
		}
	}
}

// The worker's own log says why attempts ended, and which setting helps.
func TestWorkersOwnLog(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		f := newFake(t)
		f.add("time-over", "LIFE", `{}`, endsIn(2*time.Second))
		f.add("taken-back", "LIFE", `{}`)
		f.add("too-late", "HOLD", `{"seconds":1}`)
		worker := p.start(t, f)
		begun := func() bool { return f.jobs["taken-back"].attempt > 0 && f.jobs["too-late"].attempt > 0 }
		if !f.until(20*time.Second, begun) {
			t.Fatal("jobs were not claimed")
		}
		f.with(func() { f.jobs["taken-back"].word = "LOST" })
		// This one's report finds that the lease is lost; no heartbeat has said so.
		f.with(func() { f.leases["too-late/1"] = nil })
		hasSaid(t, worker, "its maximum processing time; raise it with maxProcessingSeconds of the queue or "+
			"maxProcessingTimeMs of the tier", "the lease was lost, another worker may run the job",
			"the server has taken the job back", "time-over", "taken-back", "too-late")
		f.with(func() { delete(f.jobs, "taken-back"); delete(f.jobs, "too-late") })
		f.await(t, "time-over", 20*time.Second)
		if err := f.lastJob(t, worker); err != nil {
			t.Error(err)
		}
	})
}

// A handler returned in time, but the last lines of its log cannot be stored now: the worker's log does not say that
// the attempt took too long.
func TestWorkersOwnLog_InTime(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		f := newFake(t)
		f.script = func(verb string, _ int, _ []byte) *act {
			if verb == "log" {
				return refused(503, "SYSTEM_UNHEALTHY", "not now")
			}
			return nil
		}
		j := f.add("in-time", "LOG", `{"kind":"SURROGATES"}`, endsIn(time.Second))
		worker := p.start(t, f)
		if r := f.await(t, "in-time", 20*time.Second); r.Completed == nil {
			t.Errorf("the report: %+v", r)
		}
		if after := j.reported.Sub(j.handed); after < time.Second {
			t.Errorf("the report did not wait for the lines: it came after %s", after)
		}
		if strings.Contains(worker.Output(), "maximum processing time") {
			t.Errorf("the worker's log says that the time was over:\n%s", tail(worker.Output()))
		}
		f.with(func() { f.script = nil })
		if err := f.lastJob(t, worker); err != nil {
			t.Error(err)
		}
	})
}

// A server that answers no heartbeat for as long as the lease: the handler's context ends, the job is given back, and
// the log says why.
func TestLeaseLostInSilence(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		f := newFake(t)
		f.lapses, f.leaseFor, f.every = true, 5*time.Second, time.Second
		f.script = func(verb string, _ int, _ []byte) *act {
			if verb == "heartbeat" {
				return refused(503, "SYSTEM_UNHEALTHY", "not now")
			}
			return nil
		}
		j := f.add("hold", "HOLD", `{"seconds":60}`)
		worker := p.start(t, f)
		hasSaid(t, worker, "START hold 1")
		hasSaid(t, worker, "the lease was lost, another worker may run the job", "no heartbeat was answered in time")
		f.with(func() { f.script = nil })
		// The next attempt is another hand-out, to the same worker here.
		if !f.until(20*time.Second, func() bool { return j.attempt > 1 || j.report != nil }) {
			t.Error("the job is not run again")
		}
		if err := ends(t, worker, 20*time.Second); err != nil {
			t.Error(err)
		}
		f.sound(t)
	})
}
