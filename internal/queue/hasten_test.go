package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// A delayed job and one that is backing off are ready at once, each at the place of its arrival. Other jobs stay.
func TestHasten(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Capacity = 3 }, func(t *testing.T, e *queuetest.Env) {
		delayed, waiting := later(job.Paid, time.Hour), later(job.Paid, time.Hour)
		e.PutAll(t, delayed, waiting)
		retried := e.Start(t, job.Paid)
		failed, err := e.Fail(t.Context(), 0, []job.Failure{failure(retried, time.Hour)})
		ends(t, failed, err, job.OK)
		ids := e.PutAll(t, queuetest.Job(job.Paid), queuetest.Job(job.Paid), queuetest.Job(job.Paid)) // full now

		batch := []job.ID{retried.ID, delayed.ID, delayed.ID, ids[0], queuetest.NewID(0)}
		got, err := e.Hasten(t.Context(), 0, batch) // never refused
		words(t, got, err, job.OK, job.OK, job.OK, job.OK, job.Empty)
		snap := e.Snapshot(t)
		same(t, "bystander", snap.State(waiting.ID), job.Scheduled)
		for counter, want := range map[string]int64{"fresh": 4, "delayed": 1, "PAID:ready": 5, "PAID:scheduled": 1} {
			same(t, counter, snap.Counters[counter], want)
		}
		same(t, "doorbell", snap.Doorbell, 1)
		got, err = e.Hasten(t.Context(), 0, batch)
		words(t, got, err, job.OK, job.OK, job.OK, job.OK, job.Empty)
		e.Unchanged(t, snap)
		for i, l := range e.Take(t, 5) {
			same(t, fmt.Sprintf("job %d", i+1), l.ID, append([]job.ID{delayed.ID, retried.ID}, ids...)[i])
		}
	})
}

// A hastened job waits since it was hastened: its first lease says so. A job that was due before waits since then.
func TestHastenSaysSinceWhenItWaits(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		early, overdue := later(job.Paid, time.Hour), later(job.Unpaid, time.Hour)
		e.PutAll(t, early, overdue)
		e.Age(t, "scheduled", 2*time.Hour, overdue.ID)
		before := e.Now(t)
		same(t, "early", e.Hastens(t, early.ID), job.OK)
		same(t, "overdue", e.Hastens(t, overdue.ID), job.OK)
		leases := e.Take(t, 2)
		if at := leases[0].RunAt.UnixMilli(); leases[0].ID != early.ID || at < before || at > e.Now(t) {
			t.Errorf("%s waits since %d, hastened at %d", leases[0].ID, at, before)
		}
		same(t, "overdue", leases[1].RunAt, leases[1].ArrivedAt.Add(-time.Hour))
	})
}

func TestHastenRunningAndEnded(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		running, done := e.Start(t, job.Paid), e.Start(t, job.Paid)
		killed := e.Put(t, job.Paid)
		e.Finish(t, done)
		same(t, "kill", e.Kills(t, killed), job.Discarded)
		for range 2 { // in the outbox, and after it
			before := e.Snapshot(t)
			same(t, "running", e.Hastens(t, running.ID), job.Busy)
			same(t, "completed", e.Hastens(t, done.ID), job.Ended)
			same(t, "killed", e.Hastens(t, killed), job.Ended)
			e.Unchanged(t, before)
			e.Drain(t)
		}
	})
}

// The report of the attempt before gets the same answer as long as the job waits.
func TestHastenKeepsTheAnswer(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid)
		f := []job.Failure{failure(l, time.Hour)}
		first, err := e.Fail(t.Context(), 0, f)
		ends(t, first, err, job.OK)
		same(t, "hasten", e.Hastens(t, l.ID), job.OK)
		again, err := e.Fail(t.Context(), 0, f)
		ends(t, again, err, job.OK)
		same(t, "time", again[0].At, first[0].At)
	})
}
