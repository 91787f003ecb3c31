package check

import (
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// wipedLater adds a journal and a Redis that forgot when every job of the sound run had ended. That excuses
// nothing.
func (e *Evidence) wipedLater() {
	e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(19, 19.1))
}

// seedsOfExcuses are broken promises beside a fault that excuses other promises only.
var seedsOfExcuses = []seed{
	{"S12", "a cancel that was not kept, and Redis forgot much later", func(e *Evidence) {
		e.Ops = append(e.Ops, Op{Kind: "cancel", ID: id(plain), Fate: OK, Status: 202, Sent: at(1.2), Answered: at(1.2)})
		e.wipedLater()
	}},
	{"S12", "another end was shown, and Redis forgot much later", func(e *Evidence) {
		e.Polls = without(e.Polls, func(p *Poll) bool { return p.ID == id(plain) })
		e.Polls = append(e.Polls, seen("c", plain, 1, job.Failed, 1.7))
		e.wipedLater()
	}},
	{"S12", "another end was shown, and Redis had forgotten before both", func(e *Evidence) {
		e.Polls = without(e.Polls, func(p *Poll) bool { return p.ID == id(plain) })
		e.Polls = append(e.Polls, seen("c", plain, 1, job.Failed, 1.7))
		e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(1.05, 1.06))
	}},
	{"S12 S16", "an end was taken back, and Redis had lost it before, but nothing ran again", func(e *Evidence) {
		e.endLostBefore(2.9)
	}},
	{"S13", "a second job under a key, and Redis forgot much later", func(e *Evidence) {
		e.add(20, 8, func(op *Op, r *Run, o *Outcome) { op.Key, r.Key, o.Trace = "", "k6", "t6" })
		e.Journal, e.Faults, e.Rested = []job.ID{}, append(e.Faults, forgets(38, 38.1)), at(40)
	}},
	{"S5 S14", "the next attempt began while one that was to fail still ran", func(e *Evidence) {
		e.outcome(dead, 1).StartedAt, e.run(dead, 2).Began, e.run(dead, 1).Ended = at(2.5), at(2.6), at(3.9)
	}},
	{"S14", "the next attempt began just before one that was to fail did", func(e *Evidence) {
		e.outcome(dead, 1).StartedAt, e.run(dead, 2).Began, e.run(dead, 1).Ended = at(2.5), at(2.6), at(2.8)
	}},
	{"S14", "an attempt that was to fail did not", func(e *Evidence) { e.run(dead, 1).Result = "result" }},
	{"S14", "an attempt that was to fail never came to its end, and nothing befell its process",
		func(e *Evidence) { e.run(dead, 1).Ended = time.Time{} }},
	{"S14", "an attempt that was to kill its process failed", func(e *Evidence) {
		e.submit(killed).Crashes = 1
		e.run(killed, 1).Ended, e.Faults[0].From, e.Faults[0].To = at(4.3), at(1), at(1)
	}},
	{"S5", "two handlers at once, in a process that lost its heartbeats", func(e *Evidence) {
		e.Faults[0] = Fault{Kind: "F30", Target: "12", From: at(5), To: at(12), Repeats: true}
		e.run(killed, 1).Ended = at(14.5)
	}},
	{"L3", "hang-ups and jobs that hang are no disturbance", func(e *Evidence) {
		e.submit(killed).Hangs = true
		o := e.outcome(killed, 1)
		o.EndedAt, o.StartedAt = at(40), at(38.9)
		o.RetryCount = 1
		o.Tries[0] = job.Attempt{Number: 1, Outcome: "MAX_TIME_EXCEEDED", StartedAt: at(4.1), FinishedAt: at(30)}
		e.run(killed, 2).Began, e.run(killed, 2).Ended = at(39), at(40)
		e.Faults = []Fault{{Kind: "F47", From: at(4), To: at(30.1)}, {Kind: "F55", From: at(4), To: at(30.1)}}
	}},
	{"L3", "whatever was broken, it does not take minutes", func(e *Evidence) {
		e.submit(killed).Hangs = true
		o := e.outcome(killed, 1)
		o.EndedAt, o.StartedAt = at(240), at(238.9)
		o.RetryCount = 1
		o.Tries[0] = job.Attempt{Number: 1, Outcome: "MAX_TIME_EXCEEDED", StartedAt: at(4.1), FinishedAt: at(230)}
		e.run(killed, 2).Began, e.run(killed, 2).Ended = at(239), at(240)
		e.Faults[1].To, e.Quiet, e.Rested = at(230), at(235), at(241)
	}},
}

