package queue_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// dead returns a job that failed and is in SQL, with its next generation.
func dead(t *testing.T, e *queuetest.Env, tier job.Tier) job.Job {
	t.Helper()
	id := e.Put(t, tier)
	for {
		l := e.Take(t, 1)[0]
		same(t, "claimed", l.ID, id)
		got, err := e.Fail(t.Context(), 0, []job.Failure{failure(l, 0)})
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Word == job.Discarded {
			break
		}
	}
	j := e.Drain(t)[0].Job
	j.Generation++
	return j
}

func TestRequeue(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		j := dead(t, e, job.Unpaid)
		bystander := e.Put(t, job.Unpaid)
		j.Owner = "key-9"
		before := e.Now(t) + 1000
		// the requeue arrives later than the bystander, not in its millisecond
		e.Redis.Set(t.Context(), queue.Key(0, "clock"), before, 0)
		got, err := e.Requeue(t.Context(), 0, []job.Job{j, j})
		words(t, got, err, job.OK, job.Duplicate)
		snap := e.Snapshot(t)
		same(t, "fresh", snap.Counters["fresh"], 2)
		same(t, "history", len(snap.Histories), 0)
		f, err := e.Find(t.Context(), j.ID)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "status", f.Status, job.Pending)
		same(t, "generation", f.Generation, 2)
		same(t, "retries", f.RetryCount, 0)
		same(t, "attempt", f.Attempt, 3) // attempt numbers continue
		same(t, "first tried", f.FirstTriedAt.IsZero(), true)
		same(t, "ended", f.EndedAt.IsZero(), true)
		same(t, "cause", f.Cause, "")
		same(t, "owner", f.Owner, "key-9")
		same(t, "payload", string(f.Payload), string(j.Payload))
		same(t, "arrival", f.ArrivedAt.UnixMilli(), before)
		same(t, "first by arrival", e.Take(t, 1)[0].ID, bystander)
		l := e.Take(t, 1)[0]
		same(t, "attempt of the claim", l.Attempt, 4)

		// From now on every repeat of the requeue is a DUPLICATE, in each later state of the job.
		for _, move := range []func(){func() {}, func() { e.Finish(t, l) }, func() { e.Drain(t) }} {
			move()
			still := e.Snapshot(t)
			got, err = e.Requeue(t.Context(), 0, []job.Job{j})
			words(t, got, err, job.Duplicate)
			e.Unchanged(t, still)
		}
	})
}

// A requeue of a job that Redis has forgotten, or never had, creates the job.
func TestRequeueForgotten(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		j := dead(t, e, job.Public)
		e.Elapse(t, 24*time.Hour)
		if _, err := e.Find(t.Context(), j.ID); !errors.Is(err, job.ErrNotFound) {
			t.Fatal("after its time to live:", err)
		}
		j.Attempt = 7 // SQL has more attempts
		got, err := e.Requeue(t.Context(), 0, []job.Job{j})
		words(t, got, err, job.OK)
		same(t, "attempt", e.Take(t, 1)[0].Attempt, 8)
	})
}

func TestRequeueBusy(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		s := queuetest.Job(job.Paid)
		e.PutAll(t, s)
		next := job.Job{ID: s.ID, Generation: 2, Tier: job.Paid, Type: "SIMULATION", Payload: []byte("{}")}
		var l job.Lease
		for _, move := range []func(){
			func() {},                      // waiting
			func() { l = e.Take(t, 1)[0] }, // running
			func() {
				got, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: l.Ref(), Delay: time.Minute}})
				ends(t, got, err, job.OK)
			},
			func() { // dead, not yet in SQL
				e.Age(t, "scheduled", time.Hour)
				if _, err := e.Promote(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				e.Bury(t, e.Take(t, 1)[0])
			},
		} {
			move()
			before := e.Snapshot(t)
			got, err := e.Requeue(t.Context(), 0, []job.Job{next})
			words(t, got, err, job.Busy)
			e.Unchanged(t, before)
		}
		e.Drain(t)
		got, err := e.Requeue(t.Context(), 0, []job.Job{next})
		words(t, got, err, job.OK)
	})
}

func TestRequeueLate(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		j := dead(t, e, job.Paid)
		before := e.Snapshot(t)
		e.SetClock(time.UnixMilli(e.Now(t)).Add(-31 * time.Second))
		got, err := e.Requeue(t.Context(), 0, []job.Job{j})
		words(t, got, err, job.Late)
		e.Unchanged(t, before)
		got, err = e.Requeue(t.Context(), 0, []job.Job{j}) // the queue has read the clock again
		words(t, got, err, job.OK)
	})
}

func TestRequeueBatch(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		batch := make([]job.Job, 100)
		for i := range batch {
			batch[i] = job.Job{ID: queuetest.NewID(0), Generation: 3, Attempt: i, Tier: job.Public, Type: "SIMULATION",
				Payload: bytes.Repeat([]byte("p"), 10_000)}
		}
		got, err := e.Requeue(t.Context(), 0, batch)
		words(t, got, err, repeat(job.OK, 100)...)
		for i, l := range e.Take(t, 100) {
			same(t, "attempt", l.Attempt, i+1)
			same(t, "max retries", l.MaxRetries, 0)
		}
	})
}

// The old holder of a dead generation cannot change the next generation.
func TestRequeueFencesTheOldGeneration(t *testing.T) {
	t.Attr("proves", "S2-G2")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		old := e.Start(t, job.Public)
		e.Reap(t, job.Stuck, old.ID)
		e.Take(t, 1)
		e.Reap(t, job.Stuck, old.ID)
		j := e.Drain(t)[0].Job
		j.Generation = 2
		got, err := e.Requeue(t.Context(), 0, []job.Job{j})
		words(t, got, err, job.OK)
		e.Take(t, 1)
		before := e.Snapshot(t)
		for verb, write := range writes {
			got, err := write(t.Context(), e.Queue, old.Ref())
			if err != nil || got[0].Word != job.Lost {
				t.Errorf("%s: %v, %v", verb, got, err)
			}
		}
		e.Unchanged(t, before)
	})
}
