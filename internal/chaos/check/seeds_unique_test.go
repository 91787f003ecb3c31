package check

import (
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// shop is the unique key of these jobs.
func shop(on job.UniqueOn) Unique { return Unique{Key: "shop", Living: true, On: on} }

// racing adds jobs with a unique key: 20 holds it and runs from 21.1 to 21.5, 21 runs after it, from 22.1 to 22.5, with
// the payload of the submit 22, which replaced its own.
func (e *Evidence) racing() {
	e.add(20, 21, func(op *Op, _ *Run, _ *Outcome) { op.Unique = shop(job.UniqueReturn) })
	e.add(21, 22, func(op *Op, r *Run, o *Outcome) {
		op.Unique, r.Key, r.Sum = shop(job.UniqueAfter), "k22", "newer"
		op.Sent, op.Answered, o.ArrivedAt = at(21.2), at(21.3), at(21.25)
	})
	newer := submitted(22, 21.4)
	newer.ID, newer.Sum, newer.Unique = id(21), "newer", shop(job.UniqueReplace)
	newer.Unique.StandIn = true
	e.Ops = append(e.Ops, newer)
	e.Quiet, e.Rested = at(30), at(31)
}

// A replaced payload breaks no rule, nor does a submit that another job stands for.
func TestSoundUnique(t *testing.T) {
	e := sound()
	e.racing()
	if r := Check(e); len(r.Violations) > 0 {
		t.Error(r.Violations)
	}
}

// raced returns a seed that changes racing.
func raced(change func(*Evidence)) func(*Evidence) {
	return func(e *Evidence) {
		e.racing()
		change(e)
	}
}

var seedsOfUnique = []seed{
	{"S25", "two jobs of one unique key were claimed at once", raced(func(e *Evidence) {
		e.outcome(21, 1).FirstTriedAt, e.outcome(21, 1).StartedAt = at(21.45), at(21.45)
	})},
	{"S25", "two jobs of one unique key were claimed at once, and Redis forgot before that", raced(func(e *Evidence) {
		e.outcome(21, 1).FirstTriedAt, e.outcome(21, 1).StartedAt = at(21.45), at(21.45)
		e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(20.5, 20.6))
	})},
	{"S25", "a requeued job did not wait for the holder", raced(func(e *Evidence) {
		o := e.outcome(dead, 2)
		e.submit(dead).Unique = shop(job.UniqueReturn)
		o.FirstTriedAt, o.StartedAt, o.EndedAt = at(10.1), at(10.1), at(21.3)
		r := e.run(dead, 3)
		r.Ended = at(11)
	})},
	{"S25", "the last input never ran", raced(func(e *Evidence) {
		r := e.run(21, 1)
		r.Key, r.Sum = "k21", "sum"
	})},
	{"S25", "the last input ran only before it came", raced(func(e *Evidence) {
		e.submit(22).Sent, e.submit(22).Answered = at(22.2), at(22.3)
	})},
	{"S25", "an earlier input ran in place of the last one", raced(func(e *Evidence) {
		r := e.run(21, 1)
		r.Key, r.Sum = "k23", "sum"
		other := submitted(23, 21.35)
		other.ID, other.Unique = id(21), shop(job.UniqueReplace)
		other.Unique.StandIn = true
		e.Ops = append(e.Ops, other)
	})},
	{"S25", "nobody has the job that stands for a submit", raced(func(e *Evidence) {
		gone := submitted(24, 21.4)
		gone.ID, gone.Unique = id(97), shop(job.UniqueReturn)
		gone.Unique.StandIn = true
		e.Ops = append(e.Ops, gone)
	})},
	{"S18 S25", "a job ran with the payload of a submit under another unique key", raced(func(e *Evidence) {
		e.submit(22).Unique.Key = "another shop"
	})},
}
