package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/web"
)

// gauge is a fake cluster of two tiers that counts the calls of each reader.
type gauge struct {
	mu     sync.Mutex
	now    web.Snapshot
	counts map[time.Duration]map[job.Tier]Counted
	leases []web.Lease
	dead   int64
	fails  map[string]error
	asked  map[string]int
}

func newGauge() *gauge {
	return &gauge{
		now: web.Snapshot{
			At: opsNow, Gate: web.Gate{Open: true}, Capacity: web.Capacity{Used: 12, Limit: 1000}, PerSecond: 31,
			Tiers: []web.Lane{
				{Tier: "PAID", Depth: 4, InFlight: 22,
					Plan: &web.Plan{Tier: "PAID", Share: 100, HeartbeatTimeout: 15 * time.Second,
						MaxProcessingTime: 50 * time.Second}},
				{Tier: "PUBLIC", Depth: 8, InFlight: 5,
					Plan: &web.Plan{Tier: "PUBLIC", Share: 60, HeartbeatTimeout: 3 * time.Second,
						MaxProcessingTime: 10 * time.Second}},
			},
			Workers: []web.Worker{{Name: "a", Slots: 16, Running: 12}, {Name: "b", Slots: 16, Running: 15}},
		},
		counts: map[time.Duration]map[job.Tier]Counted{
			time.Minute: {job.Paid: {SubmittedPerSecond: 30, FinishedPerSecond: 29}},
			time.Hour: {
				job.Paid: {SubmittedPerSecond: 1, Refused: 1, Completed: 100, Failed: 17, Cancelled: 3, Retried: 5,
					WaitSeconds: web.Percentiles{P95: 2}},
				"GONE": {Completed: 1},
			},
		},
		dead: 7, fails: map[string]error{}, asked: map[string]int{},
	}
}

func (g *gauge) heard(name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked[name]++
	return g.fails[name]
}

func (g *gauge) readers() Readers {
	return Readers{
		Gauges: func() (web.Snapshot, error) { return g.now, g.heard("gauges") },
		Counted: func(_ context.Context, window time.Duration) (map[job.Tier]Counted, error) {
			return g.counts[window], g.heard(window.String())
		},
		EndedPerMinute: func(context.Context) (map[job.Tier][]int64, error) {
			return map[job.Tier][]int64{job.Paid: {1, 2, 3}}, g.heard("series")
		},
		Leases: func(_ context.Context, most int) ([]web.Lease, error) {
			if most != 20 {
				return nil, fmt.Errorf("%d leases were asked for", most)
			}
			return g.leases, g.heard("leases")
		},
		Dead: func(context.Context) (int64, error) { return g.dead, g.heard("dead") },
		Now:  time.Now,
	}
}

func snapshotFrom(t *testing.T, read func(context.Context) (any, error)) *web.Snapshot {
	t.Helper()
	made, err := read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return made.(*web.Snapshot)
}

