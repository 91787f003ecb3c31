package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// world is what the firers of a test share: SQL, a clock that the test sets, and answers that it chooses.
type world struct {
	*archive.Archive
	mu     sync.Mutex
	now    time.Time
	closed bool
	room   error
	dead   bool // the owner's key
	// The owner's key is not in SQL.
	unknown bool
	states  map[job.ID]job.Status
	given   []job.JournalRow
	ended   []job.ID
	pauses  job.PauseBook
	queues  job.QueueBook
	plans   *job.PlanBook
	counted map[job.MissedReason]int
}

func (w *world) GiveRows(_ context.Context, rows []job.JournalRow, _ time.Time) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.given = append(w.given, rows...)
	return len(rows), nil
}

// Find has no name in common with the archive's: it is that of the jobs.
type jobsOf struct{ *world }

func (j jobsOf) Find(_ context.Context, id job.ID) (job.Job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	status, known := j.states[id]
	if !known {
		status = job.Pending
	}
	return job.Job{ID: id, Status: status}, nil
}

func (j jobsOf) Cancel(_ context.Context, id job.ID) (job.Word, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = append(j.ended, id)
	return job.WasCancelled, nil
}

func (w *world) options() Options {
	return Options{
		Plans: w.plans, Queues: &w.queues, Pauses: &w.pauses, Jobs: jobsOf{w}, Partitions: 4,
		Now: func() time.Time { return w.now }, Open: func(int) bool { return !w.closed },
		Reserve: func(context.Context, *job.JournalRow, int) error { return w.room },
		Free:    func(context.Context, job.ID) {},
		Key: func(_ context.Context, id string) (job.Key, error) {
			switch {
			case w.dead:
				return job.Key{ID: id, RevokedAt: noon}, nil
			case w.unknown:
				return job.Key{}, job.ErrNoKey
			}
			return job.Key{ID: id}, nil
		},
		Log:      slog.New(slog.DiscardHandler),
		Occurred: func(why job.MissedReason, n int) { w.counted[why] += n },
	}
}

func (w *world) book() *Book   { return &Book{Rows: w.Archive, Options: w.options()} }
func (w *world) firer() *Firer { return NewFirer(w.Archive, w.options()) }

// each gives a test a world with a schedule of every minute, from noon on, on each database.
func each(t *testing.T, s job.Schedule, test func(t *testing.T, w *world)) {
	t.Helper()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := &world{Archive: a, now: noon.Add(-time.Second), plans: &job.PlanBook{}, states: map[job.ID]job.Status{},
			counted: map[job.MissedReason]int{}}
		w.plans.Set(job.DefaultPlans())
		s.Name, s.Owner, s.Job.Tier, s.Job.Type, s.Job.MaxRetries = "s", "ada", job.Paid, "SIMULATION", -1
		if s.Cron == "" {
			s.Every = time.Minute
		}
		if s.Overlap == "" {
			s.Overlap = job.OverlapAllow
		}
		if s.CatchUp == "" {
			s.CatchUp = job.CatchUpLast
		}
		if _, _, err := w.book().StoreSchedule(t.Context(), s, 0); err != nil {
			t.Fatal(err)
		}
		test(t, w)
	})
}

