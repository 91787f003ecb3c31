package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/ledger"
	"github.com/tierq/tierq/internal/schedule"
)

// With Options.Schedules every process with recovery has the server's own Firer, over two schedules of every second
// that end after some time, and a third one that replaces. SQL decides which process fires. Rule S28: each occurrence
// becomes one job, which has an outcome, or is missed; a job that is cancelled has a successor.

// scheduleSpan is how long the schedules go on.
const scheduleSpan = 12 * time.Second

// times are the schedules in SQL, and which of their occurrences were fired or missed.
type times struct {
	list   []job.Schedule
	became map[string]map[time.Time][]string // by schedule and occurrence: ids of jobs, and reasons
}

func newTimes(began time.Time) *times {
	t := &times{became: map[string]map[time.Time][]string{}}
	for i, overlap := range []job.Overlap{job.OverlapAllow, job.OverlapSkip, job.OverlapReplace} {
		name := string(overlap)
		text, _ := json.Marshal(payload{job.ID(name)})
		// Each job of a run has a slice of its own.
		first := began.Truncate(time.Second).Add(time.Second + time.Duration(i)*time.Second/3).UTC()
		t.list = append(t.list, job.Schedule{
			Name: name, Every: time.Second, Start: first, End: began.Add(scheduleSpan), Overlap: overlap,
			CatchUp: job.CatchUpLast,
			Job:     job.ScheduledJob{Tier: job.Paid, Type: jobType, Payload: text, MaxRetries: -1},
			Version: 1, Incarnation: "i", Next: first, Due: first,
		})
		t.became[name] = map[time.Time][]string{}
	}
	return t
}

// note writes which occurrences of a run were fired or missed.
func (t *times) note(name string, r *job.ScheduleRun, what string) {
	for at := r.Occurrence; !at.After(r.Through); at = at.Add(time.Second) {
		t.became[name][at] = append(t.became[name][at], what)
	}
}

// fire is the transaction that fires.
func (w *World) fire(f *job.Firing) job.Fired {
	t := w.sql.times
	for i := range t.list {
		s := &t.list[i]
		if s.Name != f.Name {
			continue
		}
		if !s.Next.Equal(f.Occurrence) && !w.FiresAgain || s.Next.IsZero() {
			return job.FiredLost
		}
		s.Next, s.Due, s.Last = f.Next, f.Due, f.Last
		for j := range f.Missed {
			t.note(f.Name, &f.Missed[j], string(f.Missed[j].Reason))
		}
		if f.Row == nil {
			return job.FiredNone
		}
		f.Run.Through = f.Run.Occurrence
		if f.Living >= 0 && t.lives(w, f.Name) > f.Living {
			t.note(f.Name, &f.Run, string(job.MissedOverlap))
			return job.FiredSkip
		}
		t.note(f.Name, &f.Run, string(f.Row.ID))
		w.replace(f)
		if !w.FiresNothing {
			w.sql.rows[f.Row.ID] = &row{JournalRow: *f.Row, recorded: time.Now()}
		}
		w.sql.written[f.Row.ID] = time.Now()
		w.report.Faults["fired"]++
		return job.FiredJob
	}
	return job.FiredLost
}

// replace is the part of the transaction that marks the jobs that wait.
func (w *World) replace(f *job.Firing) {
	if f.Replaced = nil; !f.Replaces {
		return
	}
	for _, r := range w.sql.rows {
		if r.Schedule == f.Name && !w.sql.over(r) && !r.CancelRequested && !slices.Contains(f.Running, r.ID) {
			f.Replaced = append(f.Replaced, r.ID)
			r.CancelRequested, r.Submitting, r.Incarnation = true, false, ""
			if r.ArrivedAt.Before(f.Row.ArrivedAt) {
				f.Row.ArrivedAt = r.ArrivedAt
			}
		}
	}
	slices.Sort(f.Replaced)
}

// lives counts the jobs of a schedule that have a row.
func (t *times) lives(w *World, name string) (n int) {
	for _, r := range w.sql.rows {
		if r.Schedule == name && !w.sql.over(r) {
			n++
		}
	}
	return n
}

// table is the schedules in SQL, as one process sees them.
type table struct{ p *process }

