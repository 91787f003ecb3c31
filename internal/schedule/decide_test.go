package schedule

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func timetable(t testing.TB, s *job.Schedule) *Timetable {
	t.Helper()
	table, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// The catch-up of a schedule and the delay decide what happens to a due occurrence.
func TestDecide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		catchUp job.CatchUp
		late    time.Duration // after noon, which is the first occurrence
		want    string        // how many are missed, through which minute; which minute is fired; which is next
	}{
		{job.CatchUpLast, -time.Second, "0 - fire - next 0"},
		{job.CatchUpLast, 0, "0 - fire 0 next 1"},
		{job.CatchUpLast, 59 * time.Second, "0 - fire 0 next 1"},
		{job.CatchUpLast, 60 * time.Second, "1 0 fire 1 next 2"},
		{job.CatchUpLast, 10 * time.Minute, "10 9 fire 10 next 11"},
		{job.CatchUpLast, 30 * 24 * time.Hour, "-1 43199 fire 43200 next 43201"},
		{job.CatchUpAll, 0, "0 - fire 0 next 1"},
		{job.CatchUpAll, 99 * time.Minute, "0 - fire 0 next 1"},
		{job.CatchUpAll, 100 * time.Minute, "1 0 fire 1 next 2"},
		{job.CatchUpAll, 150*time.Minute + time.Second, "51 50 fire 51 next 52"},
		{job.CatchUpNone, time.Second, "0 - fire 0 next 1"},
		{job.CatchUpNone, 10*time.Minute + time.Second, "10 9 fire 10 next 11"},
	} {
		s := &job.Schedule{Name: "x", Every: time.Minute, CatchUp: c.catchUp, Next: noon}
		check(t, s, c.late, c.want)
		s.Every, s.Cron = 0, "* * * * *"
		check(t, s, c.late, c.want)
	}
	// With an hour between the occurrences, one may be more than a minute late before the next comes.
	s := &job.Schedule{Name: "x", Every: time.Hour, CatchUp: job.CatchUpNone, Next: noon}
	check(t, s, time.Minute, "0 - fire 0 next 60")
	check(t, s, 2*time.Minute, "1 0 fire - next 60")
	check(t, s, 2*time.Hour+time.Second, "2 60 fire 120 next 180")
	check(t, s, 3*time.Hour-time.Second, "3 120 fire - next 180")
	// The last occurrence has no next one.
	s = &job.Schedule{Name: "x", Every: time.Hour, CatchUp: job.CatchUpLast, Next: noon, End: noon.Add(2 * time.Hour)}
	check(t, s, 20*time.Hour, "2 60 fire 120 next -")
	// A jitter moves all of it.
	s = &job.Schedule{Name: "x", Every: time.Minute, CatchUp: job.CatchUpLast, Next: noon, Jitter: 50 * time.Second}
	offset := timetable(t, s).offset
	if offset <= 0 || offset >= s.Jitter {
		t.Fatal(offset)
	}
	check(t, s, offset-1, "0 - fire - next 0")
	check(t, s, offset, "0 - fire 0 next 1")
	check(t, s, offset+time.Minute, "1 0 fire 1 next 2")
}

func check(t *testing.T, s *job.Schedule, late time.Duration, want string) {
	t.Helper()
	v := decide(s, timetable(t, s), noon.Add(late))
	minute := func(at time.Time) string {
		if at.IsZero() {
			return "-"
		}
		return fmt.Sprint(int(at.Sub(noon).Minutes()))
	}
	got := fmt.Sprintf("%d %s fire %s next %s", v.missed, minute(v.through), minute(v.fire), minute(v.next))
	if got != want {
		t.Errorf("%s, %s late: %s, want %s", s.CatchUp, late, got, want)
	}
}