var seedsOfTimes = []seed{
	{"S15", "it arrived before it was submitted", func(e *Evidence) { e.outcome(plain, 1).ArrivedAt = at(0.9) }},
	{"S15", "a row's estimate of the arrival stayed, although its submit was answered", func(e *Evidence) {
		e.Journal, e.outcome(plain, 1).ArrivedAt = []job.ID{}, at(0.96)
	}},
	{"S15", "it arrived after its client was told", func(e *Evidence) {
		e.outcome(cancelled, 1).ArrivedAt = at(3.1)
	}},
	{"S15", "it arrived long after its client had given up", func(e *Evidence) {
		o, r := e.outcome(untold, 1), e.run(untold, 1)
		o.ArrivedAt, o.FirstTriedAt, o.StartedAt, o.EndedAt, r.Began, r.Ended = at(44), at(44.1), at(44.1), at(45), at(44.2),
			at(45)
		e.Rested, e.Quiet = at(50), at(46)
	}},
	{"S15", "a delayed job ran at once", func(e *Evidence) { e.submit(plain).Delay = time.Hour }},
	{"S15", "a handler began before its claim", func(e *Evidence) { e.run(plain, 1).Began = at(1.05) }},
	{"S15", "a success was taken before its handler was done", func(e *Evidence) { e.run(plain, 1).Ended = at(1.6) }},
	{"S4", "first tried is not the first claim",
		func(e *Evidence) { e.outcome(killed, 1).FirstTriedAt = e.outcome(killed, 1).StartedAt }},
	{"S4", "first tried is not the only claim", func(e *Evidence) { e.outcome(plain, 1).FirstTriedAt = at(1.05) }},
	{"L3", "a success after five minutes of two seconds", func(e *Evidence) {
		e.submit(untold).Hangs = true
		e.run(untold, 1).Ended, e.outcome(untold, 1).EndedAt = at(305), at(305)
		e.Rested, e.Quiet = at(310), at(306)
	}},
	{"L3", "stopped with most of its time left", func(e *Evidence) {
		e.Faults = nil
		r := e.run(killed, 1)
		r.Ended, r.Why = at(6.2), handler.ErrMaxTime.Error()
		e.outcome(killed, 1).RetryCount = 1
		e.outcome(killed, 1).Tries[0] = job.Attempt{Number: 1, Worker: "a-host-12-0abc", Outcome: "MAX_TIME_EXCEEDED",
			StartedAt: at(4.1), FinishedAt: at(4.2)}
	}},
	{"L3 S14", "stopped for its time after a tenth of a second", func(e *Evidence) {
		e.Faults = nil
		r := e.run(killed, 1)
		r.Ended, r.Why = at(4.2), handler.ErrMaxTime.Error()
		e.outcome(killed, 1).RetryCount = 1
		e.outcome(killed, 1).Tries[0] = job.Attempt{Number: 1, Worker: "a-host-12-0abc", Outcome: "MAX_TIME_EXCEEDED",
			StartedAt: at(4.1), FinishedAt: at(4.2)}
	}},
	{"S14", "a server that was asked to stop gave nothing back", func(e *Evidence) {
		e.Faults[0] = Fault{Kind: "F09", What: "SIGTERM", Target: "12", From: at(4.2), To: at(4.4), Repeats: true}
		e.outcome(killed, 1).Tries[0].Worker = "a-host-12-0abc"
	}},
	{"S19", "at rest it is shown alive",
		func(e *Evidence) { e.Polls = append(e.Polls, seen("last look 0", untold, 1, job.Pending, 20.5)) }},
	{"S19", "at rest its first life is shown", func(e *Evidence) {
		e.Polls = without(e.Polls, func(p *Poll) bool { return p.ID == id(dead) && p.Generation == 2 })
		e.Polls = append(e.Polls, seen("last look 0", dead, 1, job.Failed, 20.5))
	}},
	{"S19", "at rest a generation is shown that never was", func(e *Evidence) {
		e.Polls = append(e.Polls, seen("last look 0", untold, 2, job.Completed, 20.5))
	}},
}
