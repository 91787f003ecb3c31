package check

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// witnessed returns a run without a broken promise, and its witness. Most jobs have a callback: one of them was
// requeued, one cancelled, and of one the client never learned the id. Another job was delayed.
func witnessed() (Evidence, Witness) {
	done := submitted(1, 1)
	failed := submitted(2, 2)
	waited := submitted(3, 3)
	waited.Delay = time.Second
	lone := submitted(4, 4)
	unsure := submitted(5, 5)
	unsure.ID, unsure.Fate = "", Unknown
	callback := func(n int, of string) Outcome {
		o := ended(n, 1, 1, job.Completed, 5, 6)
		o.Type, o.Trace = "CALLBACK", CallbackTrace(of)
		return o
	}
	e := Evidence{
		Ops: []Op{done, failed, waited, lone, unsure},
		Runs: []Run{ran(1, 1, 1, "10", 1.1, 1.2, "r"), ran(2, 1, 1, "10", 2.1, 2.2, ""), ran(2, 2, 2, "10", 6, 6.1, "r"),
			ran(3, 1, 1, "10", 4.01, 4.1, "r")},
		Outcomes: []Outcome{
			ended(1, 1, 1, job.Completed, 1, 1.2), ended(2, 1, 1, job.Failed, 2, 2.2), ended(2, 2, 2, job.Completed, 5, 6.1),
			ended(3, 1, 1, job.Completed, 3, 4.1),
			ended(4, 1, 0, job.Cancelled, 4, 4.5), ended(5, 1, 1, job.Failed, 5, 5.5), callback(11, "t1"), callback(12, "t2"),
			callback(13, "t2"), callback(15, "k5"),
		},
		Faults: []Fault{{Kind: "F36", Target: "mysql", From: at(50), To: at(60)},
			{Kind: "F19", Target: "redis", From: at(100), To: at(101), ForgetsAcked: true}},
	}
	e.Outcomes[5].Trace = "k5"
	call := func(n, generation int, status job.Status, http int) Call {
		return Call{ID: id(n), Generation: generation, Status: status, HTTP: http, At: at(9), Attempt: 1}
	}
	w := Witness{
		Asked: map[string]Asked{"k1": {"ann", true}, "k2": {"ben", true}, "k3": {"ann", false}, "k4": {"ann", true},
			"k5": {"ann", true}},
		Strangers: []Stranger{
			{ID: id(1), Method: "GET", HTTP: 404}, {ID: id(1), Method: "DELETE", HTTP: 404},
			{ID: id(1), Method: "GET", HTTP: 503}, {ID: id(1), Method: "GET"},
		},
		Calls: []Call{
			call(1, 1, job.Completed, 500), call(1, 1, job.Completed, 200), call(2, 1, job.Failed, 200),
			call(2, 2, job.Completed, 200), call(5, 1, job.Failed, 200),
		},
		Looks: []Look{{From: at(5), To: at(5.1)},
			{From: at(100.5), To: at(100.6), Wrong: []string{"1 in quarantine"}, Over: []string{"too many"}},
			{From: at(110), To: at(111), Over: []string{"too many"}}},
		Passes: []Pass{{From: at(5), To: at(6), Whole: true},
			{From: at(110), To: at(111), Found: []Found{{Result: job.Repaired, Kind: "lost", Count: 3}}}},
		Plans:  []PlanSeen{{Tier: "PAID", Want: "a", Seen: "a"}},
		Limits: []Limit{{From: at(1), To: at(20), Bound: time.Minute}},
		Starts: []Start{{Killed: at(1), Left: "1 versions"}},
		Stops:  []Stop{{PID: "10", At: at(5), Took: 3 * time.Second}, {PID: "11", At: at(51), Took: 20 * time.Second}},
	}
	for i := range e.Outcomes {
		o := &e.Outcomes[i]
		owner := w.Asked["k"+strings.TrimLeft(string(o.ID)[len(o.ID)-5:len(o.ID)-2], "0")].Owner
		w.Owners = append(w.Owners, Owned{o.ID, o.Generation, owner})
	}
	return e, w
}

