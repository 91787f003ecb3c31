package schedule

import (
	"time"

	"github.com/tierq/tierq/internal/job"
)

// onTime is how late an occurrence of a schedule without catch-up may be fired.
const onTime = time.Minute

// mostCaughtUp is how many occurrences a schedule with job.CatchUpAll catches up.
const mostCaughtUp = 100

// verdict says what happens to a schedule that is due.
type verdict struct {
	missed  int       // so many occurrences are missed, from the schedule's Next on; -1 = more than are counted; 0 = none
	through time.Time // the last of them
	fire    time.Time // the occurrence that becomes a job now; zero = none
	next    time.Time // the occurrence after these
}

// decide says what happens to a schedule whose time has come, by Redis' clock. While an occurrence is the latest that
// has come, it may be fired; the fate of earlier ones depends on the schedule's catch-up.
func decide(s *job.Schedule, t *Timetable, now time.Time) verdict {
	by := now.Add(-t.offset)
	keep := 1
	if s.CatchUp == job.CatchUpAll {
		keep = mostCaughtUp
	}
	latest, before := t.Overdue(s.Next, by, keep)
	switch {
	case len(latest) == 0 && s.Next.After(by): // it is not due
		return verdict{next: s.Next}
	case len(latest) == 0: // Next is of another timetable
		return verdict{next: t.Next(by)}
	}
	v := verdict{missed: before, fire: latest[0], next: t.Next(latest[0])}
	if before != 0 {
		v.through = previous(t, s.Next, latest[0])
	}
	if s.CatchUp == job.CatchUpNone && by.Sub(v.fire) > onTime {
		if v.missed >= 0 {
			v.missed++
		}
		v.through, v.fire = v.fire, time.Time{}
	}
	return v
}

// previous returns the last occurrence before one of them, and at least the first.
func previous(t *Timetable, first, occurrence time.Time) time.Time {
	latest, _ := t.Overdue(first, occurrence.Add(-1), 1)
	if len(latest) == 0 {
		return first
	}
	return latest[0]
}
