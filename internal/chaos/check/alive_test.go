package check

import (
	"slices"
	"testing"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

func TestTakenForDead(t *testing.T) {
	for _, tc := range []struct {
		name, worker string
		broken       bool
		asked        string // process 12 was not killed but asked to stop
		frozen       float64
	}{
		{"the process that was killed", "a-host-12-0abc", false, "", 0},
		{"another one, which lived", "a-host-11-0abc", true, "", 0},
		{"asked to stop", "a-host-12-0abc", true, "SIGTERM", 0},
		{"asked to stop, by a person", "a-host-12-0abc", true, "SIGINT", 0},
		{"told to stop at once", "a-host-12-0abc", false, "SIGTERM twice", 0},
		{"asked to stop, while Redis stood still", "a-host-12-0abc", false, "SIGTERM", 5.1},
		{"asked to stop, long after Redis stood still", "a-host-12-0abc", true, "SIGTERM", 2},
	} {
		e := sound()
		e.outcome(killed, 1).Tries[0] = job.Attempt{Number: 1, Worker: tc.worker, Outcome: "HEARTBEAT_STOPPED",
			StartedAt: at(4.1), FinishedAt: at(10)}
		if tc.asked != "" {
			e.Faults[0] = Fault{Kind: "F09", What: tc.asked, Target: "12", From: at(5), To: at(5.4), Repeats: true}
			e.Faults[1] = Fault{Kind: "F13", Target: "redis", From: at(tc.frozen), To: at(tc.frozen + 0.2)}
		}
		judged(t, tc.name, e, tc.broken)
	}
}

// A process that is killed before its report is delivered explains a repeat, if a Redis that stood still held the
// report up for so long.
func TestEndingHeldUp(t *testing.T) {
	for _, tc := range []struct {
		name     string
		frozenTo float64
		broken   bool
	}{{"until shortly before", 9, false}, {"for a moment, long before", 4.4, true}} {
		e := sound()
		r := e.run(killed, 1)
		r.Ended, r.Result = at(4.3), "result"
		e.Faults[0].From, e.Faults[0].To = at(10), at(10)
		e.Faults = append(e.Faults, Fault{Kind: "F13", Target: "redis", From: at(4.2), To: at(tc.frozenTo)})
		judged(t, tc.name, e, tc.broken)
	}
}

// An attempt's time counts from its claim, so that a fault that delays the claim's answer excuses a handler with
// little time.
func TestBegunLate(t *testing.T) {
	for _, tc := range []struct {
		name, target, why string
		broken            bool
	}{
		{"the claim's answer was lost", "12", handler.ErrMaxTime.Error(), false},
		{"it failed of something else", "12", "", true},
	} {
		e := sound()
		r := e.run(killed, 1)
		r.Began, r.Ended, r.Why = at(6), at(6.05), tc.why
		e.outcome(killed, 1).RetryCount = 1
		e.outcome(killed, 1).Tries[0] = job.Attempt{Number: 1, Worker: "a-host-12-0abc", Outcome: "MAX_TIME_EXCEEDED",
			StartedAt: at(4.1), FinishedAt: at(6.1)}
		e.Faults[0] = Fault{Kind: "F27", Target: tc.target, From: at(4), To: at(4.2)}
		judged(t, tc.name, e, tc.broken)
	}
}

func judged(t *testing.T, name string, e Evidence, broken bool) {
	t.Helper()
	r := Check(e)
	if is := len(r.Violations) == 1 && r.Violations[0].Invariant == "S14"; is != broken ||
		!broken && len(r.Violations) > 0 {
		t.Errorf("%s: %v", name, r.Violations)
	}
}

// A slow machine excuses a handler with little time even without a fault, if the whole time of the plan has passed
// since the claim.
func TestLateClaims(t *testing.T) {
	for _, tc := range []struct {
		name             string
		claimed, stopped float64
		broken           bool
	}{{"no time was left", 4.1, 6.1, false}, {"it had time left", 5.5, 7.6, true}} {
		e := sound()
		r := e.run(killed, 1)
		r.Began, r.Ended, r.Why = at(6), at(6.05), handler.ErrMaxTime.Error()
		o := e.outcome(killed, 1)
		o.FirstTriedAt = at(tc.claimed)
		o.RetryCount = 1
		o.Tries[0] = job.Attempt{Number: 1, Worker: "a-host-12-0abc", Outcome: "MAX_TIME_EXCEEDED", StartedAt: at(tc.claimed),
			FinishedAt: at(tc.stopped)}
		e.Faults[0].Target = "11"
		judged(t, tc.name, e, tc.broken)
		if n := Check(e).Explained[byLateClaim]; (n == 1) == tc.broken {
			t.Errorf("%s: %d late claims", tc.name, n)
		}
	}
}

// A process claims from a Redis that stands still and is killed before Redis goes on. The checker accepts that
// Redis executes the claim for a dead process.
func TestClaimOfTheDead(t *testing.T) {
	for _, tc := range []struct {
		name   string
		frozen float64
		broken bool
	}{{"while Redis stood still", 0.5, false}, {"before it did", 1.5, true}} {
		e := sound()
		e.run(killed, 1).Began = at(4.1)
		e.Faults[0].From, e.Faults[0].To = at(1), at(1)
		e.Faults[1] = Fault{Kind: "F13", Target: "redis", From: at(tc.frozen), To: at(4)}
		e.Runs = slices.DeleteFunc(e.Runs, func(r Run) bool { return r.ID == id(killed) && r.Attempt == 1 })
		e.outcome(killed, 1).FirstTriedAt = at(4.05)
		e.outcome(killed, 1).Tries[0] = job.Attempt{Number: 1, Worker: "a-host-12-0abc", Outcome: "HEARTBEAT_STOPPED",
			StartedAt: at(4.05), FinishedAt: at(10)}
		judged(t, tc.name, e, tc.broken)
	}
}