func TestSoundWitness(t *testing.T) {
	t.Parallel()
	e, w := witnessed()
	for _, v := range CheckWitness(e, w) {
		t.Error(v)
	}
	w.Passes = append(w.Passes, Pass{Found: []Found{{Result: job.Reported, Kind: "counter", Count: 2}}})
	if n := w.Repairs(); n != 3 {
		t.Errorf("%d repairs", n)
	}
}

// A member of a batch of submits without an answer expired before it ran, so the evidence does not show which of the
// submits made it. Its callback breaks a rule only if none of these submits asked for a callback.
func TestSoundWitness_Unnamed(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{true, false} {
		e, w := witnessed()
		for n := range 2 {
			op := submitted(20+n, 6)
			op.Trace, op.ID, op.Fate = "batch", "", Unknown
			e.Ops = append(e.Ops, op)
		}
		w.Asked["k20"] = Asked{"ann", asked}
		o, c := ended(30, 1, 0, job.Expired, 6, 6.5), ended(31, 1, 1, job.Completed, 6.5, 7)
		o.Trace, c.Type, c.Trace = "batch", job.CallbackType, CallbackTrace("batch")
		e.Outcomes = append(e.Outcomes, o, c)
		w.Calls = append(w.Calls, Call{ID: id(30), Generation: 1, Status: job.Expired, HTTP: 200, At: at(7), Attempt: 1})
		if got := broken(Report{Violations: CheckWitness(e, w)}); (got == "") != asked {
			t.Errorf("asked %t: %q", asked, got)
		}
	}
}