// Every counts from the start, or else from 1970.
func TestNext_Every(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s           job.Schedule
		after, want time.Time
	}{
		{job.Schedule{Every: time.Hour}, noon.Add(-1), noon},
		{job.Schedule{Every: time.Hour}, noon, noon.Add(time.Hour)},
		{job.Schedule{Every: 90 * time.Second, Start: noon}, noon.Add(-time.Hour), noon},
		{job.Schedule{Every: 90 * time.Second, Start: noon}, noon, noon.Add(90 * time.Second)},
		{job.Schedule{Every: 90 * time.Second, Start: noon}, noon.Add(91 * time.Second), noon.Add(180 * time.Second)},
		{job.Schedule{Every: time.Second, End: noon}, noon.Add(-1), noon},
		{job.Schedule{Every: time.Second, End: noon}, noon, time.Time{}},
		{job.Schedule{Cron: "0 * * * *", Start: noon.Add(time.Second)}, noon.Add(-9 * time.Hour), noon.Add(time.Hour)},
	} {
		c.s.Name = "x"
		if got := timetable(t, &c.s).Next(c.after); !got.Equal(c.want) {
			t.Errorf("%+v after %s: %s, want %s", c.s, c.after, got, c.want)
		}
	}
}

// A schedule that cannot be is refused with the member that is wrong.
func TestNew_Refused(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for member, all := range map[string][]job.Schedule{
		"name": {{Name: "", Every: day}, {Name: "a/b", Every: day}, {Name: "-a", Every: day}, {Name: "a b", Every: day}},
		"cron": {
			{}, {Cron: "* * * * *", Every: day}, {Cron: "* * * *"}, {Cron: "* * * * * * *"}, {Cron: "61 * * * *"},
			{Cron: "@every 5m"}, {Cron: "@often"}, {Cron: "TZ=UTC * * * * *"}, {Cron: "TZ=0"}, {Cron: "0 0 30 2 *"},
			{Cron: "* * * * L"}, {Cron: "*/0 * * * *"}, {Cron: "9-1 * * * *"}, {Cron: "\x00"},
		},
		"everySeconds": {{Every: -1}, {Every: time.Second / 2}, {Every: 1500 * time.Millisecond}, {Every: 400 * day}},
		"timezone": {{Every: day, Timezone: "UTC"}, {Cron: "@daily", Timezone: "Local"},
			{Cron: "@daily", Timezone: "../x"}},
		"jitterSeconds": {{Every: day, Jitter: -1}, {Every: day, Jitter: 25 * time.Hour}, {Every: day, Jitter: 1}},
		"end":           {{Every: day, Start: noon, End: noon.Add(-1)}},
	} {
		for _, s := range all {
			if member != "name" {
				s.Name = "x"
			}
			_, err := New(&s)
			var wrong *job.ScheduleError
			if !errors.As(err, &wrong) || wrong.Member != member || !errors.Is(err, job.ErrBadSchedule) {
				t.Errorf("%+v: %v", s, err)
			}
		}
	}
}

// FuzzCron reads any text without a panic, and an expression's next occurrence is after the time asked for, and soon
// found.
func FuzzCron(f *testing.F) {
	for _, text := range []string{
		"* * * * *", "*/7 1-5 1,15 * MON", "@hourly", "0 0 29 2 *", "TZ=", "1 2 3", "* * * * * ?"} {
		f.Add(text, "Europe/Berlin")
	}
	f.Fuzz(func(t *testing.T, text, zone string) {
		table, err := New(&job.Schedule{Name: "x", Cron: text, Timezone: zone})
		if err != nil {
			if !errors.Is(err, job.ErrBadSchedule) {
				t.Fatal(err)
			}
			return
		}
		for at := noon; ; {
			next := table.Next(at)
			if next.IsZero() || next.After(noon.AddDate(1, 0, 0)) {
				return
			}
			if !next.After(at) {
				t.Fatalf("%s is not after %s", next, at)
			}
			at = next.Add(7 * 24 * time.Hour)
		}
	})
}
