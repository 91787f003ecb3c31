package leasing

import (
	"reflect"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// A worker that calls is seen, with what it says; its record is due again only after it was heard of again.
func TestSeen(t *testing.T) {
	t.Parallel()
	eachWorld(t, 1, func(t *testing.T, w *world) {
		info := &job.WorkerInfo{Host: "img-3", PID: 7, Version: "1.4", Language: "python", Slots: 16}
		w.See(job.WorkerSight{
			Key: "k", Worker: "w", Queues: []string{"films"}, Running: 3, BeatEvery: 10 * time.Second, Info: info,
		})
		due := w.Seen()
		if len(due) != 1 || due[0].StartedAt.IsZero() || due[0].Silent > time.Second {
			t.Fatalf("%+v", due)
		}
		due[0].StartedAt, due[0].Silent = time.Time{}, 0
		want := job.WorkerInfo{
			Name: "k.w", Kind: job.HTTPWorker, State: job.WorkerRuns, Host: "img-3", PID: 7, Version: "1.4",
			Language: "python", Slots: 16, Running: 3, Queues: []string{"films"}, BeatEveryMs: 10_000,
		}
		if !reflect.DeepEqual(due[0], want) {
			t.Errorf("%+v, not %+v", due[0], want)
		}
		w.See(job.WorkerSight{Key: "k", Worker: "w", Running: 5})
		if due := w.Seen(); len(due) != 0 {
			t.Errorf("at once again: %+v", due)
		}
		w.age("k.w", registerEvery)
		if due := w.Seen(); len(due) != 1 || due[0].Running != 5 || due[0].Language != "python" {
			t.Errorf("after a while: %+v", due)
		}
		w.age("k.w", registerEvery)
		if due := w.Seen(); len(due) != 0 {
			t.Errorf("not heard of since: %+v", due)
		}
		w.age("k.w", forgetAfter+time.Minute)
		if w.Seen(); len(w.sights.all) != 0 {
			t.Errorf("a silent worker is kept: %+v", w.sights.all)
		}
	})
}

// age makes a worker's last call, and its last record, older.
func (w *world) age(name string, by time.Duration) {
	w.sights.mu.Lock()
	defer w.sights.mu.Unlock()
	one := w.sights.all[name]
	one.at, one.registered = one.at.Add(-by), one.registered.Add(-by)
}

// A worker whose claim waits is seen all the time. When it is to be quiet its claim is answered, and the job that comes
// then goes to another worker.
func TestSeen_QuietWhileWaiting(t *testing.T) {
	t.Parallel()
	eachWorld(t, 1, func(t *testing.T, w *world) {
		w.See(job.WorkerSight{Key: "key", Worker: "w", Running: -1})
		asked := claim("c", 1, time.Minute, "films")
		answered := make(chan []job.WorkerLease)
		go func() { answered <- w.claims(t, asked) }()
		waitFor(t, func() bool { return w.line() == 1 })
		w.Seen()
		w.age("key.w", time.Hour)
		if due := w.Seen(); len(due) != 1 || due[0].Silent != 0 {
			t.Errorf("while its claim waits: %+v", due)
		}
		if !w.asks.Set(map[string]job.WorkerState{"key.w": job.WorkerQuiet}) {
			t.Error("nothing was changed")
		}
		w.Tell()
		select {
		case leases := <-answered:
			if len(leases) != 0 {
				t.Errorf("a quiet worker got %v", idsOf(leases))
			}
		case <-time.After(20 * time.Second):
			t.Fatal("its claim waits on")
		}
		ids := w.into(t, 0, "films", job.Paid, 1)
		if got := w.claims(t, claim("d", 1, time.Second, "films")); len(got) != 0 {
			t.Errorf("a quiet worker got %v", idsOf(got))
		}
		other := claim("e", 1, 20*time.Second, "films")
		other.Worker = "other"
		if got := idsOf(w.claims(t, other)); !reflect.DeepEqual(got, ids) {
			t.Errorf("another worker got %v, not %v", got, ids)
		}
		w.asks.Set(nil)
		ids = w.into(t, 0, "films", job.Paid, 1)
		if got := idsOf(w.claims(t, claim("f", 1, 20*time.Second, "films"))); !reflect.DeepEqual(got, ids) {
			t.Errorf("after its resume it got %v, not %v", got, ids)
		}
	})
}
