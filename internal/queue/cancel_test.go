package queue_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

func TestCancelWaiting(t *testing.T) {
	t.Attr("proves", "S1-S4 S3-S11")
	t.Parallel()
	var mu sync.Mutex
	ended := map[string][]job.Tier{}
	count := func(o *queue.Options) {
		name := o.Nonce
		o.Cancelled = func(tier job.Tier) {
			mu.Lock()
			defer mu.Unlock()
			ended[name] = append(ended[name], tier)
		}
	}
	queuetest.EachWith(t, count, func(t *testing.T, e *queuetest.Env) {
		bystander := e.Put(t, job.Public)
		ready, delayed := queuetest.Job(job.Paid), later(job.Paid, time.Hour)
		retried := queuetest.Job(job.Paid)
		e.PutAll(t, retried)
		failed, err := e.Fail(t.Context(), 0, []job.Failure{failure(e.Take(t, 1)[0], time.Hour)})
		ends(t, failed, err, job.OK)
		e.PutAll(t, ready, delayed)

		before := e.Now(t)
		batch := []job.Cancellation{{ID: ready.ID}, {ID: delayed.ID}, {ID: retried.ID}, {ID: ready.ID},
			{ID: queuetest.NewID(0)}}
		got, err := e.Cancel(t.Context(), 0, batch)
		words(t, got, err, job.WasCancelled, job.WasCancelled, job.WasCancelled, job.WasCancelled, job.Empty)
		snap := e.Snapshot(t)
		same(t, "bystander", snap.State(bystander), job.Pending)
		same(t, "fresh", snap.Counters["fresh"], 1)
		same(t, "delayed", snap.Counters["delayed"], 0)
		same(t, "queued", len(snap.Sets["queue"]), 1)
		same(t, "scheduled", len(snap.Sets["scheduled"]), 0)
		got, err = e.Cancel(t.Context(), 0, batch)
		words(t, got, err, job.WasCancelled, job.WasCancelled, job.WasCancelled, job.WasCancelled, job.Empty)
		e.Unchanged(t, snap)
		out := e.Drain(t)
		same(t, "outcomes", len(out), 3)
		for _, o := range out {
			same(t, "outcome", o.Status, job.Cancelled)
			if at := o.EndedAt.UnixMilli(); at < before || at > e.Now(t) {
				t.Errorf("ended at %d, asked at %d", at, before)
			}
		}
		// The answer is the same after SQL has the outcome.
		got, err = e.Cancel(t.Context(), 0, batch[:1])
		words(t, got, err, job.WasCancelled)
		mu.Lock()
		defer mu.Unlock()
		if got := ended[e.Options.Nonce]; !slices.Equal(got, []job.Tier{job.Paid, job.Paid, job.Paid}) {
			t.Errorf("of what was cancelled were told the tiers %v", got)
		}
	})
}

func TestCancelRunning(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l, bystander := e.Start(t, job.Paid), e.Start(t, job.Paid)
		same(t, "word", e.Cancels(t, l.ID), job.Cancel)
		before := e.Snapshot(t)
		same(t, "state", before.State(l.ID), job.Processing)
		same(t, "again", e.Cancels(t, l.ID), job.Cancel)
		e.Unchanged(t, before)
		j, err := e.Find(t.Context(), l.ID)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "asked", j.CancelRequested, true)
		e.Finish(t, bystander) // no cancel was requested for this job: it completes
	})
}

func TestCancelEnded(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		done, dead := e.Start(t, job.Paid), e.Start(t, job.Paid)
		e.Finish(t, done)
		e.Bury(t, dead)
		for range 2 { // in the outbox, and after it
			before := e.Snapshot(t)
			same(t, "completed", e.Cancels(t, done.ID), job.Ended)
			same(t, "failed", e.Cancels(t, dead.ID), job.Ended)
			e.Unchanged(t, before)
			e.Drain(t)
		}
	})
}

func TestCancelGeneration(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid)
		e.Bury(t, l)
		e.Drain(t)
		second := l.Job
		second.Generation = 2
		got, err := e.Requeue(t.Context(), 0, []job.Job{second})
		words(t, got, err, job.OK)
		before := e.Snapshot(t)
		got, err = e.Cancel(t.Context(), 0, []job.Cancellation{{ID: l.ID, Generation: 1}, {ID: l.ID, Generation: 3}})
		words(t, got, err, job.Empty, job.Empty)
		e.Unchanged(t, before)
		got, err = e.Cancel(t.Context(), 0, []job.Cancellation{{ID: l.ID, Generation: 2}})
		words(t, got, err, job.WasCancelled)
	})
}

func TestCancelBatch(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		jobs, batch := make([]job.Submission, 100), make([]job.Cancellation, 100)
		for i := range jobs {
			jobs[i] = queuetest.Job(job.Unpaid)
			batch[i].ID = jobs[i].ID
		}
		e.PutAll(t, jobs...)
		got, err := e.Cancel(t.Context(), 0, batch)
		words(t, got, err, repeat(job.WasCancelled, 100)...)
		same(t, "outcomes", len(e.Drain(t)), 100)
	})
}
