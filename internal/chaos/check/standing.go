package check

import (
	"fmt"
	"time"
)

// PlanSeen is a plan that a server showed, and the plan that was last stored with 2xx.
type PlanSeen struct {
	At               time.Time
	Server           string
	Tier, Want, Seen string // Seen is "" if the server does not know the tier
}

// plansKept is S22: every server shows a plan that was changed or added, whatever was restarted meanwhile.
func plansKept(w Witness) (all []Violation) {
	for _, p := range w.Plans {
		if p.Seen != p.Want {
			all = append(all, Violation{"S22", p.Tier, fmt.Sprintf("at %s %s shows the plan %q, the last one put is %q",
				clock(p.At), p.Server, p.Seen, p.Want)})
		}
	}
	return all
}

// Limit is a limit of Redis' memory that stayed until the outcomes of before were in SQL.
type Limit struct {
	From, To time.Time
	Bound    time.Duration // how long that may take
	Left     string        // what the outbox still had after Bound; "" = nothing
}

// drainedUnderLimits is L8: while the limit stays, a full Redis hands over its outcomes to SQL and to the
// receivers of callbacks.
func drainedUnderLimits(w Witness) (all []Violation) {
	for _, l := range w.Limits {
		if l.Left != "" {
			what := fmt.Sprintf("%s after the limit of %s was set there is still %s", l.Bound, clock(l.From), l.Left)
			all = append(all, Violation{"L8", "redis", what})
		}
	}
	return all
}

// Start is a server that was killed during its first start on an empty database and then started again.
type Start struct {
	Killed time.Time
	Left   string // what the killed process left in the database
	Failed string // why the next start failed; "" = the server serves
}

// started is L9: after a kill at any moment of a first start, the next start serves.
func started(w Witness) (all []Violation) {
	for _, s := range w.Starts {
		if s.Failed != "" {
			what := fmt.Sprintf("killed at %s in its first start (%s), it does not start again: %s",
				clock(s.Killed), s.Left, s.Failed)
			all = append(all, Violation{"L9", "server", what})
		}
	}
	return all
}
