package schedule

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// A changed expression begins anew from now. Any other change leaves what is due. The same schedule again changes
// nothing.
func TestBook_Store(t *testing.T) {
	t.Parallel()
	each(t, job.Schedule{}, func(t *testing.T, w *world) {
		ctx, b := t.Context(), w.book()
		w.now = noon.Add(5*time.Minute + time.Second)
		step := func(what string, change func(s *job.Schedule), version int64, next time.Duration) {
			t.Helper()
			s, err := w.Schedule(ctx, "s")
			if err != nil {
				t.Fatal(err)
			}
			change(&s)
			got, _, err := b.StoreSchedule(ctx, s, -1)
			if err != nil || got.Version != version || !got.Next.Equal(noon.Add(next)) {
				t.Errorf("%s: version %d, next %s, %v", what, got.Version, got.Next, err)
			}
		}
		step("nothing", func(*job.Schedule) {}, 1, 0)
		step("the payload", func(s *job.Schedule) { s.Job.Payload = []byte("{}") }, 2, 0)
		step("the jitter", func(s *job.Schedule) { s.Jitter = time.Second }, 3, 0)
		step("every", func(s *job.Schedule) { s.Every = 30 * time.Second }, 4, 5*time.Minute+30*time.Second)
		w.now = noon.Add(time.Hour)
		step("the end", func(s *job.Schedule) { s.End = noon.Add(2 * time.Hour) }, 5, 5*time.Minute+30*time.Second)
		step("the start", func(s *job.Schedule) { s.Start = noon.Add(90 * time.Minute) }, 6, 90*time.Minute)
		w.at(t, w.firer(), 90*60+1)
		w.now = noon.Add(80 * time.Minute) // Redis' clock goes back
		step("the start", func(s *job.Schedule) { s.Start = noon }, 7, 90*time.Minute+30*time.Second)
		if _, _, err := b.StoreSchedule(ctx, job.Schedule{Name: "s", Every: time.Hour}, 3); !errors.Is(err, job.ErrChanged) {
			t.Error(err)
		}
	})
}

// A try returns the schedule that would be stored, and stores nothing. UTC is the zone of an expression that names
// none.
func TestBook_Try(t *testing.T) {
	t.Parallel()
	each(t, job.Schedule{}, func(t *testing.T, w *world) {
		ctx, b := t.Context(), w.book()
		w.now = noon.Add(5*time.Minute + time.Second)
		is, err := w.Schedule(ctx, "s")
		if err != nil {
			t.Fatal(err)
		}
		asked := is
		if would, err := b.TrySchedule(ctx, asked, is.Version); err != nil || would.Version != is.Version {
			t.Errorf("as it is: %+v, %v", would, err)
		}
		asked.Every, asked.Cron = 0, "30 * * * *"
		if would, err := b.TrySchedule(ctx, asked, is.Version); err != nil || would.Version != is.Version+1 ||
			!would.Next.Equal(noon.Add(30*time.Minute)) {
			t.Errorf("changed: %+v, %v", would, err)
		}
		if _, err := b.TrySchedule(ctx, asked, is.Version+1); !errors.Is(err, job.ErrChanged) {
			t.Errorf("over another version: %v", err)
		}
		bad := asked
		bad.Cron = "never"
		if _, err := b.TrySchedule(ctx, bad, -1); !errors.Is(err, job.ErrBadSchedule) {
			t.Errorf("a bad one: %v", err)
		}
		if now, err := w.Schedule(ctx, "s"); err != nil || now.Version != is.Version || now.Every != is.Every {
			t.Errorf("it was stored: %+v, %v", now, err)
		}
		asked.Name = "fresh"
		if would, err := b.TrySchedule(ctx, asked, 0); err != nil || would.Version != 1 {
			t.Errorf("a new one: %+v, %v", would, err)
		}
		if _, err := w.Schedule(ctx, "fresh"); !errors.Is(err, job.ErrNoSchedule) {
			t.Errorf("the new one: %v", err)
		}
		for i, zone := range []string{"", "UTC", ""} {
			asked.Timezone = zone
			if s, _, err := b.StoreSchedule(ctx, asked, -1); err != nil || s.Version != 1 {
				t.Errorf("%d: version %d, %v", i, s.Version, err)
			}
		}
	})
}

