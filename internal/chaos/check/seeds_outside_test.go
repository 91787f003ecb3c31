package check

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// These are jobs of workers of other programs, which elsewhere adds to the sound run.
const (
	handed   = 40 // released by w1, then completed by w2, who was not answered at first
	vanished = 41 // w1 vanished with it; w2 failed it for good
)

// elsewhere adds the jobs of workers of other programs. The leases live for 5 s.
func elsewhere(e *Evidence) {
	lease := 0
	took := func(n, attempt int, worker string, began, over float64, result string) {
		lease++
		r := ran(n, 1, attempt, worker, began, over, result)
		r.Lease, r.Held = lease, at(began+5)
		e.Runs = append(e.Runs, r)
	}
	told := func(verb, word string, status int, sent float64, result string) {
		r := &e.Runs[len(e.Runs)-1]
		e.Calls = append(e.Calls, WorkerCall{Verb: verb, ID: r.ID, Generation: 1, Attempt: r.Attempt, Worker: r.Worker,
			Lease: lease, Result: result, Sent: at(sent), Answered: at(sent + 0.01), HTTP: status, Word: word})
	}
	add := func(n int, sent float64, o Outcome, tries ...job.Attempt) {
		op := submitted(n, sent)
		op.Type, o.Type, o.Tries = Elsewhere, Elsewhere, tries
		e.Ops, e.Outcomes = append(e.Ops, op), append(e.Outcomes, o)
	}
	try := func(n int, worker, outcome string, began, ended float64) job.Attempt {
		return job.Attempt{Number: n, Worker: "key." + worker, Outcome: outcome, StartedAt: at(began), FinishedAt: at(ended)}
	}
	e.Tables, e.Outside = nil, job.Plan{HeartbeatTimeout: 5 * time.Second, MaxProcessingTime: time.Minute}

	done := ended(handed, 1, 2, job.Completed, 1, 3)
	done.StartedAt, done.ResultSum = at(2.2), "by w2"
	add(handed, 1, done, try(1, "w1", "RELEASED", 1.1, 2))
	took(handed, 1, "w1", 1.2, 1.9, "")
	told("heartbeat", "OK", 200, 1.5, "")
	told("release", "RELEASED", 200, 1.95, "")
	told("complete", "LEASE_LOST", 409, 2.5, "by w1")
	took(handed, 2, "w2", 2.3, 2.9, "by w2")
	told("complete", "", 0, 2.95, "by w2")
	told("complete", "COMPLETED", 200, 3.5, "by w2")
	e.Polls = append(e.Polls, seen("a", handed, 1, job.Completed, 3.2))
	e.Polls[len(e.Polls)-1].ResultSum = "by w2"

	dead := ended(vanished, 1, 2, job.Failed, 1, 10)
	dead.StartedAt, dead.RetryCount = at(8.9), 1
	add(vanished, 1, dead, try(1, "w1", "HEARTBEAT_STOPPED", 1.1, 8), try(2, "w2", "HANDLER_ERROR", 8.9, 10))
	took(vanished, 1, "w1", 1.2, 0, "")
	told("heartbeat", "LOST", 200, 8.1, "")
	took(vanished, 2, "w2", 9, 9.9, "")
	told("fail", "FAILED", 200, 9.95, "")
}

func (e *Evidence) call(n, attempt int, verb string) *WorkerCall {
	for i := range e.Calls {
		if c := &e.Calls[i]; c.ID == id(n) && c.Attempt == attempt && c.Verb == verb {
			return c
		}
	}
	panic("no such call")
}

// retaken makes a frozen server take the lease of the vanished job's first attempt with a late copy of the claim.
func retaken(e *Evidence) {
	c := e.call(vanished, 1, "heartbeat")
	c.Sent, c.Answered = at(5.5), at(5.6)
	r := e.run(vanished, 1)
	r.Began, r.Held = at(4), at(6)
	e.outcome(vanished, 1).Tries[0].StartedAt = at(3.9)
	e.outcome(vanished, 1).FirstTriedAt = at(3.9)
	e.outcome(vanished, 1).Tries[0].FinishedAt = at(8.95)
	e.outcome(vanished, 1).StartedAt, e.outcome(vanished, 1).Tries[1].StartedAt = at(8.97), at(8.97)
	e.Faults = append(e.Faults, Fault{Kind: "F10", Target: "11", Server: "a", Froze: "a", From: at(0.8), To: at(5.4),
		Repeats: true})
}

