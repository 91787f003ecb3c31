package archive_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// noon is the occurrence that the tests' schedules begin at.
var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// aSchedule is a schedule of every minute, at noon.
func aSchedule(name string) job.Schedule {
	return job.Schedule{
		Name: name, Cron: "* * * * *", Timezone: "Europe/Berlin", Start: noon, End: noon.AddDate(1, 0, 0),
		Jitter: time.Second, Overlap: job.OverlapSkip, CatchUp: job.CatchUpLast, Owner: "owner of " + name, Version: 1,
		Incarnation: "f00d", Next: noon, Due: noon.Add(time.Second / 2),
		Job: job.ScheduledJob{
			Tier: job.Paid, Type: "REPORT", Payload: []byte(`{"a" : "<b>"}`), Queue: "films", Line: "acme", MaxRetries: -1,
			MaxRun: time.Minute, Callback: "https://example.org", ExpiresIn: time.Hour, Everybody: true,
		},
	}
}

func store(t *testing.T, a *archive.Archive, s job.Schedule) {
	t.Helper()
	if err := a.StoreSchedule(t.Context(), s, time.Time{}); err != nil {
		t.Fatal(err)
	}
}

var scheduleTimes = cmpopts.IgnoreFields(job.Schedule{}, "CreatedAt", "ChangedAt")

// A schedule is stored with all that it has, replaced by the version after its own only, and deleted with its runs.
func TestSchedules(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		ctx, s := t.Context(), aSchedule("a.schedule-1")
		if _, err := a.Schedule(ctx, s.Name); !errors.Is(err, job.ErrNoSchedule) {
			t.Errorf("%v", err)
		}
		store(t, a, s)
		store(t, a, aSchedule("A.schedule-1")) // another name
		got, err := a.Schedule(ctx, s.Name)
		if diff := cmp.Diff(s, got, scheduleTimes); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		for what, err := range map[string]error{
			"new again":          a.StoreSchedule(ctx, s, time.Time{}),
			"of another version": a.StoreSchedule(ctx, job.Schedule{Name: s.Name, Version: 3}, noon),
			"that has fired":     a.StoreSchedule(ctx, job.Schedule{Name: s.Name, Version: 2}, noon.Add(1e9)),
			"delete":             a.DeleteSchedule(ctx, s.Name, 2),
		} {
			if !errors.Is(err, job.ErrChanged) {
				t.Errorf("%s: %v", what, err)
			}
		}
		s.Version, s.Paused, s.Due = 2, &job.SchedulePause{Since: noon, By: "ada", Reason: "a fire"}, time.Time{}
		s.Job.Payload, s.Last = nil, noon.Add(-time.Minute)
		if err := a.StoreSchedule(ctx, s, noon); err != nil {
			t.Error(err)
		}
		all, err := a.Schedules(ctx)
		if diff := cmp.Diff(s, all[len(all)-1], scheduleTimes); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if due, next, err := a.DueSchedules(ctx, noon.Add(time.Second), 10); err != nil || len(due) != 1 ||
			due[0].Name != "A.schedule-1" || !next.IsZero() {
			t.Errorf("due are %v, then %s, %v", due, next, err)
		}
		if due, next, err := a.DueSchedules(ctx, noon, 10); err != nil || len(due) != 0 ||
			!next.Equal(noon.Add(time.Second/2)) {
			t.Errorf("due are %v, then %s, %v", due, next, err)
		}
		if err := a.DeleteSchedule(ctx, s.Name, 2); err != nil {
			t.Error(err)
		}
		if err := a.DeleteSchedule(ctx, s.Name, -1); !errors.Is(err, job.ErrNoSchedule) {
			t.Error(err)
		}
	})
}

// An owner has no more schedules than the bound.
func TestScheduleBound(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		for n := range job.MaxSchedulesOfOwner + 1 {
			s := aSchedule(fmt.Sprintf("n%d", n))
			s.Owner = "one"
			err := a.StoreSchedule(t.Context(), s, time.Time{})
			if is := errors.Is(err, job.ErrBadSchedule); is != (n == job.MaxSchedulesOfOwner) {
				t.Fatalf("schedule %d: %v", n, err)
			}
		}
		store(t, a, aSchedule("another"))
	})
}

