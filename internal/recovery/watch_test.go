package recovery

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

type reclaimer func(partition int, w job.Watch, skip int) ([]job.Reclaimed, error)

func (f reclaimer) Reclaim(_ context.Context, partition int, w job.Watch, skip int) ([]job.Reclaimed, error) {
	return f(partition, w, skip)
}

var (
	quiet = slog.New(slog.DiscardHandler)
	errIO = errors.New("no answer")
)

func looks(kind job.Watch, pace loop.Pace, look reclaimer) *Watch {
	return NewWatch(kind, pace, look, 1, func(job.Watch, job.Reclaimed) {}, quiet)
}

func TestPace(t *testing.T) {
	t.Attr("proves", "S2-N8 S2-N9 S2-N10 T-6")
	for _, tc := range []struct {
		name   string
		pace   loop.Pace
		failed []bool
		want   []int // seconds
	}{
		{"crashed doubles to its ceiling", CrashedPace, []bool{true, true, true, true, true, true},
			[]int{6, 12, 24, 48, 60, 60}},
		{"crashed halves to its floor", CrashedPace, []bool{true, true, true, false, false, false, false},
			[]int{6, 12, 24, 12, 6, 3, 3}},
		{"stuck doubles to its ceiling", StuckPace, []bool{true, true, true, true, true, true},
			[]int{10, 20, 40, 80, 120, 120}},
		{"stuck halves to its floor", StuckPace, []bool{true, false, false}, []int{10, 5, 5}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			failing := false
			w := looks(job.Crashed, tc.pace, func(int, job.Watch, int) ([]job.Reclaimed, error) {
				if failing {
					return nil, errIO
				}
				return nil, nil
			})
			for i, fails := range tc.failed {
				failing = fails
				want := time.Duration(tc.want[i]) * time.Second
				if got := w.runOnce(t.Context()); got != want || w.Delay() != want {
					t.Fatalf("look %d: next in %s (delay %s), want %s", i, got, w.Delay(), want)
				}
			}
		})
	}
}

func TestWatch_LooksAgainAfterNewSuspects(t *testing.T) {
	word := job.Suspect
	w := looks(job.Stuck, StuckPace, func(int, job.Watch, int) ([]job.Reclaimed, error) {
		return []job.Reclaimed{{ID: "a", Word: word}}, nil
	})
	if got := w.runOnce(t.Context()); got != secondLook {
		t.Errorf("after a look that found a suspect the next comes in %s, want %s", got, secondLook)
	}
	if w.Taken() != 0 {
		t.Errorf("a suspect is not yet taken back")
	}
	word = job.OK
	if got := w.runOnce(t.Context()); got != StuckPace.Floor {
		t.Errorf("after a look without suspects the next comes in %s, want the floor", got)
	}
	if w.Taken() != 1 {
		t.Errorf("taken %d, want 1", w.Taken())
	}
}

// One look covers all expired jobs, 100 per call, and skips those that stayed: a first page full of suspects does
// not hide the jobs behind it.
func TestWatch_PagesPastSuspects(t *testing.T) {
	t.Attr("proves", "F57")
	var skips []int
	w := looks(job.Crashed, CrashedPace, func(_ int, kind job.Watch, skip int) ([]job.Reclaimed, error) {
		skips = append(skips, skip)
		if kind != job.Crashed {
			t.Errorf("watch %q", kind)
		}
		switch len(skips) {
		case 1:
			return slices.Repeat([]job.Reclaimed{{ID: "s", Word: job.Suspect}}, job.MaxBatch), nil
		case 2:
			return slices.Repeat([]job.Reclaimed{{ID: "t", Word: job.OK}}, job.MaxBatch), nil
		}
		return slices.Repeat([]job.Reclaimed{{ID: "u", Word: job.Discarded}}, 7), nil
	})
	w.runOnce(t.Context())
	if want := []int{0, 100, 100}; !slices.Equal(skips, want) {
		t.Errorf("skips %v, want %v", skips, want)
	}
	if w.Taken() != 107 {
		t.Errorf("taken %d, want 107", w.Taken())
	}
}