func TestSnapshots_HaveAllThatTheDashboardShows(t *testing.T) {
	g := newGauge()
	for i := range 25 {
		g.leases = append(g.leases, web.Lease{JobID: fmt.Sprint(i), Tier: []string{"PAID", "PUBLIC", "GONE"}[i%3],
			HeartbeatBy: opsNow.Add(time.Duration(100-i) * time.Second)})
	}
	g.leases[24].MaxSeconds = 7
	s := snapshotFrom(t, Snapshots(g.readers()))
	paid, public := s.Tiers[0], s.Tiers[1]
	if paid.SubmittedPerSecond != 30 || paid.FinishedPerSecond != 29 || paid.Completed != 100 || paid.Failed != 17 ||
		paid.Retried != 5 || paid.Refused != 1 ||
		paid.WaitSeconds.P95 != 2 || fmt.Sprint(paid.Spark) != "[1 2 3]" || paid.Depth != 4 || public.Completed != 0 ||
		public.Spark != nil {
		t.Errorf("the lanes: %+v", s.Tiers)
	}
	if s.InFlight != 27 || s.Ended != 121 || s.Dead != 7 || s.Slots != (web.Slots{Running: 27, Total: 32}) ||
		s.PerSecond != 31 || s.Hint != "" {
		t.Errorf("the whole: %+v", s)
	}
	if len(s.Leases) != 20 || s.Leases[0].JobID != "24" || s.Leases[19].JobID != "5" ||
		s.Leases[0].HeartbeatSeconds != 15 || s.Leases[0].MaxSeconds != 7 ||
		s.Leases[1].HeartbeatSeconds != 0 || s.Leases[2].MaxSeconds != 10 {
		t.Errorf("the leases: %+v", s.Leases)
	}
	if g.leases[0].JobID != "0" || g.leases[0].HeartbeatSeconds != 0 || g.now.Tiers[0].Completed != 0 {
		t.Error("what the readers keep was changed")
	}
	text, err := json.Marshal(s)
	if err != nil || !strings.Contains(string(text), `"spark":null`) || !strings.Contains(string(text), `"watches":[]`) {
		t.Errorf("%s, %v", text, err)
	}
}

// Costly values are read seldom, for any number of viewers.
func TestSnapshots_ReadSeldomWhatIsCostly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGauge()
		read := Snapshots(g.readers())
		for range 60 {
			for range 3 {
				snapshotFrom(t, read)
			}
			pass(time.Second)
		}
		for name, want := range map[string]int{"gauges": 180, "leases": 60, "1m0s": 30, "1h0m0s": 6, "series": 6,
			"dead": 12} {
			if g.asked[name] != want {
				t.Errorf("%s was read %d times in a minute, want %d", name, g.asked[name], want)
			}
		}
	})
}

// An outage is not shown as an empty queue.
func TestSnapshots_WhatIsNotKnownIsNoZero(t *testing.T) {
	for _, name := range []string{"gauges", "1m0s", "1h0m0s", "series", "leases"} {
		g := newGauge()
		g.fails[name] = fmt.Errorf("redis at hunter2: %w", job.ErrUnavailable)
		read := Snapshots(g.readers())
		if made, err := read(t.Context()); made != nil || !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("%s: %v, %v", name, made, err)
		}
		g.fails[name] = nil
		snapshotFrom(t, read) // it recovers at once
	}
}

// While SQL is down the snapshots go on: the last count is shown, and marked as old.
func TestSnapshots_WithoutSQL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGauge()
		r := g.readers()
		var hangs atomic.Bool
		r.Dead = func(ctx context.Context) (int64, error) {
			if hangs.Load() {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return g.dead, nil
		}
		read := Snapshots(r)
		snapshotFrom(t, read)
		hangs.Store(true)
		pass(6 * time.Second)
		began := time.Now()
		s := snapshotFrom(t, read)
		if s.Dead != 7 || !strings.Contains(s.Hint, "SQL does not answer") || time.Since(began) > time.Second {
			t.Errorf("after %v: %d, %q", time.Since(began), s.Dead, s.Hint)
		}
		began = time.Now()
		snapshotFrom(t, read)
		if time.Since(began) > 0 {
			t.Error("each snapshot waits for SQL")
		}
		hangs.Store(false)
		g.dead = 8
		pass(6 * time.Second)
		if s := snapshotFrom(t, read); s.Dead != 8 || s.Hint != "" {
			t.Errorf("healed: %d, %q", s.Dead, s.Hint)
		}
		// A caller who leaves during the count does not store a wrong count.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		hangs.Store(true)
		if n, err := (&snapshots{Readers: r}).countDead(ctx, letters{count: 7}); !errors.Is(err, context.Canceled) {
			t.Errorf("counted for nobody: %+v, %v", n, err)
		}
	})
}