// Schedules that are stored at the same time do not exceed the bound, and one of them has the last place.
func TestScheduleBound_AtOnce(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		of := func(name string) job.Schedule {
			s := aSchedule(name)
			s.Owner = "one"
			return s
		}
		for n := range job.MaxSchedulesOfOwner - 1 {
			store(t, a, of(fmt.Sprintf("n%d", n)))
		}
		names := []string{"a", "m", "x", "y"} // before, among and after the others
		for range 8 {
			var group sync.WaitGroup
			for _, name := range names {
				group.Go(func() {
					if err := a.StoreSchedule(t.Context(), of(name), time.Time{}); err != nil && !errors.Is(err, job.ErrBadSchedule) {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			group.Wait()
			if all, err := a.Schedules(t.Context()); err != nil || len(all) != job.MaxSchedulesOfOwner {
				t.Fatalf("there are %d, %v", len(all), err)
			}
			for _, name := range names {
				if err := a.DeleteSchedule(t.Context(), name, -1); err != nil && !errors.Is(err, job.ErrNoSchedule) {
					t.Fatal(err)
				}
			}
		}
	})
}

// A schedule that an edit by hand broke is reported where it is read alone, and holds up no other one.
func TestBrokenSchedule(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		store(t, s.Archive, aSchedule("broken"))
		store(t, s.Archive, aSchedule("whole"))
		s.Exec(t, "UPDATE schedules SET schedule = '{' WHERE name = 'broken'")
		due, _, err := s.DueSchedules(t.Context(), noon.Add(time.Hour), 10)
		if err != nil || len(due) != 1 || due[0].Name != "whole" {
			t.Errorf("due are %v, %v", due, err)
		}
		if all, err := s.Schedules(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("all are %v, %v", all, err)
		}
		if _, err := s.Schedule(t.Context(), "broken"); err == nil || errors.Is(err, job.ErrNoSchedule) {
			t.Errorf("alone: %v", err)
		}
	})
}

// firing moves a schedule from one minute to the next; n numbers the job.
func firing(name string, minute, n, living int) *job.Firing {
	at := noon.Add(time.Duration(minute) * time.Minute)
	return &job.Firing{
		Name: name, Version: 1, Occurrence: at, Before: at.Add(-time.Minute), Last: at, Living: living,
		Next: at.Add(time.Minute), Due: at.Add(time.Minute),
		Run: job.ScheduleRun{Occurrence: at, JobID: id(n)},
		Row: &job.JournalRow{Job: job.Job{ID: id(n), Generation: 1, Tier: job.Paid, Type: "REPORT", Payload: []byte("{}"),
			Options: job.Options{Schedule: name}}},
	}
}

// told returns the runs of a schedule as words, the latest first.
func told(t *testing.T, a *archive.Archive, name string) string {
	t.Helper()
	runs, err := a.ScheduleRuns(t.Context(), name, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range runs {
		word := fmt.Sprintf("%d:", int(r.Occurrence.Sub(noon).Minutes()))
		switch {
		case r.JobID == "":
			word = fmt.Sprintf("%s%s*%d-%d", word, r.Reason, r.Missed, int(r.Through.Sub(noon).Minutes()))
		case r.Living:
			word += "living"
		default:
			word += "ended"
		}
		all = append(all, word)
	}
	return strings.Join(all, " ")
}

// Many processes fire an occurrence at once: one of them makes its job, and the row of the job is there, owed to Redis.
func TestFireSchedule_Once(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		store(t, a, aSchedule("s"))
		const minutes, processes = 5, 4
		for minute := range minutes {
			var group sync.WaitGroup
			var mu sync.Mutex
			var words []string
			for n := range processes {
				group.Go(func() {
					fired, err := a.FireSchedule(t.Context(), firing("s", minute, minute*10+n, -1))
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					words = append(words, string(fired))
				})
			}
			group.Wait()
			slices.Sort(words)
			if want := []string{"FIRED", "LOST", "LOST", "LOST"}; !slices.Equal(words, want) {
				t.Errorf("minute %d: %v", minute, words)
			}
		}
		if got, want := told(t, a, "s"), "4:living 3:living 2:living 1:living 0:living"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		lost, err := a.Lost(t.Context(), "", 0, "", 100)
		if err != nil || len(lost) != minutes {
			t.Errorf("owed are %d, %v", len(lost), err)
		}
		s, err := a.Schedule(t.Context(), "s")
		if err != nil || !s.Next.Equal(noon.Add(minutes*time.Minute)) || !s.Last.Equal(noon.Add((minutes-1)*time.Minute)) {
			t.Errorf("%+v, %v", s, err)
		}
		stale := firing("s", minutes, 99, -1)
		stale.Version = 2
		if fired, err := a.FireSchedule(t.Context(), stale); err != nil || fired != job.FiredLost {
			t.Errorf("of another version: %s, %v", fired, err)
		}
	})
}

