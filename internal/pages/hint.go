package pages

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tierq/tierq/web"
)

// starving is how long a job must wait before the dashboard explains why.
const starving = time.Minute

// hint returns the most important fact for an operator; "" = none. The gate is shown elsewhere.
func hint(s *web.Snapshot, oldCount bool) string {
	var waiting int64
	for i := range s.Tiers {
		waiting += s.Tiers[i].Depth
	}
	stuck := 0
	for _, w := range s.Workers {
		stuck += w.Stuck
	}
	switch {
	case len(s.Workers) == 0 && waiting > 0:
		return fmt.Sprintf("%s, and no process runs jobs.", jobsWait(waiting))
	case oldCount:
		return "SQL does not answer: jobs that end wait in the outbox, and the count of dead letters is out of date."
	case stuck == 1:
		return "1 slot is held by a handler that does not return."
	case stuck > 1:
		return fmt.Sprintf("%d slots are held by handlers that do not return.", stuck)
	}
	if text := refusing(s); text != "" {
		return text
	}
	return overtaken(s)
}

func jobsWait(n int64) string {
	if n == 1 {
		return "1 job waits"
	}
	return strconv.FormatInt(n, 10) + " jobs wait"
}

// refusing names the best tier whose share of the capacity is used up.
func refusing(s *web.Snapshot) string {
	for i := range s.Tiers {
		if p := s.Tiers[i].Plan; p != nil && s.Capacity.Limit > 0 && 100*s.Capacity.Used >= int64(p.Share)*s.Capacity.Limit {
			return fmt.Sprintf("%s is refused: %d %% of the capacity is used, and its share ends at %d %%.", s.Tiers[i].Tier,
				s.Capacity.Percent(), p.Share)
		}
	}
	return ""
}

// overtaken explains why the tier that has waited longest waits, if all slots are busy and jobs of better tiers
// keep arriving.
func overtaken(s *web.Snapshot) string {
	if s.Slots.Running < s.Slots.Total {
		return ""
	}
	var better *web.Lane
	text, longest := "", starving.Seconds()
	for i := range s.Tiers {
		l := &s.Tiers[i]
		if better != nil && l.OldestAgeSeconds >= longest {
			longest = l.OldestAgeSeconds
			waited := time.Duration(longest) * time.Second
			text = fmt.Sprintf("%s has waited for %s while %s arrives at %s / s: tiers are strict.", l.Tier, minutes(waited),
				better.Tier, perSecond(better.SubmittedPerSecond))
		}
		if l.SubmittedPerSecond > 0 && (better == nil || l.SubmittedPerSecond > better.SubmittedPerSecond) {
			better = l
		}
	}
	return text
}

// minutes formats a long wait: "4 min 12 s", "3 h 5 min".
func minutes(d time.Duration) string {
	if d < time.Hour {
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
}

func perSecond(rate float64) string {
	if rate < 10 {
		return strconv.FormatFloat(rate, 'f', 1, 64)
	}
	return strconv.FormatFloat(rate, 'f', 0, 64)
}
