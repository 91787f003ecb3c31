package check

import (
	"testing"
	"time"
)

// freezes adds a fault that freezes the process of a server.
func (e *Evidence) freezes(server string, from, to float64) {
	e.Faults = append(e.Faults, Fault{Kind: "F12", Target: "13", From: at(from), To: at(to), Repeats: true, Froze: server})
	e.Quiet, e.Rested, e.Bound = at(to+70), at(to+72), time.Minute
}

// arrivesLate sends the untold job's submit to the server "a" without an answer, and lets the job arrive at when.
func (e *Evidence) arrivesLate(when float64) {
	e.submit(untold).Server = "a"
	o, r := e.outcome(untold, 1), e.run(untold, 1)
	o.ArrivedAt, o.FirstTriedAt, o.StartedAt, o.EndedAt = at(when), at(when+0.1), at(when+0.1), at(when+0.3)
	r.Began, r.Ended = at(when+0.1), at(when+0.3)
}

// secondJob sends the first request under the key "once" to the server "a", without an answer. The second request
// is answered with the keyed job, which arrives at 6.9 s. Another job of the first request arrives at when.
func (e *Evidence) secondJob(when float64) {
	e.KeyLife = time.Minute
	e.submit(keyed).Server = "a"
	o, r := e.outcome(keyed, 1), e.run(keyed, 1)
	o.ArrivedAt, o.FirstTriedAt, o.StartedAt, o.EndedAt = at(6.9), at(7), at(7), at(7.2)
	r.Began, r.Ended = at(7), at(7.2)
	e.add(20, when, func(op *Op, r *Run, o *Outcome) { op.Key, r.Key, o.Trace = "", "k6", "t6" })
}

// sharedLate adds a submit under the key "shared". Its first request waits in a server that is frozen until 80 s,
// and its second request is accepted at 3 s. Another job of the first request arrives at when.
func (e *Evidence) sharedLate(when float64) {
	e.KeyLife = time.Minute
	e.under(20, 2.9, OK, 202)
	unanswered := submitted(20, 2)
	unanswered.Once, unanswered.Fate, unanswered.Status, unanswered.ID, unanswered.Server = "shared", Unknown, 0, "", "a"
	e.Ops = append([]Op{unanswered}, e.Ops...)
	e.add(21, when, func(op *Op, r *Run, o *Outcome) { op.Key, r.Key, o.Trace = "", "k20", "t20" })
	e.freezes("a", 1.5, 80)
}