// An occurrence is missed while jobs of earlier ones live. What is missed one after the other is one note; the end of a
// job, with the journal off too, lets the next occurrence become a job.
func TestFireSchedule_Overlap(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		ctx := t.Context()
		store(t, a, aSchedule("s"))
		step := func(minute, living int, want job.Fired) {
			t.Helper()
			if fired, err := a.FireSchedule(ctx, firing("s", minute, minute, living)); err != nil || fired != want {
				t.Errorf("minute %d: %s, %v, want %s", minute, fired, err, want)
			}
		}
		step(0, 0, job.FiredJob)
		step(1, 0, job.FiredSkip)
		step(2, 0, job.FiredSkip)
		step(3, 1, job.FiredJob)
		step(4, 1, job.FiredSkip)
		ended := completed(0)
		ended.Schedule = "s"
		if !ended.Owed() {
			t.Error("the job of a schedule is not owed")
		}
		record(t, start(t, a, &redis{}, archive.WriterOptions{}), ended)
		step(5, 1, job.FiredJob)
		step(6, 0, job.FiredSkip)
		none := firing("s", 7, 7, 0)
		none.Row, none.Missed = nil, []job.ScheduleRun{{
			Occurrence: none.Occurrence, Through: none.Occurrence.Add(time.Minute),
			Missed: 2, Reason: job.MissedDown}}
		none.Last, none.Next = noon.Add(8*time.Minute), noon.Add(9*time.Minute)
		if fired, err := a.FireSchedule(ctx, none); err != nil || fired != job.FiredNone {
			t.Errorf("%s, %v", fired, err)
		}
		want := "7:DOWN*2-8 6:OVERLAP*1-6 5:living 4:OVERLAP*1-4 3:living 1:OVERLAP*2-2 0:ended"
		if got := told(t, a, "s"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		living, err := a.LivingRuns(ctx, "s")
		if err != nil || !slices.Equal(living, []job.ID{id(3), id(5)}) {
			t.Errorf("living are %v, %v", living, err)
		}
		if name, err := a.ScheduleOfJob(ctx, id(3)); err != nil || name != "s" {
			t.Errorf("%q, %v", name, err)
		}
	})
}

// A schedule with overlap replace fires: the transaction that makes the new job marks the waiting jobs to be cancelled,
// stores the reason, and gives the new job the earliest of their arrivals. Running jobs, and jobs that are marked
// already, stay as they are.
func TestFireSchedule_Replaces(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		ctx := t.Context()
		store(t, a, aSchedule("s"))
		fire := func(minute int, running ...job.ID) *job.Firing {
			t.Helper()
			f := firing("s", minute, minute, -1)
			f.Replaces, f.Running, f.Row.ArrivedAt = true, running, f.Occurrence
			if fired, err := a.FireSchedule(ctx, f); err != nil || fired != job.FiredJob {
				t.Fatalf("minute %d: %s, %v", minute, fired, err)
			}
			return f
		}
		arrived := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
		for _, step := range []struct {
			minute   int
			running  []job.ID
			replaced []job.ID
			arrived  time.Time
		}{
			{0, nil, nil, arrived(0)},
			{1, []job.ID{id(0)}, nil, arrived(1)},
			{2, []job.ID{id(0)}, []job.ID{id(1)}, arrived(1)},
			{3, []job.ID{id(0)}, []job.ID{id(2)}, arrived(1)},
		} {
			f := fire(step.minute, step.running...)
			if !slices.Equal(f.Replaced, step.replaced) || !f.Row.ArrivedAt.Equal(step.arrived) {
				t.Errorf("minute %d replaced %v and arrived at %s", step.minute, f.Replaced, f.Row.ArrivedAt)
			}
		}
		rows, err := a.LivingOf(ctx, []job.ID{id(0), id(1), id(2), id(3)})
		if err != nil || len(rows) != 4 {
			t.Fatal(rows, err)
		}
		for _, r := range rows {
			if want := r.ID == id(1) || r.ID == id(2); r.CancelRequested != want || r.Incarnation != "" {
				t.Errorf("%s is cancelled: %v, in %q", r.ID, r.CancelRequested, r.Incarnation)
			}
			if r.ID == id(3) && !r.ArrivedAt.Equal(arrived(1)) {
				t.Errorf("the row arrived at %s", r.ArrivedAt)
			}
		}
		if why, err := a.Reasons(ctx, id(1)); err != nil || len(why) != 1 || !strings.Contains(why[0].Text, "replaces it") {
			t.Errorf("%+v, %v", why, err)
		}
		lost := firing("s", 3, 9, -1)
		lost.Replaces = true
		if fired, err := a.FireSchedule(ctx, lost); err != nil || fired != job.FiredLost || len(lost.Replaced) > 0 {
			t.Errorf("%s replaced %v, %v", fired, lost.Replaced, err)
		}
	})
}

