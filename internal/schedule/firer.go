package schedule

import (
	"context"
	"errors"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// Table is what a Firer needs of SQL.
type Table interface {
	// DueSchedules returns the schedules that are due by a time, and when the next one after these is due.
	DueSchedules(ctx context.Context, by time.Time, limit int) ([]job.Schedule, time.Time, error)
	// FireSchedule moves a schedule to its next occurrence, for one of all callers.
	FireSchedule(ctx context.Context, f *job.Firing) (job.Fired, error)
	living
	TrimRuns(ctx context.Context, name string) error
	Schedule(ctx context.Context, name string) (job.Schedule, error)
	StoreSchedule(ctx context.Context, s job.Schedule, next time.Time) error
	// ScheduleOwners returns the owners of schedules that are not paused, and SchedulesOf the schedules of one.
	ScheduleOwners(ctx context.Context) ([]string, error)
	SchedulesOf(ctx context.Context, owner string) ([]job.Schedule, error)
	// Schedules returns all schedules, and ScheduleRuns the last runs of one.
	Schedules(ctx context.Context) ([]job.Schedule, error)
	ScheduleRuns(ctx context.Context, name string, limit int) ([]job.ScheduleRun, error)
}

const (
	passBound  = time.Minute     // of one pass over the due schedules
	callBound  = 5 * time.Second // of the calls for one occurrence
	sweepEvery = time.Minute
)

// firePace is how often the Firer asks SQL which schedules are due. The Firer asks earlier if it knows of a schedule
// that will be due.
var firePace = loop.Pace{Floor: time.Second, Ceiling: 5 * time.Second}

// Firer makes the jobs of schedules that are due. Any number of processes may have one: SQL lets one of them make each
// job.
type Firer struct {
	*loop.Loop
	Options
	table   Table
	wait    time.Duration
	refused map[string]refused // by schedule: why its occurrence was not fired
	fired   map[string]bool    // schedules to trim
	swept   time.Time
	clock   reading // the last one
}

// refused is the last refusal of an occurrence.
type refused struct {
	occurrence time.Time
	refusal
}

// NewFirer makes a Firer.
func NewFirer(t Table, o Options) *Firer {
	f := &Firer{Options: o, table: t, wait: firePace.Floor, refused: map[string]refused{}, fired: map[string]bool{}}
	f.Loop = loop.New(f.runOnce)
	return f
}

func (f *Firer) runOnce(ctx context.Context) time.Duration {
	call, cancel := context.WithTimeout(ctx, passBound)
	defer cancel()
	if f.wentBack() {
		f.swept = time.Time{}
	}
	next, err := f.pass(call)
	if err == nil && time.Since(f.swept) >= sweepEvery {
		err = f.sweep(call)
	}
	f.wait = firePace.Next(f.wait, err != nil)
	if err != nil {
		if ctx.Err() == nil {
			f.Log.Warn("schedules could not be fired", "err", err, "next_in", f.wait)
		}
		return f.wait
	}
	if next.IsZero() {
		return f.wait
	}
	return min(f.wait, max(next.Sub(f.Now()), time.Millisecond))
}

// pass fires the due schedules, and returns when the next schedule is due; zero = SQL has no such schedule.
func (f *Firer) pass(ctx context.Context) (next time.Time, err error) {
	due, next, err := f.table.DueSchedules(ctx, f.Now(), job.MaxSchedules)
	if err != nil {
		return next, err
	}
	were := f.refused
	f.refused = map[string]refused{}
	for i := range due {
		s := &due[i]
		if r, is := were[s.Name]; is {
			f.refused[s.Name] = r
		}
		if err := f.fireAll(ctx, s); err != nil {
			f.Log.Warn("a schedule could not be fired", "schedule", s.Name, "err", err)
			if ctx.Err() != nil || errors.Is(err, job.ErrUnavailable) || errors.Is(err, job.ErrAmbiguous) {
				return next, err
			}
			continue
		}
		if s.Due.After(f.Now()) && (next.IsZero() || s.Due.Before(next)) {
			next = s.Due
		}
	}
	return next, nil
}

// fireAll fires the due occurrences of a schedule.
func (f *Firer) fireAll(ctx context.Context, s *job.Schedule) error {
	t, err := New(s)
	if err != nil {
		return err
	}
	for range mostCaughtUp {
		if ctx.Err() != nil || s.Due.IsZero() || s.Due.After(f.Now()) {
			return ctx.Err()
		}
		call, cancel := context.WithTimeout(ctx, callBound)
		goesOn, err := f.fire(call, s, t)
		cancel()
		if err != nil || !goesOn {
			return err
		}
	}
	return nil
}

// fire fires the occurrence of a schedule that is due, or notes why it does not. goesOn says that s is at the
// occurrence that SQL has now.
func (f *Firer) fire(ctx context.Context, s *job.Schedule, t *Timetable) (goesOn bool, err error) {
	now := f.Now()
	v := decide(s, t, now)
	change := job.Firing{
		Name: s.Name, Version: s.Version, Occurrence: s.Next, Last: s.Last, Living: s.Overlap.Living(),
		Next: v.next, Due: t.Due(v.next),
	}
	if !s.Last.IsZero() && t.Next(s.Last).Equal(s.Next) { // else the schedule was paused or changed between the two
		change.Before = s.Last
	}
	if v.missed != 0 {
		change.Missed, change.Last = []job.ScheduleRun{f.missed(s, &v)}, v.through
	}
	read := time.Now()
	if !v.fire.IsZero() {
		r, no := f.row(ctx, s, asked{at: v.fire, now: now})
		switch {
		case no != nil && errors.Is(no.err, errKeyDead):
			return false, f.pause(ctx, s.Name, s.Version)
		case no != nil:
			f.refused[s.Name] = refused{v.fire, *no}
			if v.missed == 0 {
				return false, nil
			}
			change.Next, change.Due = v.fire, t.Due(v.fire) // it is tried again
		default:
			change.Row, change.Last = &r, v.fire
			change.Run = job.ScheduleRun{Occurrence: v.fire, JobID: r.ID}
		}
	}
	if change.Row != nil {
		if err := f.running(ctx, f.table, s, &change); err != nil {
			return false, err
		}
	}
	fired, err := f.table.FireSchedule(ctx, &change)
	if err != nil || fired == job.FiredLost {
		return false, err
	}
	s.Next, s.Due, s.Last = change.Next, change.Due, change.Last
	f.fired[s.Name] = true
	for i := range change.Missed {
		f.Occurred(change.Missed[i].Reason, max(change.Missed[i].Missed, 1))
	}
	switch fired {
	case job.FiredSkip: // this process has decided the occurrence, so no other one makes its job
		f.Free(ctx, change.Row.ID)
		f.Occurred(job.MissedOverlap, 1)
	case job.FiredJob:
		f.Occurred("", 1)
		f.give(ctx, &change, read)
	}
	return change.Row != nil || v.fire.IsZero(), nil
}

// missed returns the note of the occurrences that a verdict misses.
func (f *Firer) missed(s *job.Schedule, v *verdict) job.ScheduleRun {
	run := job.ScheduleRun{
		Occurrence: s.Next, Through: v.through, Missed: max(v.missed, 0), Reason: job.MissedDown,
		Detail: "no server fired it in time",
	}
	if r, is := f.refused[s.Name]; is && !r.occurrence.Before(s.Next) && !r.occurrence.After(v.through) {
		run.Reason, run.Detail = r.reason, words(r.err)
	}
	return run
}

// words returns what a note says of an error.
func words(err error) string {
	const most = 400
	text := []rune(err.Error())
	return string(text[:min(len(text), most)])
}

// pause pauses a schedule of a version whose owner's key is dead.
func (f *Firer) pause(ctx context.Context, name string, version int64) error {
	s, err := f.table.Schedule(ctx, name)
	if err != nil || s.Version != version {
		return ignore(err, job.ErrNoSchedule)
	}
	was := s.Next
	why := "the API key " + s.Owner + " of its owner is revoked or has expired"
	s.Paused = &job.SchedulePause{Since: f.Now(), Reason: why}
	s.Version, s.Due = s.Version+1, time.Time{}
	err = f.table.StoreSchedule(ctx, s, was)
	if err == nil {
		f.Log.Warn("a schedule is paused: the API key of its owner is revoked or has expired", "schedule", name,
			"key_id", s.Owner)
	}
	return ignore(err, job.ErrChanged)
}

func ignore(err, known error) error {
	if errors.Is(err, known) {
		return nil
	}
	return err
}

// sweep pauses the schedules of dead keys, puts back those that are ahead, and forgets old runs.
func (f *Firer) sweep(ctx context.Context) error {
	owners, err := f.table.ScheduleOwners(ctx)
	if err != nil {
		return err
	}
	for _, owner := range owners {
		_, err := f.owner(ctx, &job.Schedule{Owner: owner})
		if err == nil {
			continue
		}
		if !errors.Is(err, errKeyDead) {
			return err
		}
		of, err := f.table.SchedulesOf(ctx, owner)
		if err != nil {
			return err
		}
		for _, s := range of {
			if err := f.pause(ctx, s.Name, s.Version); err != nil {
				return err
			}
		}
	}
	if err := f.putAllBack(ctx); err != nil {
		return err
	}
	for name := range f.fired {
		if err := f.table.TrimRuns(ctx, name); err != nil {
			return err
		}
		delete(f.fired, name)
	}
	f.swept = time.Now()
	return nil
}