// Each watch has its own delay and recovers by itself: failures of one do not slow the other, and a wake makes the
// next look come at once.
func TestWatch_SelfHeals(t *testing.T) {
	t.Attr("proves", "S2-P10 S2-P19")
	synctest.Test(t, func(t *testing.T) {
		down := true
		var crashedAt, stuckAt []time.Duration
		began := time.Now()
		crashed := looks(job.Crashed, CrashedPace, func(int, job.Watch, int) ([]job.Reclaimed, error) {
			crashedAt = append(crashedAt, time.Since(began))
			if down {
				return nil, errIO
			}
			return nil, nil
		})
		stuck := looks(job.Stuck, StuckPace, func(int, job.Watch, int) ([]job.Reclaimed, error) {
			stuckAt = append(stuckAt, time.Since(began))
			return nil, nil
		})
		for _, w := range []*Watch{crashed, stuck} {
			if err := w.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(100 * time.Second) // virtual
		synctest.Wait()
		if got := crashed.Delay(); got != CrashedPace.Ceiling {
			t.Errorf("after 100 s of failures the delay is %s, want the ceiling", got)
		}
		if got := stuck.Delay(); got != StuckPace.Floor {
			t.Errorf("the other watch's delay moved to %s", got)
		}
		if want := []time.Duration{0, 6e9, 18e9, 42e9, 90e9}; !slices.Equal(crashedAt, want) {
			t.Errorf("looks at %v, want %v", crashedAt, want)
		}
		if len(stuckAt) != 21 {
			t.Errorf("%d looks of the stuck watch in 100 s, want 21", len(stuckAt))
		}
		down = false
		crashed.Wake()
		synctest.Wait()
		if n := len(crashedAt); n != 6 || crashedAt[5] != 100*time.Second {
			t.Errorf("a wake was not followed by a look at once: %v", crashedAt)
		}
		if got := crashed.Delay(); got != CrashedPace.Ceiling/2 {
			t.Errorf("after a success the delay is %s, want half the ceiling", got)
		}
		for _, w := range []*Watch{crashed, stuck} {
			for range 2 { // Stop may be called twice
				if err := w.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func TestLoop_StopBeforeStart(t *testing.T) {
	w := looks(job.Crashed, CrashedPace, func(int, job.Watch, int) ([]job.Reclaimed, error) { return nil, nil })
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A backlog that is longer than one run is worked off without pauses, as long as each run reclaims jobs.
func TestWatch_GoesOnThroughABacklog(t *testing.T) {
	t.Attr("proves", "F57")
	left := 2*maxPages*job.MaxBatch + 50
	w := NewWatch(job.Crashed, CrashedPace, reclaimer(func(int, job.Watch, int) ([]job.Reclaimed, error) {
		n := min(left, job.MaxBatch)
		left -= n
		return slices.Repeat([]job.Reclaimed{{Word: job.OK}}, n), nil
	}), 1, func(job.Watch, job.Reclaimed) {}, quiet)
	for _, want := range []time.Duration{0, 0, CrashedPace.Floor} {
		if got := w.runOnce(t.Context()); got != want {
			t.Fatalf("next in %s, want %s: %d left", got, want, left)
		}
	}
	suspects := NewWatch(job.Crashed, CrashedPace, reclaimer(func(int, job.Watch, int) ([]job.Reclaimed, error) {
		return slices.Repeat([]job.Reclaimed{{Word: job.Suspect}}, job.MaxBatch), nil
	}), 1, func(job.Watch, job.Reclaimed) {}, quiet)
	if got := suspects.runOnce(t.Context()); got != secondLook {
		t.Errorf("only suspects: next in %s", got)
	}
}