func (t table) DueSchedules(ctx context.Context, by time.Time, _ int) (due []job.Schedule, next time.Time, err error) {
	due, err = ask(ctx, t.p, "sql due", "", func(d *database) (due []job.Schedule, _ error) {
		for _, s := range d.times.list {
			switch {
			case s.Due.IsZero():
			case !s.Due.After(by):
				due = append(due, s)
			case next.IsZero() || s.Due.Before(next):
				next = s.Due
			}
		}
		return due, nil
	})
	return due, next, err
}

func (t table) FireSchedule(ctx context.Context, f *job.Firing) (job.Fired, error) {
	return ask(ctx, t.p, "sql fire", f.Name+" "+f.Occurrence.Format(time.TimeOnly),
		func(*database) (job.Fired, error) { return t.p.world.fire(f), nil })
}

func (t table) LivingRuns(ctx context.Context, name string) ([]job.ID, error) {
	return ask(ctx, t.p, "sql living runs", name, func(d *database) (ids []job.ID, _ error) {
		for _, r := range d.rows {
			if r.Schedule == name && !d.over(r) {
				ids = append(ids, r.ID)
			}
		}
		slices.Sort(ids)
		return ids, nil
	})
}

// The Firer's interface demands these methods; the simulation has no keys, no old runs and no clock that jumps.

func (table) TrimRuns(context.Context, string) error                               { return nil }
func (table) Schedule(context.Context, string) (job.Schedule, error)               { return job.Schedule{}, nil }
func (table) StoreSchedule(context.Context, job.Schedule, time.Time) error         { return nil }
func (table) Schedules(context.Context) ([]job.Schedule, error)                    { return nil, nil }
func (table) ScheduleOwners(context.Context) ([]string, error)                     { return nil, nil }
func (table) SchedulesOf(context.Context, string) (all []job.Schedule, err error)  { return nil, nil }
func (table) ScheduleRuns(context.Context, string, int) ([]job.ScheduleRun, error) { return nil, nil }

// newFirer makes the Firer of a process.
func newFirer(p *process, queues *job.QueueBook, l *ledger.Ledger, log *slog.Logger) *schedule.Firer {
	return schedule.NewFirer(table{p}, schedule.Options{
		Plans: p.plans, Queues: queues, Pauses: p.pauses, Jobs: l, Partitions: p.world.plan.partitions,
		Now: p.queue.View().Now, Open: func(int) bool { return true }, Log: log,
		Reserve: func(ctx context.Context, r *job.JournalRow, quota int) error {
			_, err := p.reserver.Reserve(ctx, []job.Reservation{{
				ID: r.ID, Tier: r.Tier, Owner: r.Owner, Generation: 1, Options: r.Options, Bytes: len(r.Payload), Quota: quota,
			}})
			return err
		},
		Free:     func(ctx context.Context, id job.ID) { p.reserver.Free(ctx, []job.ID{id}) },
		Occurred: func(job.MissedReason, int) {},
		Key:      func(context.Context, string) (job.Key, error) { return job.Key{}, nil },
	})
}

// unfired names the schedules that have not come to their ends.
func (w *World) unfired() (left []string) {
	if w.sql.times == nil {
		return nil
	}
	for _, s := range w.sql.times.list {
		if !s.Next.IsZero() {
			left = append(left, "the schedule "+s.Name)
		}
	}
	return left
}

// onTime is rule S28.
func (w *World) onTime() {
	if w.sql.times == nil {
		return
	}
	for _, s := range w.sql.times.list {
		jobs, left := 0, job.ID("") // left is a job that was cancelled and has no successor yet
		for at := s.Start; !at.After(s.End); at = at.Add(time.Second) {
			became := w.sql.times.became[s.Name][at]
			if len(became) != 1 {
				w.fail("S28", "%s at %s became %v", s.Name, at.Format(time.TimeOnly), became)
				return
			}
			if id, err := job.ParseID(became[0]); err == nil {
				o, ended := w.sql.latest(id)
				if !ended {
					w.fail("S28", "%s at %s: its job %s has no outcome", s.Name, at.Format(time.TimeOnly), id)
				}
				left = id
				if o.Status == job.Cancelled {
					w.report.Faults["replaced"]++
				} else {
					left = ""
				}
				jobs++
			}
		}
		if left != "" && s.Overlap == job.OverlapReplace {
			w.fail("S28", "%s: its last job %s was cancelled, and has no successor", s.Name, left)
		}
		w.report.Faults[fmt.Sprintf("occurrences of %s", s.Name)] += jobs
	}
}