// A paused schedule makes no jobs, and is not behind when it goes on.
func TestBook_Pause(t *testing.T) {
	t.Parallel()
	each(t, job.Schedule{}, func(t *testing.T, w *world) {
		ctx, b, f := t.Context(), w.book(), w.firer()
		w.at(t, f, 0)
		for range 2 { // the second time changes nothing
			s, _, err := b.PauseSchedule(ctx, "s", job.SchedulePause{By: "ada", Reason: "a fire"})
			if err != nil || s.Version != 2 || s.Paused.Reason != "a fire" || !s.Paused.Since.Equal(noon) {
				t.Errorf("%+v, %v", s, err)
			}
		}
		w.at(t, f, 300)
		if id, err := b.RunSchedule(ctx, "s", ""); err != nil || id == "" {
			t.Errorf("%s, %v", id, err)
		}
		for range 2 {
			if s, _, err := b.ResumeSchedule(ctx, "s"); err != nil || s.Version != 3 || s.Paused != nil {
				t.Errorf("%+v, %v", s, err)
			}
		}
		w.at(t, f, 301)
		w.at(t, f, 360)
		w.want(t, "0, 5, 6")
		for _, err := range []error{
			func() error { _, _, err := b.PauseSchedule(ctx, "t", job.SchedulePause{}); return err }(),
			func() error { _, _, err := b.ResumeSchedule(ctx, "t"); return err }(),
			func() error { _, err := b.RunSchedule(ctx, "t", ""); return err }(),
		} {
			if !errors.Is(err, job.ErrNoSchedule) {
				t.Error(err)
			}
		}
	})
}

// A run that an operator asks for is a job, once for each request, unless a submit would be refused or the overlap
// forbids it.
func TestBook_Run(t *testing.T) {
	t.Parallel()
	each(t, job.Schedule{Overlap: job.OverlapSkip}, func(t *testing.T, w *world) {
		ctx, b := t.Context(), w.book()
		w.room = job.ErrQueueFull
		if _, err := b.RunSchedule(ctx, "s", "a"); !errors.Is(err, job.ErrQueueFull) {
			t.Error(err)
		}
		w.room = nil
		first, err := b.RunSchedule(ctx, "s", "a")
		if err != nil {
			t.Fatal(err)
		}
		w.now, w.closed = w.now.Add(time.Hour), true
		if again, err := b.RunSchedule(ctx, "s", "a"); err != nil || again != first || len(w.given) != 1 {
			t.Errorf("%s, %v, given %d", again, err, len(w.given))
		}
		w.closed = false
		if id, err := b.RunSchedule(ctx, "s", "b"); !errors.Is(err, job.ErrScheduleState) {
			t.Errorf("%s, %v", id, err)
		}
	})
}

// unreadable has the schedules of a database that goes away after a change.
type unreadable struct {
	Rows
	changed bool
}

func (u *unreadable) StoreSchedule(ctx context.Context, s job.Schedule, next time.Time) error {
	u.changed = true
	return u.Rows.StoreSchedule(ctx, s, next)
}

func (u *unreadable) Schedule(ctx context.Context, name string) (job.Schedule, error) {
	if u.changed {
		return job.Schedule{}, job.ErrUnavailable
	}
	return u.Rows.Schedule(ctx, name)
}

// A change that was made is not refused if the database goes away right after it.
func TestBook_ChangedAndUnreadable(t *testing.T) {
	t.Parallel()
	each(t, job.Schedule{}, func(t *testing.T, w *world) {
		b := w.book()
		b.Rows = &unreadable{Rows: b.Rows}
		_, _, err := b.PauseSchedule(t.Context(), "s", job.SchedulePause{})
		if s, _ := w.Schedule(t.Context(), "s"); s.Paused == nil || !errors.Is(err, job.ErrAmbiguous) {
			t.Errorf("it is %+v, and the caller is told %v", s, err)
		}
	})
}
