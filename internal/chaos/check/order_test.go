package check

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// line is a list of first claims: each job's tier, and when it arrived and was first tried, in seconds.
type line []struct {
	tier           job.Tier
	arrived, tried float64
}

func (l line) evidence() Evidence {
	e := Evidence{Plans: map[job.Tier]job.Plan{}}
	for _, p := range job.DefaultPlans() {
		e.Plans[p.Tier] = p
	}
	for n, j := range l {
		op, o := submitted(n, j.arrived), ended(n, 1, 1, job.Completed, j.arrived, j.tried+0.5)
		op.Tier, o.Tier, o.FirstTriedAt = j.tier, j.tier, at(j.tried)
		e.Ops, e.Outcomes = append(e.Ops, op), append(e.Outcomes, o)
	}
	return e
}

func TestCheckOrder(t *testing.T) {
	t.Attr("proves", "S7 S8")
	for _, tc := range []struct {
		name string
		line line
		want string
	}{
		{"in order", line{{job.Public, 1, 1}, {job.Public, 2, 5}, {job.Paid, 3, 4}, {job.Paid, 3.5, 4}, {job.Unpaid, 3, 4.5},
			{job.Paid, 5, 6}}, ""},
		{"in one step, and at one time", line{{job.Public, 1, 5}, {job.Public, 1, 4}, {job.Public, 2, 5}}, ""},
		{"out of turn", line{{job.Public, 1, 5}, {job.Public, 2, 3}, {job.Public, 3, 6}}, "S8"},
		{"a worse tier first", line{{job.Paid, 1, 5}, {job.Public, 0.5, 3}, {job.Public, 3, 6}}, "S7"},
		{"the middle one first", line{{job.Paid, 1, 5}, {job.Paid, 2, 9}, {job.Unpaid, 0.5, 8}, {job.Public, 6, 9.5}}, "S7"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := CheckOrder(tc.line.evidence())
			if got := broken(Report{Violations: v}); got != tc.want {
				t.Errorf("%q: %v", got, v)
			}
		})
	}
}

// CheckOrder leaves out jobs that were delayed or cancelled, and compares no jobs of different partitions.
func TestCheckOrderKnowsItsLimits(t *testing.T) {
	l := line{{job.Public, 1, 5}, {job.Public, 2, 3}}
	for name, change := range map[string]func(*Evidence){
		"delayed":   func(e *Evidence) { e.Ops[0].Delay = time.Second },
		"cancelled": func(e *Evidence) { e.Outcomes[0].Outcome = job.Cancelled },
		"elsewhere": func(e *Evidence) {
			other := id(0)[:34] + "01"
			e.Ops[0].ID, e.Outcomes[0].ID = other, other
		},
	} {
		e := l.evidence()
		change(&e)
		if v := CheckOrder(e); len(v) > 0 {
			t.Errorf("%s: %v", name, v)
		}
	}
}