// A server repeats a report whose answer Redis did not get to it: the report counted, and the repeat is refused.
func TestCounted(t *testing.T) {
	e := sound()
	elsewhere(&e)
	c := e.call(handed, 1, "release")
	c.HTTP, c.Word, c.Answered = 409, "LEASE_LOST", at(3.6)
	e.Calls = without(e.Calls, func(c *WorkerCall) bool { return c.ID == id(handed) && c.Result == "by w1" })
	e.Faults = append(e.Faults, Fault{Kind: "F15", Target: "redis", From: at(1.96), To: at(2.1)})
	if r := Check(e); len(r.Violations) > 0 || r.Counts.Unheard != 1 {
		t.Errorf("%d unheard; %v", r.Counts.Unheard, r.Violations)
	}
	e.Faults = without(e.Faults, func(f *Fault) bool { return f.Target == "redis" })
	if r := Check(e); broken(r) != "S14 S23" {
		t.Errorf("without a fault: %v", r.Violations)
	}
}

// The checker has nothing against workers that release, are cut off, vanish and fail.
func TestSoundOutside(t *testing.T) {
	e := sound()
	elsewhere(&e)
	r := Check(e)
	for _, v := range r.Violations {
		t.Error(v)
	}
	if r.Explained[byReport] != 1 || r.Explained[bySilence] != 1 {
		t.Errorf("explained by %v", r.Explained)
	}
}

// outside returns a seed that changes the run with workers of other programs.
func outside(invariant, name string, plant func(*Evidence)) seed {
	return seed{invariant, name, func(e *Evidence) {
		elsewhere(e)
		plant(e)
	}}
}

