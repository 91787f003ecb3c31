package queue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

func TestWorkers(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for _, name := range []string{"b", "a", "silent", "gone"} {
			if err := e.Register(t.Context(), job.WorkerInfo{Name: name, Slots: 3, Running: 1}); err != nil {
				t.Fatal(err)
			}
		}
		age := func(name string, by time.Duration) {
			text, _ := json.Marshal(job.WorkerInfo{Name: name, SeenAt: time.Now().Add(-by)})
			e.Redis.HSet(t.Context(), "{tierq}:workers", name, text)
		}
		age("silent", 20*time.Second)
		age("gone", 2*time.Minute)
		got, err := e.Workers(t.Context())
		if err != nil || len(got) != 2 || got[0].Name != "a" || got[1].Slots != 3 ||
			time.Since(got[0].SeenAt).Abs() > time.Minute {
			t.Errorf("%+v, %v", got, err)
		}
		if left := e.Redis.HKeys(t.Context(), "{tierq}:workers").Val(); len(left) != 3 {
			t.Errorf("left: %q", left)
		}
		if err := e.Unregister(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if got, _ := e.Workers(t.Context()); len(got) != 1 {
			t.Errorf("after one said good-bye: %+v", got)
		}
	})
}

func TestStatsBuckets(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		now, err := e.ReadClock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		now = now.Truncate(time.Minute) // the clock goes on from the time that is set: no bucket may end meanwhile
		many := func() map[string]int64 {
			counts := map[string]int64{}
			for i := range 120 {
				counts[fmt.Sprint("PAID:wait:", i)] = int64(i)
			}
			return counts
		}
		for _, before := range []time.Duration{0, time.Minute, 14 * time.Minute, 10 * time.Hour} {
			e.SetClock(now.Add(-before))
			counts := many()
			if err := e.AddStats(t.Context(), counts); err != nil || len(counts) != 0 {
				t.Fatalf("%d left, %v", len(counts), err)
			}
		}
		for window, want := range map[time.Duration]int64{10 * time.Second: 1, 2 * time.Minute: 2, 15 * time.Minute: 3,
			time.Hour: 3, 25 * time.Hour: 4, 1000 * time.Hour: 4} {
			e.SetClock(now)
			got, err := e.ReadStats(t.Context(), window)
			if err != nil || got["PAID:wait:100"] != 100*want || got["PAID:wait:119"] != 119*want {
				t.Errorf("the last %s: %d, %v, want %d", window, got["PAID:wait:100"], err, 100*want)
			}
		}
		for _, key := range e.AllKeys(t, "{tierq}:stats:*") {
			if e.Redis.PTTL(t.Context(), key).Val() < 0 {
				t.Errorf("%s stays for ever", key)
			}
		}
	})
}

// StorePlan replaces a plan only if it still has the version that the editor saw.
func TestStorePlanVersions(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		p, _ := e.Plans.Plan(job.Paid)
		p.TypeBackoff = map[string]job.Backoff{"SEND_EMAIL": {Base: time.Second, Factor: 3, Cap: time.Minute, Jitter: 0.1},
			"NONE": {}}
		stored, err := e.StorePlan(t.Context(), p, p.Version)
		if err != nil || stored.Version != p.Version+1 {
			t.Fatalf("%+v, %v", stored, err)
		}
		if _, err := e.StorePlan(t.Context(), p, p.Version); !errors.Is(err, job.ErrChanged) {
			t.Errorf("an old version: %v", err)
		}
		if _, err := e.StorePlan(t.Context(), p, 0); !errors.Is(err, job.ErrChanged) {
			t.Errorf("as if it were new: %v", err)
		}
		gold := p
		gold.Tier, gold.Priority = "GOLD", 9
		if got, err := e.StorePlan(t.Context(), gold, 0); err != nil || got.Version != 1 {
			t.Errorf("a new one: %+v, %v", got, err)
		}
		if err := e.LoadPlans(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, _ := e.Plans.Plan(job.Paid)
		if fmt.Sprint(got) != fmt.Sprint(stored) || got.BackoffOf("SEND_EMAIL").Base != time.Second ||
			got.BackoffOf("NONE").Delay(3, 0.5) != 0 || got.BackoffOf("OTHER") != got.Backoff {
			t.Errorf("read back %+v, stored %+v", got, stored)
		}
		if _, ok := e.Plans.Plan("GOLD"); !ok {
			t.Error("the new tier is not in the book")
		}
	})
}

// A worker elsewhere is listed until its next heartbeat is overdue, and what is asked of a worker is known to every
// process, until it is taken back or the worker is forgotten.
func TestWorkers_Asked(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Asks = &job.AskBook{} }, func(t *testing.T, e *queuetest.Env) {
		asks := e.Options.Asks
		for _, w := range []job.WorkerInfo{
			{Name: "k.slow", Kind: job.HTTPWorker, BeatEveryMs: 600_000, Silent: 10 * time.Minute},
			{Name: "k.late", Kind: job.HTTPWorker, BeatEveryMs: 10_000, Silent: 25 * time.Second},
		} {
			if err := e.Register(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := e.Workers(t.Context()); err != nil || len(got) != 1 || got[0].Name != "k.slow" {
			t.Errorf("%+v, %v", got, err)
		}
		for i, state := range []job.WorkerState{
			job.WorkerQuiet, job.WorkerTerminates, job.WorkerQuiet, job.WorkerRuns, job.WorkerTerminates,
		} {
			if err := e.AskWorker(t.Context(), "k.slow", state); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := e.LoadQueues(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if got := asks.Of("k.slow"); got != state || asks.Of("k.late") != job.WorkerRuns {
				t.Errorf("step %d: %s, not %s", i, got, state)
			}
		}
		if err := e.Register(t.Context(), job.WorkerInfo{Name: "k.slow", Silent: 10 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Workers(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := e.LoadQueues(t.Context()); err != nil || asks.Of("k.slow") != job.WorkerRuns {
			t.Errorf("%s is asked of a worker that is forgotten, %v", asks.Of("k.slow"), err)
		}
	})
}