func TestSnapshots_ManyAtOnce(t *testing.T) {
	g := newGauge()
	g.leases = []web.Lease{{JobID: "1", Tier: "PAID"}}
	read := Snapshots(g.readers())
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			made, err := read(t.Context())
			if s, ok := made.(*web.Snapshot); err != nil || !ok || s.Leases[0].MaxSeconds != 50 {
				t.Error(made, err)
			}
		})
	}
	group.Wait()
	if g.asked["1h0m0s"] != 1 || g.asked["leases"] > 20 {
		t.Errorf("asked %v", g.asked)
	}
}

func TestHint(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*web.Snapshot)
		old    bool
		want   string
	}{
		"all is well": {func(*web.Snapshot) {}, false, ""},
		"no workers":  {func(s *web.Snapshot) { s.Workers = nil }, true, "12 jobs wait, and no process runs jobs."},
		"one job": {func(s *web.Snapshot) { s.Workers, s.Tiers[0].Depth, s.Tiers[1].Depth = nil, 1, 0 }, false,
			"1 job waits, and no process runs jobs."},
		"nothing to do": {func(s *web.Snapshot) { s.Workers, s.Tiers[0].Depth, s.Tiers[1].Depth = nil, 0, 0 }, false, ""},
		"no SQL": {func(s *web.Snapshot) { s.Workers[0].Stuck = 1 }, true,
			"SQL does not answer: jobs that end wait in the outbox, and the count of dead letters is out of date."},
		"stuck": {func(s *web.Snapshot) { s.Workers[0].Stuck, s.Workers[1].Stuck = 1, 2 }, false,
			"3 slots are held by handlers that do not return."},
		"one stuck": {func(s *web.Snapshot) { s.Workers[0].Stuck = 1 }, false,
			"1 slot is held by a handler that does not return."},
		"full for one": {func(s *web.Snapshot) { s.Capacity.Used = 600 }, false,
			"PUBLIC is refused: 60 % of the capacity is used, and its share ends at 60 %."},
		"nearly": {func(s *web.Snapshot) { s.Capacity.Used = 599 }, false, ""},
		"full": {func(s *web.Snapshot) { s.Capacity.Used = 1000 }, false,
			"PAID is refused: 100 % of the capacity is used, and its share ends at 100 %."},
		"no capacity": {func(s *web.Snapshot) { s.Capacity = web.Capacity{} }, false, ""},
		"overtaken": {func(s *web.Snapshot) {
			s.Slots.Running, s.Tiers[0].SubmittedPerSecond, s.Tiers[1].OldestAgeSeconds = 32, 30.4, 252.7
		}, false, "PUBLIC has waited for 4 min 12 s while PAID arrives at 30 / s: tiers are strict."},
		"overtaken for long": {func(s *web.Snapshot) {
			s.Slots.Running, s.Tiers[0].SubmittedPerSecond, s.Tiers[1].OldestAgeSeconds = 32, 0.25, 11100
		}, false, "PUBLIC has waited for 3 h 5 min while PAID arrives at 0.2 / s: tiers are strict."},
		"slots are free": {func(s *web.Snapshot) { s.Tiers[0].SubmittedPerSecond, s.Tiers[1].OldestAgeSeconds = 30, 252 },
			false, ""},
		"not for long": {func(s *web.Snapshot) {
			s.Slots.Running, s.Tiers[0].SubmittedPerSecond, s.Tiers[1].OldestAgeSeconds = 32, 30, 59
		}, false, ""},
		"nothing better comes": {func(s *web.Snapshot) {
			s.Slots.Running, s.Tiers[1].SubmittedPerSecond, s.Tiers[1].OldestAgeSeconds = 32, 30, 252
		}, false, ""},
		"the best itself": {func(s *web.Snapshot) {
			s.Slots.Running, s.Tiers[0].SubmittedPerSecond, s.Tiers[0].OldestAgeSeconds = 32, 30, 252
		}, false, ""},
	} {
		s := newGauge().now
		s.Slots = slots(s.Workers)
		tc.change(&s)
		if got := hint(&s, tc.old); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
