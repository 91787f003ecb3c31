package check

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// fetched is a pushed job that overFaktory adds: the worker f1 was silent with it, f2 completed it, and then f1 sent a
// late ACK that was answered with OK, as all are.
const fetched = 42

// overFaktory adds a job of Faktory clients. Its leases live for 5 s; that of f1 was extended until 8 s.
func overFaktory(e *Evidence) {
	op := submitted(fetched, 1)
	op.Type, op.Trace = Elsewhere, ""
	o := ended(fetched, 1, 2, job.Completed, 1, 21)
	o.Type, o.Trace, o.StartedAt, o.ResultSum = Elsewhere, "", at(20.1), "null"
	o.FirstTriedAt, o.RetryCount = at(1.1), 1
	o.Tries = []job.Attempt{{Number: 1, Worker: "key.f1", Outcome: "HEARTBEAT_STOPPED", StartedAt: at(1.1),
		FinishedAt: at(19)}}
	first, second := ran(fetched, 1, 1, "f1", 1.2, 20.5, "null"), ran(fetched, 1, 2, "f2", 20.2, 20.4, "null")
	first.Lease, first.Held, first.Lives = 11, at(6.2), at(8)
	second.Lease, second.Held, second.Lives = 12, at(25.2), at(28)
	for i, r := range []Run{first, second} {
		sent := []float64{20.6, 20.9}[i]
		e.Calls = append(e.Calls, WorkerCall{Verb: "complete", ID: r.ID, Generation: 1, Attempt: r.Attempt, Worker: r.Worker,
			Lease: r.Lease, Result: "null", Sent: at(sent), Answered: at(sent + 0.05), Word: "OK"})
	}
	e.Ops, e.Outcomes, e.Runs = append(e.Ops, op), append(e.Outcomes, o), append(e.Runs, first, second)
	e.Tables, e.Outside = nil, job.Plan{HeartbeatTimeout: 5 * time.Second, MaxProcessingTime: time.Minute}
}

// The checker has nothing against a late ACK that was answered with OK and changed nothing.
func TestSoundOverFaktory(t *testing.T) {
	e := sound()
	overFaktory(&e)
	r := Check(e)
	for _, v := range r.Violations {
		t.Error(v)
	}
	if r.Explained[bySilence] != 1 || r.Counts.Lost != 0 {
		t.Errorf("explained by %v, %d lost", r.Explained, r.Counts.Lost)
	}
}

// A push that was accepted before Redis forgot it is not lost where there is no journal.
func TestForgottenPush(t *testing.T) {
	e := sound()
	op := submitted(fetched, 1)
	op.Trace, op.ID = "", ""
	e.Ops = append(e.Ops, op)
	e.Faults = append(e.Faults, Fault{Kind: "F19", Target: "redis", From: at(1.5), To: at(1.6), ForgetsAcked: true})
	if r := Check(e); len(r.Violations) > 0 || r.Counts.Forgotten != 1 {
		t.Errorf("%d forgotten; %v", r.Counts.Forgotten, r.Violations)
	}
}

// faktory returns a seed that changes the run with Faktory clients.
func faktory(invariant, name string, plant func(*Evidence)) seed {
	return seed{invariant, name, func(e *Evidence) {
		overFaktory(e)
		plant(e)
	}}
}

var seedsOfFaktory = []seed{
	faktory("S1", "an accepted push that nobody had", func(e *Evidence) {
		op := submitted(fetched+1, 1)
		op.Trace, op.ID = "", ""
		e.Ops = append(e.Ops, op)
	}),
	faktory("S18", "a late ACK ended the next worker's attempt", func(e *Evidence) {
		e.outcome(fetched, 1).EndedAt = at(20.65)
	}),
	faktory("S5 S18", "a late ACK ended the attempt of a worker that did not end it", func(e *Evidence) {
		e.Calls = without(e.Calls, func(c *WorkerCall) bool { return c.ID == id(fetched) && c.Attempt == 2 })
		e.run(fetched, 2).Result = ""
	}),
	faktory("S18", "a job is completed that nobody had acknowledged", func(e *Evidence) {
		e.Calls = without(e.Calls, func(c *WorkerCall) bool { return c.ID == id(fetched) })
	}),
	faktory("S18", "a gateway changed what was pushed", func(e *Evidence) { e.run(fetched, 2).Sum = "other" }),
	faktory("L2", "a Faktory worker's job lay about", func(e *Evidence) { e.run(fetched, 1).Lives = at(6.3) }),
	faktory("S14", "another Faktory worker got a job whose lease lived", func(e *Evidence) {
		e.run(fetched, 1).Began, e.run(fetched, 1).Held, e.run(fetched, 1).Lives = at(16), at(20.3), at(21)
		e.outcome(fetched, 1).Tries[0].StartedAt, e.outcome(fetched, 1).FirstTriedAt = at(15.9), at(15.9)
	}),
}