// at sets the clock to some seconds after noon, and lets a firer look.
func (w *world) at(t *testing.T, f *Firer, seconds int) {
	t.Helper()
	w.now = noon.Add(time.Duration(seconds) * time.Second)
	if _, err := f.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// runs returns the occurrences, the first one first: the minute, and the reason if the occurrence was missed.
func (w *world) runs(t *testing.T) string {
	t.Helper()
	all, err := w.ScheduleRuns(t.Context(), "s", 1000)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	var words []string
	for _, r := range all {
		word := fmt.Sprint(int(r.Occurrence.Sub(noon).Minutes()))
		if r.JobID == "" {
			word += fmt.Sprintf("-%d %s*%d", int(r.Through.Sub(noon).Minutes()), r.Reason, r.Missed)
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func (w *world) want(t *testing.T, want string) {
	t.Helper()
	if got := w.runs(t); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// Two firers make one job of each occurrence, with all that a submit would have said; those that no firer saw in time
// are noted.
func TestFirer(t *testing.T) {
	t.Parallel()
	each(t, job.Schedule{Job: job.ScheduledJob{Payload: []byte(`{"steps":[]}`), ExpiresIn: time.Minute}},
		func(t *testing.T, w *world) {
			f, other := w.firer(), w.firer()
			for _, second := range []int{-1, 0, 1, 60, 61, 300, 301, 360} {
				w.at(t, f, second)
				w.at(t, other, second)
			}
			w.want(t, "0, 1, 2-4 DOWN*3, 5, 6")
			if want := map[job.MissedReason]int{"": 4, job.MissedDown: 3}; !maps.Equal(w.counted, want) {
				t.Errorf("counted are %v", w.counted)
			}
			var ids []job.ID
			for i := range w.given {
				r := &w.given[i]
				ids = append(ids, r.ID)
				if r.Schedule != "s" || r.Owner != "ada" || r.MaxRetries != 5 || string(r.Payload) != `{"steps":[]}` ||
					r.Type != "SIMULATION" || r.TraceID == "" || r.Generation != 1 || r.ID.Partition() > 3 {
					t.Errorf("%+v", r)
				}
			}
			if slices.Sort(ids); len(slices.Compact(ids)) != 4 {
				t.Errorf("given are %v", ids)
			}
			if at := w.given[0].ExpiresMs; at != noon.Add(time.Minute).UnixMilli() {
				t.Error(at)
			}
		})
}

// An occurrence that is refused is tried again until the next one comes, and then noted with the reason.
func TestFirer_Refused(t *testing.T) {
	t.Parallel()
	each(t, job.Schedule{}, func(t *testing.T, w *world) {
		f := w.firer()
		for minute, refuse := range []func(bool){
			func(on bool) { w.closed = on },
			func(on bool) { w.room = map[bool]error{true: job.ErrLivingFull}[on] },
			func(on bool) { w.room = map[bool]error{true: job.ErrQuota}[on] },
			func(on bool) { w.room = map[bool]error{true: job.ErrUnavailable}[on] },
			func(on bool) {
				w.pauses.Set(job.Pauses{List: map[bool][]job.Pause{true: {{Scope: job.PauseAll, Refuse: true}}}[on]})
			},
			func(on bool) { w.plans.Set(map[bool][]job.Plan{true: {{Tier: "GOLD"}}, false: job.DefaultPlans()}[on]) },
		} {
			refuse(true)
			for _, second := range []int{0, 30, 59} {
				w.at(t, f, minute*60+second)
			}
			refuse(false)
		}
		w.at(t, f, 6*60)
		w.want(t, "0-0 GATE*1, 1-1 FULL*1, 2-2 QUOTA*1, 3-3 DOWN*1, 4-4 PAUSED*1, 5-5 INVALID*1, 6")
		w.closed = true
		w.at(t, f, 7*60)
		w.closed = false
		w.at(t, f, 7*60+30) // in time
		w.want(t, "0-0 GATE*1, 1-1 FULL*1, 2-2 QUOTA*1, 3-3 DOWN*1, 4-4 PAUSED*1, 5-5 INVALID*1, 6, 7")
	})
}

// All that was missed is caught up, up to a hundred, if the schedule says so.
func TestFirer_CatchUpAll(t *testing.T) {
	t.Parallel()
	each(t, job.Schedule{CatchUp: job.CatchUpAll}, func(t *testing.T, w *world) {
		f := w.firer()
		w.at(t, f, 119*60)
		if n := len(w.given); n != 100 || !strings.HasPrefix(w.runs(t), "0-19 DOWN*20, 20, 21, 22") {
			t.Errorf("%d jobs: %s", n, w.runs(t))
		}
	})
}

// With the overlap one, an occurrence's job waits behind the living job, by a unique key; a third occurrence is missed.
// With replace the waiting job is cancelled, and the running job is not.
func TestFirer_Overlap(t *testing.T) {
	t.Parallel()
	for overlap, want := range map[job.Overlap]string{
		job.OverlapSkip: "0, 1-3 OVERLAP*3", job.OverlapOne: "0, 1, 2-3 OVERLAP*2", job.OverlapReplace: "0, 1, 2, 3",
		job.OverlapAllow: "0, 1, 2, 3",
	} {
		t.Run(string(overlap), func(t *testing.T) {
			t.Parallel()
			each(t, job.Schedule{Overlap: overlap}, func(t *testing.T, w *world) {
				f := w.firer()
				w.at(t, f, 0)
				w.states[w.given[0].ID] = job.Processing
				for minute := 1; minute < 4; minute++ {
					w.at(t, f, minute*60)
				}
				w.want(t, want)
				jobs := len(w.given)
				if w.counted[""] != jobs || w.counted[job.MissedOverlap] != 4-jobs {
					t.Errorf("counted are %v", w.counted)
				}
				keys, homes := map[string]bool{}, map[int]bool{}
				for i := range w.given {
					keys[w.given[i].Unique], homes[w.given[i].ID.Partition()] = true, true
				}
				held := overlap == job.OverlapOne || overlap == job.OverlapReplace
				if held != !keys[""] || held && (len(keys) != 1 || len(homes) != 1) {
					t.Errorf("keys %v, partitions %v", keys, homes)
				}
				var cancelled []job.ID
				if overlap == job.OverlapReplace {
					cancelled = []job.ID{w.given[1].ID, w.given[2].ID}
					if !w.given[3].ArrivedAt.Equal(noon.Add(time.Minute)) {
						t.Errorf("the last one has not the place of the one that waited first: %s", w.given[3].ArrivedAt)
					}
				}
				if !slices.Equal(w.ended, cancelled) {
					t.Errorf("cancelled are %v", w.ended)
				}
			})
		})
	}
}

// A line's key and the unique key of an overlap are in one partition.
func TestRow_Homes(t *testing.T) {
	t.Parallel()
	s := &job.Schedule{Name: "s", Overlap: job.OverlapOne, Job: job.ScheduledJob{Line: job.LineOf("acme")}}
	plan := job.Plan{Tier: job.Paid, Lines: job.LinesKey, MaxWait: time.Hour}
	for _, partitions := range []int{1, 3, 256} {
		r := rowOf(s, asked{at: noon, now: noon}, plan, job.Queue{Name: job.MainQueue}, partitions)
		if home := job.HomesOfLine(r.Line, partitions); r.Line != "acme" || !slices.Equal(home, []int{r.ID.Partition()}) ||
			job.Home(r.UniqueHash(), partitions) != r.ID.Partition() {
			t.Errorf("line of %v, unique key of %d, job in %d", home, job.Home(r.UniqueHash(), partitions), r.ID.Partition())
		}
		if at := noon.Add(time.Hour).UnixMilli(); r.ExpiresMs != at {
			t.Errorf("it expires at %d, not at %d: the plan's maxWait", r.ExpiresMs, at)
		}
		if id, err := job.ParseID(string(r.ID)); err != nil || id != r.ID {
			t.Error(id, err)
		}
	}
}

// A schedule whose owner's key is dead is paused and says so, even if it is not due. Only a living key lets it go on.
func TestFirer_DeadKey(t *testing.T) {
	t.Parallel()
	each(t, job.Schedule{}, func(t *testing.T, w *world) {
		w.dead = true
		f := w.firer()
		if err := f.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, err := w.Schedule(t.Context(), "s")
		if err != nil || s.Paused == nil || !strings.Contains(s.Paused.Reason, "ada") || !s.Due.IsZero() || s.Version != 2 {
			t.Fatalf("%+v, %v", s, err)
		}
		if _, _, err := w.book().ResumeSchedule(t.Context(), "s"); err == nil ||
			!strings.Contains(err.Error(), "is revoked or has expired") {
			t.Error(err)
		}
		w.dead = false
		if _, _, err := w.book().ResumeSchedule(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		w.unknown = true // that of TIERQ_ADMIN_KEY
		if err := f.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.at(t, f, 0)
		w.dead = true
		w.at(t, f, 60)
		w.want(t, "0")
		if s, err = w.Schedule(t.Context(), "s"); err != nil || s.Paused == nil {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// An occurrence in a pause is not missed: a note of missed occurrences before the pause does not go on after it.
func TestFirer_MissedBeforeAPause(t *testing.T) {
	t.Parallel()
	each(t, job.Schedule{}, func(t *testing.T, w *world) {
		f, b := w.firer(), w.book()
		w.closed = true
		miss := func(minutes ...int) {
			for _, minute := range minutes {
				w.at(t, f, 60*minute)
			}
		}
		miss(0, 1, 2)
		if _, _, err := b.PauseSchedule(t.Context(), "s", job.SchedulePause{}); err != nil {
			t.Fatal(err)
		}
		w.now = noon.Add(5*time.Minute + time.Second)
		if _, _, err := b.ResumeSchedule(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		miss(6, 7, 8)
		w.want(t, "0-1 GATE*2, 6-7 GATE*2")
	})
}