// Many runs of a schedule with overlap replace are requested at once: one job is left, with the arrival of the first.
// A repeated request replaces nothing.
func TestRunSchedule_Replaces(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		ctx := t.Context()
		store(t, a, aSchedule("s"))
		const asked = 24
		var group sync.WaitGroup
		var ids []job.ID
		for n := range asked {
			ids = append(ids, id(n/2))
			group.Go(func() {
				f := firing("s", n/2, n/2, -1)
				f.Run.Request, f.Replaces, f.Row.ArrivedAt = fmt.Sprint(n/2), true, f.Run.Occurrence
				f.Run.Occurrence = noon.Add(time.Hour)
				if is, _, err := a.RunSchedule(ctx, f); err != nil || is != id(n/2) {
					t.Errorf("%s, %v", is, err)
				}
			})
		}
		group.Wait()
		rows, err := a.LivingOf(ctx, slices.Compact(ids))
		if err != nil || len(rows) != asked/2 {
			t.Fatal(len(rows), err)
		}
		earliest, left := rows[0].ArrivedAt, []job.JournalRow{}
		for _, r := range rows {
			if r.ArrivedAt.Before(earliest) {
				earliest = r.ArrivedAt
			}
			if !r.CancelRequested {
				left = append(left, r)
			}
		}
		if len(left) != 1 || !left[0].ArrivedAt.Equal(earliest) {
			t.Errorf("left are %d; the first arrived at %s: %+v", len(left), earliest, left)
		}
	})
}

// A request to run a schedule makes one job, whatever comes between its calls, unless too many jobs live.
func TestRunSchedule(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		ctx := t.Context()
		store(t, a, aSchedule("s"))
		run := func(name, request string, minute, n, living int) string {
			f := firing(name, minute, n, living)
			f.Run.Request = request
			id, other, err := a.RunSchedule(ctx, f)
			return fmt.Sprint(id, " ", other, " ", err)
		}
		for i, step := range []struct{ got, want string }{
			{run("s", "a", 1, 1, 0), string(id(1)) + "  <nil>"},
			{run("s", "a", 2, 2, 0), string(id(1)) + "  <nil>"},
			{run("s", "b", 2, 2, 0), " " + string(id(1)) + " <nil>"},
			{run("s", "b", 2, 2, 1), string(id(2)) + "  <nil>"},
			{run("t", "b", 2, 3, 1), "  no such schedule"},
		} {
			if step.got != step.want {
				t.Errorf("step %d: %s, want %s", i, step.got, step.want)
			}
		}
		if got, err := a.RunOf(ctx, "s", "b"); err != nil || got != id(2) {
			t.Errorf("%s, %v", got, err)
		}
		if got := told(t, a, "s"); got != "2:living 1:living" {
			t.Error(got)
		}
	})
}

// TrimRuns keeps the last runs of a schedule: so many jobs, and so many notes of missed occurrences.
func TestTrimRuns(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		store(t, a, aSchedule("s"))
		store(t, a, aSchedule("other"))
		for minute := range 2 * (job.MaxScheduleRuns + 7) {
			f := firing("s", minute, minute, -1)
			f.Living = min(minute%2-1, 0) // each second one is missed, because a job lives
			if _, err := a.FireSchedule(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.FireSchedule(t.Context(), firing("other", 0, 9999, -1)); err != nil {
			t.Fatal(err)
		}
		for n := range 2 { // the second time there is nothing to forget
			if err := a.TrimRuns(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			runs := strings.Fields(told(t, a, "s"))
			jobs := strings.Count(strings.Join(runs, " "), "living")
			if last := "14:living"; jobs != job.MaxScheduleRuns || len(runs) != 2*jobs || runs[len(runs)-1] != last {
				t.Errorf("%d: %d runs, %d of them jobs, from %s on", n, len(runs), jobs, runs[len(runs)-1])
			}
		}
	})
}