var seedsOfWitness = []struct {
	invariant, name string
	plant           func(*Evidence, *Witness)
}{
	{"S17", "a stranger saw a job", func(_ *Evidence, w *Witness) { w.Strangers[0].HTTP = 200 }},
	{"S17", "a stranger cancelled a job", func(_ *Evidence, w *Witness) { w.Strangers[1].HTTP = 202 }},
	{"S17", "a stranger was told that it is there", func(_ *Evidence, w *Witness) { w.Strangers[0].HTTP = 409 }},
	{"S17", "a key that opens was turned away", func(_ *Evidence, w *Witness) { w.Shut = 1 }},
	{"S17", "another owner in SQL", func(_ *Evidence, w *Witness) { w.Owners[1].Owner = "ann" }},
	{"S17", "nobody's in SQL, of a job whose id no client knows",
		func(_ *Evidence, w *Witness) { w.Owners[5].Owner = "" }},
	{"S21", "nobody was told", func(_ *Evidence, w *Witness) { w.Calls = w.Calls[2:] }},
	{"S21", "it was told, and never heard", func(_ *Evidence, w *Witness) { w.Calls[1].HTTP = 500 }},
	{"S21", "the next life's end was not told", func(_ *Evidence, w *Witness) { w.Calls = slices.Delete(w.Calls, 3, 4) }},
	{"S21", "it was told to be failed", func(_ *Evidence, w *Witness) { w.Calls[1].Status = job.Failed }},
	{"S21", "somebody was told who did not ask", func(_ *Evidence, w *Witness) {
		w.Calls = append(w.Calls, Call{ID: id(3), Generation: 1, Status: job.Completed, HTTP: 200})
	}},
	{"S21", "a cancelled job told", func(_ *Evidence, w *Witness) {
		w.Calls = append(w.Calls, Call{ID: id(4), Generation: 1, Status: job.Cancelled, HTTP: 200})
	}},
	{"S21", "two CALLBACK jobs for one end", func(e *Evidence, _ *Witness) {
		o := e.Outcomes[6]
		o.ID = id(20)
		e.Outcomes = append(e.Outcomes, o)
	}},
	{"S21", "a CALLBACK job too few", func(e *Evidence, _ *Witness) { e.Outcomes = slices.Delete(e.Outcomes, 7, 8) }},
	{"S21", "a CALLBACK job of one who did not ask",
		func(e *Evidence, _ *Witness) { e.Outcomes[6].Trace = CallbackTrace("t3") }},
	{"S15", "a delayed job ran early", func(e *Evidence, _ *Witness) { e.Runs[3].Began = at(3.9) }},
	{"S1", "a job in quarantine, in the midst of the run",
		func(_ *Evidence, w *Witness) { w.Looks[0].Wrong = []string{"1 in quarantine"} }},
	{"S6", "in two sets", func(_ *Evidence, w *Witness) {
		w.Looks[0].Wrong = []string{"x: PENDING (ttl -1ms) is in [queue outbox], not in [queue]"}
	}},
	{"S8", "a score that changed",
		func(_ *Evidence, w *Witness) { w.Looks[0].Wrong = []string{"x: score 5 in the queue, its own is 4"} }},
	{"S9", "a counter", func(_ *Evidence,
		w *Witness) {
		w.Looks[0].Wrong = []string{"counter PUBLIC:ready is 1, counted 0"}
	}},
	{"S9", "an owner's counter, after Redis forgot",
		func(_ *Evidence, w *Witness) { w.Looks[2].Wrong = []string{"counter of owner x is 1, counted 0"} }},
	{"S9", "beyond a limit", func(_ *Evidence, w *Witness) {
		w.Looks[0].Over = []string{"51 jobs wait that were never claimed, there is room for 50"}
	}},
	{"S10", "a living job will expire", func(_ *Evidence, w *Witness) {
		w.Looks[0].Wrong = []string{"x: PENDING, a living job with a time to live of 1h0m0s"}
	}},
	{"S11", "running without a claim", func(_ *Evidence, w *Witness) {
		w.Looks[0].Wrong = []string{"x: running without first, token or attempt"}
	}},
	{"S1", "the audit gave a job back, and nobody had lost it", func(_ *Evidence, w *Witness) {
		w.Passes[0].Found = []Found{{Result: job.Repaired, Kind: "lost", Count: 1}}
	}},
	{"S9", "the audit mended a counter, although Redis forgot",
		func(_ *Evidence, w *Witness) { w.Passes[1].Found[0].Kind = "counter" }},
	{"S6", "the audit set a job aside", func(_ *Evidence, w *Witness) {
		w.Passes[0].Found = []Found{{Result: job.Quarantined, Kind: "no_job", Count: 1}}
	}},
	{"S22", "a plan that was changed back", func(_ *Evidence, w *Witness) {
		w.Plans = append(w.Plans, PlanSeen{Tier: "PAID", Want: "a", Seen: "b"})
	}},
	{"S22", "an added tier that is gone", func(_ *Evidence, w *Witness) {
		w.Plans = append(w.Plans, PlanSeen{Tier: "GOLD", Want: "a"})
	}},
	{"L8", "a full Redis that keeps what it owes", func(_ *Evidence, w *Witness) {
		w.Limits = append(w.Limits, Limit{From: at(1), Bound: time.Minute, Left: "3 of 5 outcomes in the outbox"})
	}},
	{"L9", "a server that does not start on what a killed one left", func(_ *Evidence, w *Witness) {
		w.Starts = append(w.Starts, Start{Killed: at(1), Left: "1 versions", Failed: "exit 1"})
	}},
	{"L7", "it did not stop", func(_ *Evidence, w *Witness) { w.Stops[0].Took = 12 * time.Second }},
}

// Each seed breaks one promise, and exactly its invariant reports it.
func TestSeededWitness(t *testing.T) {
	t.Parallel()
	for _, s := range seedsOfWitness {
		t.Run(s.invariant+" "+s.name, func(t *testing.T) {
			e, w := witnessed()
			s.plant(&e, &w)
			all := CheckWitness(e, w)
			if got := broken(Report{Violations: all}); got != s.invariant {
				t.Errorf("broken: %q\n%v", got, all)
			}
		})
	}
}
