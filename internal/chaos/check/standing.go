package check

import (
	"fmt"
	"time"
)

// PlanSeen is a plan as a server showed it, beside the plan that was answered with 2xx last.
type PlanSeen struct {
	At               time.Time
	Server           string
	Tier, Want, Seen string // Seen is "" if the server does not know the tier
}

// plansKept is S22: a plan that was changed or added is the plan of every server, whatever was restarted meanwhile.
func plansKept(w Witness) (all []Violation) {
	for _, p := range w.Plans {
		if p.Seen != p.Want {
			all = append(all, Violation{"S22", p.Tier, fmt.Sprintf("at %s %s shows the plan %q, the last one put is %q",
				clock(p.At), p.Server, p.Seen, p.Want)})
		}
	}
	return all
}

// Limit is a limit of Redis' memory that stayed until everything that had ended before it was in SQL.
type Limit struct {
	From, To time.Time
	Bound    time.Duration // by when that had to be so
	Left     string        // the debts that were still open then; "" = none
}

// drainedUnderLimits is L8: a full Redis gives away what it owes to SQL and to the receivers of callbacks while the
// limit stays.
func drainedUnderLimits(w Witness) (all []Violation) {
	for _, l := range w.Limits {
		if l.Left != "" {
			what := fmt.Sprintf("%s after the limit of %s was set there is still %s", l.Bound, clock(l.From), l.Left)
			all = append(all, Violation{"L8", "redis", what})
		}
	}
	return all
}

// Start is a server that was killed during the first start on an empty database, and started again.
type Start struct {
	Killed time.Time
	Left   string // what the killed process left in the database
	Failed string // why the next start failed; "" = the server serves
}

// started is L9: whatever moment of its first start a process was killed at, the next one serves.
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
