package check

import "testing"

// flowing adds a flow: 40, then 41 and 42, of which 42 fails, and then 43.
func (e *Evidence) flowing() {
	of := func(after ...string) func(*Op, *Run, *Outcome) {
		return func(op *Op, r *Run, o *Outcome) {
			op.Flow, op.After = "f", after
			o.ArrivedAt = at(21)
		}
	}
	e.add(40, 21, of())
	e.add(41, 22, of("k40"))
	e.add(42, 22, of("k40"))
	e.add(43, 23, of("k41", "k42"))
	for n := 40; n < 44; n++ {
		op := e.submit(n)
		op.Sent, op.Answered = at(20.9), at(21.1)
	}
	e.Quiet, e.Rested = at(30), at(31)
}

// A flow in order breaks no rule.
func TestSoundFlows(t *testing.T) {
	e := sound()
	e.flowing()
	if r := Check(e); len(r.Violations) > 0 {
		t.Error(r.Violations)
	}
}

var seedsOfFlows = []seed{
	{"S29", "a job runs beside one that it waits for", func(e *Evidence) {
		e.flowing()
		e.outcome(42, 1).EndedAt = at(23.3)
		e.run(42, 1).Ended = at(23.3)
	}},
}