var seedsOfOutside = []seed{
	outside("S23", "an accepted complete is another attempt's outcome", func(e *Evidence) {
		*e.call(handed, 1, "release") = WorkerCall{Verb: "complete", ID: id(handed), Generation: 1, Attempt: 1, Worker: "w1",
			Lease: 1, Result: "by w1", Sent: at(1.95), Answered: at(1.96), HTTP: 200, Word: "COMPLETED"}
		r := e.run(handed, 1)
		r.Result, r.Held = "by w1", at(2.2)
		e.call(handed, 1, "complete").Sent = at(3)
		e.outcome(handed, 1).Tries[0].Outcome, e.outcome(handed, 1).RetryCount = "HEARTBEAT_STOPPED", 1
		e.outcome(handed, 1).Tries[0].FinishedAt, e.outcome(handed, 1).Tries[0].StartedAt = at(6.3), at(1.1)
		e.outcome(handed, 1).StartedAt, e.outcome(handed, 1).EndedAt = at(6.4), at(7.5)
		second := e.run(handed, 2)
		second.Began, second.Ended, second.Held = at(6.5), at(7), at(11.5)
		for i := range e.Calls {
			if c := &e.Calls[i]; c.ID == id(handed) && c.Attempt == 2 {
				c.Sent, c.Answered = at(7.1+float64(i)/100), at(7.2+float64(i)/100)
			}
		}
		e.Polls = without(e.Polls, func(p *Poll) bool { return p.ID == id(handed) })
	}),
	outside("S23", "an accepted failure is a result", func(e *Evidence) {
		c := e.call(handed, 2, "complete")
		*c = WorkerCall{Verb: "fail", ID: id(handed), Generation: 1, Attempt: 2, Worker: "w2", Lease: 2, Sent: at(3.2),
			Answered: at(3.3), HTTP: 200, Word: "FAILED"}
		e.Calls = append(e.Calls, WorkerCall{Verb: "complete", ID: id(handed), Generation: 1, Attempt: 2, Worker: "w2",
			Lease: 2, Result: "by w2", Sent: at(2.95), Answered: at(3)})
	}),
	outside("S23", "an accepted release that no history has", func(e *Evidence) {
		o := e.outcome(handed, 1)
		o.Tries[0].Number, o.FirstTriedAt = 3, o.Tries[0].StartedAt
	}),
	outside("S23", "a retry is in the history as a release", func(e *Evidence) {
		c := e.call(handed, 1, "release")
		c.Verb, c.Word = "fail", "RETRIED"
	}),
	outside("S23", "an end was accepted although another worker had the job", func(e *Evidence) {
		e.Calls = append(e.Calls, WorkerCall{Verb: "fail", ID: id(vanished), Generation: 1, Attempt: 1, Worker: "w1",
			Lease: 3, Sent: at(9.5), Answered: at(9.6), HTTP: 200, Word: "CANCELLED"})
		e.outcome(vanished, 1).Outcome, e.outcome(vanished, 1).Dead = job.Cancelled, 0
		e.call(vanished, 2, "fail").Word = "CANCELLED"
	}),
	outside("S23", "a heartbeat was taken although another worker had the job", func(e *Evidence) {
		e.Calls = append(e.Calls, WorkerCall{Verb: "heartbeat", ID: id(vanished), Generation: 1, Attempt: 1, Worker: "w1",
			Lease: 3, Sent: at(9.5), Answered: at(9.6), HTTP: 200, Word: "OK"})
	}),
	outside("S23", "a lease that lived was refused", func(e *Evidence) {
		c := e.call(vanished, 1, "heartbeat")
		c.Sent, c.Answered = at(4), at(4.1)
	}),
	outside("S23", "a late copy of a claim took the lease", retaken),
	outside("S23", "a refused end made the outcome", func(e *Evidence) {
		e.Calls = without(e.Calls, func(c *WorkerCall) bool { return c.ID == id(handed) && c.Attempt == 2 && c.HTTP == 0 })
		c := e.call(handed, 2, "complete")
		c.HTTP, c.Word, c.Sent, c.Answered = 409, "LEASE_LOST", at(2.95), at(8)
	}),
	outside("S23", "a refused end is in the history", func(e *Evidence) {
		e.Faults = without(e.Faults, func(f *Fault) bool { return f.Target == "redis" })
		c := e.call(handed, 1, "release")
		c.HTTP, c.Word, c.Answered = 409, "LEASE_LOST", at(6.5)
		e.run(handed, 2).Began, e.run(handed, 2).Ended = at(6.3), at(6.4)
		e.outcome(handed, 1).StartedAt, e.outcome(handed, 1).EndedAt = at(6.25), at(6.6)
		for i := range e.Calls {
			if c := &e.Calls[i]; c.ID == id(handed) && c.Verb == "complete" {
				c.Sent, c.Answered = at(6.45+float64(i)/100), at(6.6)
			}
		}
		e.Polls = without(e.Polls, func(p *Poll) bool { return p.ID == id(handed) })
	}),
	outside("S23", "a lease was taken for no lease", func(e *Evidence) { e.call(handed, 1, "heartbeat").HTTP = 400 }),
	outside("S17", "an end with another worker's key was accepted", func(e *Evidence) {
		e.Calls = append(e.Calls, WorkerCall{Verb: "fail", ID: id(vanished), Generation: 1, Attempt: 2, Worker: "w2",
			Lease: 4, Stranger: true, Sent: at(9.92), Answered: at(9.93), HTTP: 200, Word: "FAILED"})
	}),
	outside("S18", "a poll showed a result that no worker had sent", func(e *Evidence) {
		e.Polls = append(e.Polls, seen("a", vanished, 1, job.Processing, 9))
		for i := range e.Polls {
			if p := &e.Polls[i]; p.ID == id(handed) {
				p.At = at(2.94)
			}
		}
	}),
	outside("S5 S18", "a result that no worker reported", func(e *Evidence) {
		e.Calls = without(e.Calls, func(c *WorkerCall) bool { return c.ID == id(handed) && c.Attempt == 2 })
		e.run(handed, 2).Result = ""
	}),
	outside("S14", "another worker got a job whose lease lived", func(e *Evidence) {
		e.call(handed, 1, "release").HTTP, e.call(handed, 1, "release").Word = 503, "SYSTEM_UNHEALTHY"
		e.call(handed, 1, "release").Verb = "complete"
		e.call(handed, 1, "complete").Result = "by w1"
	}),
	outside("S14", "a worker was taken for dead while its lease lived", func(e *Evidence) {
		e.outcome(vanished, 1).Tries[0].FinishedAt = at(5)
	}),
	outside("S14", "a worker lost its lease by a kill, and leases are kept", func(e *Evidence) {
		e.keeping(2, 2.1, Keeps{Leases: true})
		e.outcome(vanished, 1).Tries[0].FinishedAt = at(5)
	}),
	outside("L2", "a worker's job lay about", layAbout),
}

// layAbout lets the job of the worker that vanished lie about for 13 s after its lease has ended.
func layAbout(e *Evidence) {
	e.outcome(vanished, 1).Tries[0].StartedAt, e.outcome(vanished, 1).Tries[0].FinishedAt = at(1.1), at(19)
	o := e.outcome(vanished, 1)
	o.StartedAt, o.EndedAt, o.Tries[1].StartedAt, o.Tries[1].FinishedAt = at(19.1), at(19.9), at(19.1), at(19.9)
	r := e.run(vanished, 2)
	r.Began, r.Ended, r.Held = at(19.2), at(19.8), at(24)
	c := e.call(vanished, 2, "fail")
	c.Sent, c.Answered = at(19.85), at(19.9)
	c = e.call(vanished, 1, "heartbeat")
	c.Sent, c.Answered = at(19), at(19.05)
}