// seedsOfFrozen are broken promises that a frozen server does not excuse.
var seedsOfFrozen = []seed{
	{"S15", "it arrived long after its frozen server went on", func(e *Evidence) {
		e.freezes("a", 4.9, 80)
		e.arrivesLate(110.1)
	}},
	{"S15", "it arrived long after its client had given up, while its server was frozen", func(e *Evidence) {
		e.freezes("a", 4.9, 80)
		e.arrivesLate(78.9)
	}},
	{"S15", "another server was frozen", func(e *Evidence) {
		e.freezes("b", 4.9, 80)
		e.arrivesLate(80.1)
	}},
	{"S15", "another fault met its server", func(e *Evidence) {
		e.freezes("", 4.9, 80)
		e.arrivesLate(80.1)
	}},
	{"S15", "another fault met a server, and nobody wrote down which one the submit was sent to", func(e *Evidence) {
		e.freezes("", 4.9, 80)
		e.arrivesLate(80.1)
		e.submit(untold).Server = ""
	}},
	{"S15", "its client never reached the frozen server, and another one did not answer", func(e *Evidence) {
		e.freezes("a", 4.9, 80)
		e.arrivesLate(80.1)
		again := *e.submit(untold)
		again.Server, again.Sent, again.Answered = "b", at(5.5), at(5.6)
		e.submit(untold).Fate = Fail
		e.Ops = append(e.Ops, again)
	}},
	{"S15", "its server was frozen long after the client had given up", func(e *Evidence) {
		e.freezes("a", 7.1, 80)
		e.arrivesLate(80.1)
	}},
	{"S15", "its server was frozen, and answered that nobody knows", func(e *Evidence) {
		e.freezes("a", 4.9, 80)
		e.arrivesLate(80.1)
		e.submit(untold).Status = 504
	}},
	{"S15", "its server was frozen, and another request was answered before it arrived", func(e *Evidence) {
		e.freezes("a", 4.9, 80)
		e.arrivesLate(80.1)
		told := *e.submit(untold)
		told.Fate, told.Status, told.ID, told.Sent, told.Answered = OK, 202, id(untold), at(5.5), at(5.6)
		e.Ops = append(e.Ops, told)
	}},
	{"S13", "a frozen server made a second job under a key that stood", func(e *Evidence) {
		e.freezes("a", 4.9, 63.7)
		e.secondJob(63.8)
	}},
	{"S13 S15", "a second job under a key that had run out, and its server was not frozen", func(e *Evidence) {
		e.freezes("b", 4.9, 80)
		e.secondJob(80.1)
	}},
	{"S13", "a frozen server made a second job, and nothing says when a key expires", func(e *Evidence) {
		e.freezes("a", 4.9, 80)
		e.secondJob(80.1)
		e.KeyLife = 0
	}},
	{"L1 S13", "a frozen server made a second job, and nothing says when the first one arrived", func(e *Evidence) {
		e.freezes("a", 4.9, 80)
		e.secondJob(80.1)
		e.drop(keyed)
		e.Live[id(keyed)] = "PENDING 1"
	}},
	{"S13", "a frozen server made a second job, and a client was told of it", func(e *Evidence) {
		e.freezes("a", 4.9, 80)
		e.secondJob(80.1)
		told := *e.submit(keyed)
		told.Fate, told.Status, told.ID, told.Sent, told.Answered = OK, 202, id(20), at(80.05), at(80.2)
		e.Ops = append(e.Ops, told)
	}},
	{"S13", "a frozen server made a second job, and a third one came soon after", func(e *Evidence) {
		e.freezes("a", 4.9, 80)
		e.secondJob(80.1)
		e.add(21, 90, func(op *Op, r *Run, o *Outcome) { op.Key, r.Key, o.Trace = "", "k6", "t6" })
	}},
	{"S13", "a key that a frozen server renewed outlasted its time", func(e *Evidence) {
		e.sharedLate(80.1)
		e.under(22, 143.2, Fail, 422)
	}},
	{"S13", "a key outlasted its time, and a frozen server renewed it later", func(e *Evidence) {
		e.sharedLate(80.1)
		e.under(22, 70, Fail, 422)
	}},
	{"S13", "a key that a frozen server renewed was forgotten before its time", func(e *Evidence) {
		e.sharedLate(80.1)
		e.under(22, 120, OK, 202)
	}},
}

// A server that was frozen executes the submits in its sockets when it goes on, and that breaks no promise.
func TestFrozen(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(*Evidence){
		"it arrived when its frozen server went on": func(e *Evidence) {
			e.freezes("a", 4.9, 80)
			e.arrivesLate(80.1)
		},
		"it arrived before the run had written down that its frozen server went on": func(e *Evidence) {
			e.freezes("a", 4.9, 80)
			e.arrivesLate(79.1)
		},
		"it arrived a while after its frozen server went on": func(e *Evidence) {
			e.freezes("a", 4.9, 80)
			e.arrivesLate(109.9)
		},
		"its server was frozen while it was at work on the submit": func(e *Evidence) {
			e.freezes("a", 6.9, 80)
			e.arrivesLate(80.1)
		},
		"a second job under a key that had run out": func(e *Evidence) {
			e.freezes("a", 4.9, 80)
			e.secondJob(80.1)
		},
		"a key that a frozen server renewed, refused in its new time and free after it": func(e *Evidence) {
			e.sharedLate(80.1)
			e.under(22, 100, Fail, 422)
			e.under(23, 145, OK, 202)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := sound()
			plant(&e)
			r := Check(e)
			if len(r.Violations) > 0 || r.Counts.Thawed != 1 {
				t.Errorf("%d arrived late when a frozen server went on, %v", r.Counts.Thawed, r.Violations)
			}
		})
	}
}
