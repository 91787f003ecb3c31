package check

import (
	"testing"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// forgets returns a fault in which Redis was emptied.
func forgets(from, to float64) Fault {
	return Fault{Kind: "F19", Target: "redis", From: at(from), To: at(to), Repeats: true, ForgetsAcked: true}
}

// endLostBefore makes Redis lose the plain job's end after SQL had it. At when a poll shows the end, and a later
// one shows the job alive.
func (e *Evidence) endLostBefore(when float64) {
	e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(1.6, 1.7))
	e.Polls = without(e.Polls, func(p *Poll) bool { return p.ID == id(plain) })
	e.Polls = append(e.Polls, seen("b", plain, 1, job.Completed, when), seen("c", plain, 1, job.Processing, when+0.3),
		seen("b", plain, 1, job.Processing, when+0.3))
}

// Evidence that looks like a broken promise, but is allowed by the design, is no violation.
func TestExcuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		plant func(*Evidence)
		holds func(Report) bool
	}{
		{"without a journal Redis takes its jobs along", func(e *Evidence) {
			e.drop(plain)
			delete(e.Live, id(plain))
			e.Faults = append(e.Faults, forgets(1.2, 1.3))
		}, func(r Report) bool { return r.Counts.Forgotten == 1 && r.Counts.Lost == 0 }},
		{"the journal could not keep it, and it was taken back", func(e *Evidence) {
			e.Journal, e.Tables = []job.ID{}, nil
			e.Outcomes = append(e.Outcomes, ended(98, 1, 0, job.Cancelled, 9, 9.5))
		}, func(r Report) bool { return r.Counts.Withdrawn == 1 }},
		{"the same, and Redis lost the withdrawal", func(e *Evidence) {
			e.Journal, e.Tables, e.Faults = []job.ID{}, nil, append(e.Faults, forgets(9.7, 9.8))
			e.submit(98).Code = "SYSTEM_UNHEALTHY"
			o := ended(98, 1, 1, job.Completed, 9, 10.2)
			e.Outcomes, e.Runs = append(e.Outcomes, o), append(e.Runs, ran(98, 1, 1, "11", 10, 10.1, "result"))
		}, func(r Report) bool { return r.Counts.Revived == 1 && r.Counts.Withdrawn == 0 }},
		{"the same, and the client who was not answered tried again", func(e *Evidence) {
			e.Journal, e.Tables = []job.ID{}, nil
			o := ended(20, 1, 0, job.Cancelled, 5, 5.1)
			o.Trace = "t6"
			e.Outcomes = append(e.Outcomes, o)
		}, func(r Report) bool { return r.Counts.Withdrawn == 0 }},
		{"a second ending after the first was forgotten", func(e *Evidence) {
			e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(2, 2.1))
			e.Runs = append(e.Runs, ran(plain, 1, 1, "11", 3, 3.4, "result"))
			e.Polls = append(e.Polls, seen("c", plain, 1, job.Processing, 3.2))
		}, func(r Report) bool { return r.Explained["F19"] == 1 }},
		{"a run after Redis forgot, whose attempts count from 1 again", func(e *Evidence) {
			e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(2, 2.1))
			e.run(plain, 1).Attempt, e.outcome(plain, 1).Attempt = 2, 2
			e.Runs = append(e.Runs, ran(plain, 1, 1, "11", 3, 3.4, "result"))
		}, func(r Report) bool { return r.Explained["F19"] == 1 }},
		{"nobody was told that it is accepted, it ran, and Redis forgot it before SQL had heard of it", func(e *Evidence) {
			e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(6, 6.1))
			e.submit(plain).Fate = Unknown
			e.drop(plain)
			delete(e.Live, id(plain))
			e.Polls = nil
		}, func(r Report) bool { return r.Counts.Lost == 0 }},
		{"a repeat of a submit that nobody answered, after Redis forgot its key", func(e *Evidence) {
			e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(6, 6.1))
			e.add(20, 5, func(op *Op, r *Run, o *Outcome) { op.Key, r.Key, o.Trace = "", "k6", "t6" })
		}, func(Report) bool { return true }},
		{"a poison job takes its neighbours along", func(e *Evidence) {
			e.Faults = nil
			e.submit(plain).Crashes, e.submit(plain).Fails = 1, 1
			r := e.run(plain, 1)
			*r = ran(plain, 1, 1, "12", 4.5, 0, "")
			e.Runs = append(e.Runs, ran(plain, 1, 2, "10", 14, 15, "result"))
			o := e.outcome(plain, 1)
			*o = ended(plain, 1, 2, job.Completed, 1, 15)
			o.RetryCount, o.Tries = 1, []job.Attempt{{Number: 1, Outcome: "HEARTBEAT_STOPPED"}}
			e.Polls = nil
		}, func(r Report) bool { return r.Explained["F46"] == 2 }},
		{"cancelled while it ran, and its worker died", func(e *Evidence) {
			e.Runs = append(e.Runs, ran(cancelled, 1, 1, "12", 3.2, 0, ""))
			o := e.outcome(cancelled, 1)
			o.Attempt, o.EndedAt, o.Tries = 1, at(8), []job.Attempt{{Number: 1, Outcome: "HEARTBEAT_STOPPED", FinishedAt: at(8)}}
		}, func(r Report) bool { return r.Crashed.N == 2 }},
		{"a run past its time", func(e *Evidence) {
			e.Faults = nil
			r := e.run(killed, 1)
			r.Ended = at(6.2)
		}, func(r Report) bool { return r.Explained[byMaxTime] == 1 }},
		{"given back by a server that stopped", func(e *Evidence) {
			e.Faults = []Fault{{Kind: "F09", Target: "12", From: at(4.2), To: at(4.4), Repeats: true}}
			r := e.run(killed, 1)
			r.Ended = at(4.4)
			o := e.outcome(killed, 1)
			o.RetryCount, o.Tries[0].Outcome = 0, "RELEASED"
		}, func(r Report) bool { return r.Explained["F09"] == 1 }},
		{"a dead worker's job lay about while Redis was away", func(e *Evidence) {
			e.Faults = append(e.Faults, Fault{Kind: "F13", Target: "redis", From: at(6), To: at(11)})
			o := e.outcome(killed, 1)
			o.Tries[0].FinishedAt, o.EndedAt, o.StartedAt = at(19), at(19.6), at(19.5)
			r := e.run(killed, 2)
			r.Began, r.Ended = at(19.5), at(19.6)
		}, func(r Report) bool { return r.Crashed.N == 1 && r.Crashed.Quiet == 0 }},
		{"a cancel that Redis forgot before the job ended", func(e *Evidence) {
			e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(1.3, 1.35))
			e.Ops = append(e.Ops, Op{Kind: "cancel", ID: id(plain), Fate: OK, Status: 202, Sent: at(1.2), Answered: at(1.2)})
		}, func(Report) bool { return true }},
		{"an end that was shown, and forgotten before the other one", func(e *Evidence) {
			e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(1.3, 1.35))
			e.Polls = append(e.Polls, seen("c", plain, 1, job.Cancelled, 1.2))
		}, func(r Report) bool { return r.Counts.Doubled == 0 }},
		{"an end that SQL shows, of a job that runs again because Redis lost its end", func(e *Evidence) {
			e.endLostBefore(2.9)
			e.Runs = append(e.Runs, ran(plain, 1, 1, "11", 3.1, 3.4, "result"))
		}, func(r Report) bool { return r.Explained["F19"] == 1 }},
		{"a handler in a process that stood still", func(e *Evidence) {
			e.Faults[0] = Fault{Kind: "F10", Target: "12", From: at(5), To: at(14.5), Repeats: true}
			e.run(killed, 1).Ended = at(14.6)
		}, func(r Report) bool { return r.Explained["F10"] == 1 }},
		{"two handlers of a job that Redis forgot to have given out", func(e *Evidence) {
			e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(1.2, 1.25))
			e.run(plain, 1).Ended = at(2.9)
			e.Runs = append(e.Runs, ran(plain, 1, 1, "11", 1.4, 1.45, "result"))
		}, func(r Report) bool { return r.Explained["F19"] == 1 }},
		{"a number that was given twice, and the second time to a process that crashed minutes later", func(e *Evidence) {
			e.Journal, e.Faults = []job.ID{},
				append(e.Faults, forgets(6, 6.1),
					Fault{Kind: "F01", Target: "11", From: at(143), To: at(143), Kills: 1, Repeats: true})
			o, r := e.outcome(killed, 1), e.run(killed, 2)
			o.Tries[0].Worker, o.Tries[0].StartedAt, o.Tries[0].FinishedAt = "a-host-11-0abc", at(140), at(150)
			o.StartedAt, o.EndedAt, r.Began, r.Ended = at(150.9), at(152), at(151), at(152)
			e.Quiet, e.Rested = at(155), at(160)
		}, func(r Report) bool { return r.Crashed.N == 0 }},
		{"a handler that does what it likes", func(e *Evidence) {
			e.Faults, e.submit(killed).Hangs = nil, true
			e.run(killed, 1).Ended = at(20)
		}, func(r Report) bool { return r.Explained[byMaxTime] == 1 }},
		{"a claim that was answered late, and what was written down of it is forgotten", func(e *Evidence) {
			e.Journal, e.Faults = []job.ID{}, []Fault{forgets(13.5, 13.6)}
			e.run(killed, 1).Ended, e.run(killed, 1).Why = at(4.2), handler.ErrMaxTime.Error()
			e.outcome(killed, 1).Tries = nil
		}, func(r Report) bool { return r.Explained[byLateClaim] == 1 }},
		{"a claim that was held up, and its job stopped soon", func(e *Evidence) {
			e.Faults[0].Target, e.Faults[1] = "11", Fault{Kind: "F25", Target: "redis", From: at(2.5), To: at(4.1)}
			r := e.run(killed, 1)
			r.Ended, r.Why = at(4.3), handler.ErrMaxTime.Error()
			e.outcome(killed, 1).RetryCount = 1
			e.outcome(killed, 1).Tries[0] = job.Attempt{Number: 1, Worker: "a-host-12-0abc", Outcome: "MAX_TIME_EXCEEDED",
				StartedAt: at(4.1), FinishedAt: at(4.3)}
		}, func(r Report) bool { return r.Explained[byMaxTime] == 1 }},
		{"a lease whose worker vanished, kept over a kill", func(e *Evidence) {
			elsewhere(e)
			e.keeping(2, 2.1, Keeps{Leases: true})
			layAbout(e)
		}, func(Report) bool { return true }},
		{"polls that crossed each other", func(e *Evidence) {
			late := seen("c", plain, 1, job.Processing, 6)
			late.Sent = at(1.4)
			e.Polls = append(e.Polls, late)
		}, func(Report) bool { return true }},
		{"what servers counted that did not die", func(e *Evidence) {
			e.Metrics = &Sums{Accepted: 7, Completed: 6, Failed: 1, Cancelled: 2}
		}, func(Report) bool { return true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := sound()
			tc.plant(&e)
			r := Check(e)
			for _, v := range r.Violations {
				t.Error(v)
			}
			if !tc.holds(r) {
				t.Errorf("%+v, explained by %v, L2 %s", r.Counts, r.Explained, r.Crashed)
			}
		})
	}
}
