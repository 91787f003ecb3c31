package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	// jitter is by how much two clocks of one machine may differ; all of them give milliseconds.
	jitter = 20 * time.Millisecond
	// owes is how long after a loss of Redis the servers' audit may find jobs that SQL has and Redis does not,
	// without a defect.
	owes = 2 * time.Minute
	// grace is how long a server that is asked to stop waits for its running jobs. Two seconds more are allowed; the
	// rest of stopSlack is for a busy machine.
	grace     = time.Second
	stopSlack = 8 * time.Second
)

// due is the part of S15 that no store shows: a delayed job does not begin before its time, not even if it was
// restored meanwhile.
func due(e Evidence) (all []Violation) {
	first := map[string]*Op{}
	for i := range e.Ops {
		op := &e.Ops[i]
		if before, ok := first[op.Key]; op.Kind == "submit" && op.Delay > 0 && (!ok || op.Sent.Before(before.Sent)) {
			first[op.Key] = op
		}
	}
	for i := range e.Runs {
		r := &e.Runs[i]
		op, ok := first[r.Key]
		if !ok || r.Generation != 1 {
			continue
		}
		if at := op.Sent.Add(op.Delay - jitter); r.Began.Before(at) {
			all = append(all, Violation{"S15", string(r.ID),
				fmt.Sprintf("attempt %d began at %s, and it was due %s after %s", r.Attempt, clock(r.Began), op.Delay,
					clock(op.Sent))})
		}
	}
	return all
}

// looked is S6, S8, S9, S10 and S11 while Redis has jobs. A look proves nothing if Redis lost its memory
// meanwhile. After a loss, restored jobs may exceed a limit.
func looked(e Evidence, w Witness) (all []Violation) {
	for i := range w.Looks {
		l := &w.Looks[i]
		if e.forgets(l.From, l.To) {
			continue
		}
		at := fmt.Sprintf(", in partition %d at %s", l.Partition, clock(l.From))
		// Check assigns each finding to its invariant.
		for _, v := range Check(Evidence{Redis: l.Wrong, Quiet: l.From, Rested: l.To}).Violations {
			v.What += at
			all = append(all, v)
		}
		for _, over := range l.Over {
			if !e.forgets(time.Time{}, l.To) {
				all = append(all, Violation{"S9", "redis", over + at})
			}
		}
	}
	return all
}

// audited demands that the servers' own audit finds nothing: Redis agrees with itself at any time, and with SQL
// except for some time after it forgot.
func audited(e Evidence, w Witness) (all []Violation) {
	ofSQL := []string{"lost", "overtaken"}
	for i := range w.Passes {
		p := &w.Passes[i]
		for _, f := range p.Found {
			if slices.Contains(ofSQL, f.Kind) && e.forgets(p.From.Add(-owes), p.To) || f.Kind == "place" && e.hurt(p.To) {
				continue
			}
			invariant := map[string]string{"counter": "S9", "ttl": "S10", "score": "S8", "retries": "S4", "times": "S15",
				"lost": "S1", "batch": "S30"}[f.Kind]
			if invariant == "" {
				invariant = "S6"
			}
			what := fmt.Sprintf("the servers' audit of %s: %d %s %s, such as %s", clock(p.From), f.Count, f.Result, f.Kind,
				f.Detail)
			all = append(all, Violation{invariant, "audit", what})
		}
	}
	return all
}

// hurt says whether a fault began before a time. A process that dies between a transaction and the script behind it
// leaves a reserved place to the audit.
func (e *Evidence) hurt(by time.Time) bool {
	return slices.ContainsFunc(e.Faults, func(f Fault) bool { return f.From.Before(by) })
}

// exits is L7: a server that is asked to stop exits within its grace. If one of its stores was away meanwhile, it
// may take longer.
func exits(e Evidence, w Witness) (all []Violation) {
	for _, s := range w.Stops {
		away := slices.ContainsFunc(e.Faults, func(f Fault) bool {
			return (f.Target == "" || f.Target == "redis" || f.Target == "mysql") &&
				f.overlaps(s.At.Add(-time.Second), s.At.Add(s.Took))
		})
		if s.Took > grace+stopSlack && !away {
			all = append(all, Violation{"L7", s.PID,
				fmt.Sprintf("it was asked to stop at %s and ended with %d after %s", clock(s.At), s.Code, s.Took)})
		}
	}
	return all
}

// Repairs returns how many findings all passes repaired.
func (w *Witness) Repairs() (n int) {
	for i := range w.Passes {
		for _, f := range w.Passes[i].Found {
			if f.Result != job.Reported {
				n += f.Count
			}
		}
	}
	return n
}
