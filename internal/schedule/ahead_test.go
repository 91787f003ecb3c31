package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// jumps gives a test a world with schedules whose clock is Redis', right but for the test's steps, and a firer.
func jumps(t *testing.T, test func(t *testing.T, w *world, f *Firer, add func(s job.Schedule))) {
	t.Helper()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := &world{Archive: a, now: time.Now().UTC(), plans: &job.PlanBook{}, states: map[job.ID]job.Status{},
			counted: map[job.MissedReason]int{}}
		w.plans.Set(job.DefaultPlans())
		test(t, w, w.firer(), func(s job.Schedule) {
			t.Helper()
			s.Job.Tier, s.Job.Type, s.Job.MaxRetries, s.Overlap = job.Paid, "SIMULATION", -1, job.OverlapAllow
			if s.CatchUp == "" {
				s.CatchUp = job.CatchUpLast
			}
			if _, _, err := w.book().StoreSchedule(t.Context(), s, -1); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// look sets the clock, and lets a firer look as its loop does.
func (w *world) look(t *testing.T, f *Firer, now time.Time) {
	t.Helper()
	w.now = now
	f.runOnce(t.Context())
}

// Redis' clock is an hour ahead for a while. When it is right again each schedule goes on with its next occurrence, an
// occurrence that became a job before its time does not become another one, and no note says that one was missed.
func TestFirer_ClockAhead(t *testing.T) {
	t.Attr("proves", "F34")
	t.Parallel()
	jumps(t, func(t *testing.T, w *world, f *Firer, add func(s job.Schedule)) {
		began := w.now.Truncate(time.Second)
		start := began.Add(time.Second)
		add(job.Schedule{Name: "minutely", Every: time.Minute, Start: start})
		add(job.Schedule{Name: "all", Every: time.Minute, Start: start, CatchUp: job.CatchUpAll})
		add(job.Schedule{Name: "hourly", Every: time.Hour, Start: start.Add(-time.Minute)})
		add(job.Schedule{Name: "ends", Every: time.Minute, Start: start, End: began.Add(10 * time.Minute)})
		add(job.Schedule{Name: "paused", Every: time.Minute, Start: start})
		first := w.next(t, "minutely")
		w.look(t, f, first)
		if _, _, err := w.book().PauseSchedule(t.Context(), "paused", job.SchedulePause{}); err != nil {
			t.Fatal(err)
		}
		w.look(t, f, first.Add(time.Hour))
		add(job.Schedule{Name: "stored", Every: time.Minute, Start: began}) // while the clock is ahead
		w.look(t, f, first.Add(time.Hour+16*time.Second))
		if _, _, err := w.book().ResumeSchedule(t.Context(), "paused"); err != nil {
			t.Fatal(err)
		}
		right := first.Add(16 * time.Second)
		w.look(t, f, right)
		for _, name := range []string{"minutely", "ends", "paused", "stored"} {
			if next := w.next(t, name); next.After(right.Add(time.Minute)) {
				t.Errorf("%s goes on at %s, %s from now", name, next, next.Sub(right))
			}
		}
		if next := w.next(t, "hourly"); next.After(right.Add(2 * time.Hour)) { // its next occurrence became a job early
			t.Errorf("hourly goes on at %s, %s from now", next, next.Sub(right))
		}
		for minute := 1; minute <= 62; minute++ {
			w.look(t, f, first.Add(time.Duration(minute)*time.Minute))
		}
		for name, want := range map[string]int{
			"minutely": 63, "all": 63, "paused": 63, "stored": 62, "ends": 10, "hourly": 1,
		} {
			jobs, missed := w.history(t, name)
			if missed != "" || jobs < want-1 || jobs > want {
				t.Errorf("%s: %d jobs, want %d; missed are %s", name, jobs, want, missed)
			}
		}
	})
}

// next returns the occurrence that comes next of a schedule.
func (w *world) next(t *testing.T, name string) time.Time {
	t.Helper()
	s, err := w.Schedule(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return s.Next
}

// history returns how many jobs a schedule has made, and which occurrences are noted as missed.
func (w *world) history(t *testing.T, name string) (jobs int, missed string) {
	t.Helper()
	runs, err := w.ScheduleRuns(t.Context(), name, mostRuns)
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	for _, r := range runs {
		if r.JobID != "" {
			jobs++
			continue
		}
		notes = append(notes, fmt.Sprintf("%s-%s %s*%d", r.Occurrence.Format(time.TimeOnly), r.Through.Format(time.TimeOnly),
			r.Reason, r.Missed))
	}
	return jobs, strings.Join(notes, ", ")
}

// What SQL remembers decides what is put back. The minutes count from noon, when SQL's clock and Redis' are the same.
func TestPutBack(t *testing.T) {
	t.Parallel()
	minute := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
	fired := func(n, at int) job.ScheduleRun {
		return job.ScheduleRun{Occurrence: minute(n), Through: minute(n), JobID: "j", At: minute(at)}
	}
	missed := func(from, through, n int) job.ScheduleRun {
		return job.ScheduleRun{Occurrence: minute(from), Through: minute(through), Missed: n, Reason: job.MissedDown}
	}
	asked := fired(70, 0)
	asked.Request = "r"
	for name, c := range map[string]struct {
		next    int // the schedule's own; at noon the first that lies ahead is 1
		changed int
		runs    []job.ScheduleRun
		want    string // next, last and what is left of a note
	}{
		"ahead": {61, -90, []job.ScheduleRun{fired(60, 0), missed(1, 59, 59), fired(0, 0)}, "1 0"},
		"a note that began before": {61, -90, []job.ScheduleRun{fired(60, 0), missed(-2, 59, 62), fired(-3, -3)},
			"1 0 -2-0*3"},
		"every run is early":             {61, -90, []job.ScheduleRun{fired(60, 0)}, "1 -"},
		"the next ones are fired":        {61, -90, []job.ScheduleRun{fired(60, 0), fired(2, -30), fired(1, -30)}, "3 -"},
		"all that come next are fired":   {3, -90, []job.ScheduleRun{fired(2, -30), fired(1, -30), fired(0, 0)}, "3 -"},
		"no server ran since":            {61, -90, []job.ScheduleRun{fired(60, 0), fired(-9, -9)}, "-8 -9"},
		"stored by a clock ahead":        {61, 0, nil, "1 -"},
		"an operator's run":              {61, 0, []job.ScheduleRun{asked}, "1 -"},
		"the clock is behind":            {61, -90, []job.ScheduleRun{fired(60, 60), fired(59, 59)}, "61 -"},
		"stored before it went behind":   {61, 60, nil, "61 -"},
		"a host's clock is a minute off": {2, -90, []job.ScheduleRun{fired(1, 0)}, "2 -"},
	} {
		s := &job.Schedule{Name: "x", Every: time.Minute, Next: minute(c.next), ChangedAt: minute(c.changed)}
		at := func(when time.Time) string {
			if when.IsZero() {
				return "-"
			}
			return fmt.Sprint(int(when.Sub(noon).Minutes()))
		}
		next, last, left := putBack(s, timetable(t, s), c.runs, noon.Add(time.Second))
		got := at(next) + " " + at(last)
		for _, r := range left {
			got += fmt.Sprintf(" %s-%s*%d", at(r.Occurrence), at(r.Through), r.Missed)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
