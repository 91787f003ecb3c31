package schedule

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// While Redis' clock is ahead, occurrences are fired or missed before their time, and the schedule's next one lies
// further ahead than it would. When the clock is right again, the Firer gives such a schedule back the occurrences that
// did not become jobs.

const (
	// clockSlack is how much the readings that two processes have of Redis' clock may differ.
	clockSlack = time.Second
	// early is how long before its time, by SQL's clock, an occurrence must have been fired to count as fired by a clock
	// that was ahead. The clocks of hosts may be a minute off.
	early = 2 * time.Minute
	// mostRuns is how many runs are read of a schedule: more than are remembered.
	mostRuns = 4 * job.MaxScheduleRuns
)

// isAhead says whether the next occurrence of a schedule lies further ahead than it may by Redis' clock.
func isAhead(s *job.Schedule, t *Timetable, now time.Time) bool {
	next := t.Next(now.Add(clockSlack))
	return !next.IsZero() && (s.Next.IsZero() || s.Next.After(next))
}

// putBack says what a schedule that is ahead was before Redis' clock was: its next occurrence that has not become a
// job, the last one before, and what is left of a note of missed occurrences that goes beyond now. next is that of the
// schedule if nothing is to change. A clock that is behind puts nothing back: by SQL's clock no occurrence was early.
func putBack(s *job.Schedule, t *Timetable, runs []job.ScheduleRun, now time.Time) (next, last time.Time,
	left []job.ScheduleRun) {
	by := now.Add(-t.offset)
	fired := map[time.Time]bool{}
	onTime := true
	for _, r := range runs {
		switch {
		case r.Request != "":
			continue
		case r.JobID != "":
			fired[r.Occurrence.UTC()] = true
			if t.Due(r.Occurrence).After(r.At.Add(early)) {
				onTime = onTime && !last.IsZero()
				continue
			}
			r.Through = r.Occurrence
		case r.Occurrence.After(by):
			continue
		case r.Through.After(by):
			until, before := t.Overdue(r.Occurrence, by, 1)
			if len(until) == 0 { // it is of another timetable
				continue
			}
			r.Through, r.Missed = until[0], before+1
			left = append(left, r)
		}
		if r.Through.After(last) {
			last = r.Through
		}
	}
	since := s.ChangedAt
	switch {
	case last.IsZero() && !onTime: // all that is remembered was fired early
		since = now
	case last.After(since):
		since = last
	}
	for next = t.Next(since); fired[next]; {
		next = t.Next(next)
	}
	if next.IsZero() || !s.Next.IsZero() && !next.Before(s.Next) {
		return s.Next, s.Last, nil
	}
	return next, last, left
}

// putAllBack gives the schedules that are ahead their occurrences back.
func (f *Firer) putAllBack(ctx context.Context) error {
	all, err := f.table.Schedules(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		s := &all[i]
		t, err := New(s)
		if err != nil || !isAhead(s, t, f.Now()) {
			continue // pass says what is wrong with a schedule
		}
		runs, err := f.table.ScheduleRuns(ctx, s.Name, mostRuns)
		if err != nil {
			return err
		}
		now := f.Now()
		next, last, left := putBack(s, t, runs, now)
		if next.Equal(s.Next) {
			continue
		}
		change := job.Firing{
			Name: s.Name, Version: s.Version, Occurrence: s.Next, Next: next, Last: last, Missed: left,
			Unmiss: now.Add(-t.offset),
		}
		if s.Paused == nil {
			change.Due = t.Due(next)
		}
		fired, err := f.table.FireSchedule(ctx, &change)
		if err != nil {
			return err
		}
		if fired != job.FiredLost {
			f.Log.Warn("Redis' clock was ahead: a schedule goes on with the first occurrence that has not become a job",
				"schedule", s.Name, "next", next, "instead_of", s.Next)
		}
	}
	return nil
}

// reading is a time of Redis, and when this process had it.
type reading struct{ redis, at time.Time }

// wentBack says whether Redis' clock was set back since the call before.
func (f *Firer) wentBack() bool {
	is, was := reading{f.Now(), time.Now()}, f.clock
	f.clock = is
	return !was.at.IsZero() && is.redis.Sub(was.redis) < is.at.Sub(was.at)-clockSlack
}
