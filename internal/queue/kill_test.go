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

// Ready, delayed and retried jobs become dead letters at once. Each is counted for its tier, a repeat is not.
func TestKillWaiting(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	killed := map[string][]job.Tier{}
	count := func(o *queue.Options) {
		name := o.Nonce
		o.Killed = func(tier job.Tier) {
			mu.Lock()
			defer mu.Unlock()
			killed[name] = append(killed[name], tier)
		}
	}
	queuetest.EachWith(t, count, func(t *testing.T, e *queuetest.Env) {
		bystander := e.Put(t, job.Public)
		ready, delayed := queuetest.Job(job.Unpaid), later(job.Paid, time.Hour)
		retried := queuetest.Job(job.Paid)
		e.PutAll(t, retried)
		failed, err := e.Fail(t.Context(), 0, []job.Failure{failure(e.Take(t, 1)[0], time.Hour)})
		ends(t, failed, err, job.OK)
		e.PutAll(t, ready, delayed)

		before := e.Now(t)
		batch := []job.Killing{{ID: ready.ID, Reason: "first"}, {ID: delayed.ID, Reason: "two\nlines"}, {ID: retried.ID},
			{ID: ready.ID, Reason: "second"}, {ID: queuetest.NewID(0)}}
		got, err := e.Kill(t.Context(), 0, batch)
		words(t, got, err, job.Discarded, job.Discarded, job.Discarded, job.Discarded, job.Empty)
		snap := e.Snapshot(t)
		same(t, "bystander", snap.State(bystander), job.Pending)
		for counter, want := range map[string]int64{"fresh": 1, "delayed": 0, "delayedbytes": 0, "PAID:scheduled": 0,
			"UNPAID:ready": 0, "PAID:bytes": 0} {
			same(t, counter, snap.Counters[counter], want)
		}
		same(t, "queued", len(snap.Sets["queue"]), 1)
		same(t, "scheduled", len(snap.Sets["scheduled"]), 0)
		got, err = e.Kill(t.Context(), 0, batch)
		words(t, got, err, job.Discarded, job.Discarded, job.Discarded, job.Discarded, job.Empty)
		e.Unchanged(t, snap)
		out := e.Drain(t)
		same(t, "outcomes", len(out), 3)
		for _, o := range out {
			want := map[job.ID]string{ready.ID: "first", delayed.ID: "two\nlines", retried.ID: ""}[o.ID]
			same(t, "outcome", o.Status, job.Failed)
			same(t, "cause", o.Cause, job.Killed)
			same(t, "error", o.LastError, want)
			same(t, "payload", string(o.Payload), string(ready.Payload))
			same(t, "history", len(o.Attempts), o.Attempt) // a kill is no attempt
			if at := o.EndedAt.UnixMilli(); at < before || at > e.Now(t) {
				t.Errorf("ended at %d, killed at %d", at, before)
			}
		}
		// The answer is the same after SQL has the dead letter.
		got, err = e.Kill(t.Context(), 0, batch[:1])
		words(t, got, err, job.Discarded)
		same(t, "cancel", e.Cancels(t, ready.ID), job.Ended)
		mu.Lock()
		defer mu.Unlock()
		if got := killed[e.Options.Nonce]; !slices.Equal(got, []job.Tier{job.Unpaid, job.Paid, job.Paid}) {
			t.Errorf("the kills of the tiers %v were counted", got)
		}
	})
}

// A kill takes no running job, and changes no end.
func TestKillRunningAndEnded(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		running, done, dead := e.Start(t, job.Paid), e.Start(t, job.Paid), e.Start(t, job.Paid)
		cancelled := e.Put(t, job.Paid)
		e.Finish(t, done)
		e.Bury(t, dead)
		e.Cancels(t, cancelled)
		for range 2 { // in the outbox, and after it
			before := e.Snapshot(t)
			same(t, "running", e.Kills(t, running.ID), job.Busy)
			same(t, "completed", e.Kills(t, done.ID), job.Ended)
			same(t, "failed", e.Kills(t, dead.ID), job.Ended)
			same(t, "cancelled", e.Kills(t, cancelled), job.Ended)
			e.Unchanged(t, before)
			e.Drain(t)
		}
		e.Finish(t, running)
	})
}

// A late copy of a kill finds the next generation, and leaves it alone.
func TestKillGeneration(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		id := e.Put(t, job.Paid)
		same(t, "kill", e.Kills(t, id), job.Discarded)
		again := e.Drain(t)[0].Job
		again.Generation = 2
		got, err := e.Requeue(t.Context(), 0, []job.Job{again})
		words(t, got, err, job.OK)
		before := e.Snapshot(t)
		same(t, "late copy", e.Kills(t, id), job.Empty)
		e.Unchanged(t, before)
		got, err = e.Kill(t.Context(), 0, []job.Killing{{ID: id, Generation: 2}})
		words(t, got, err, job.Discarded)
	})
}

// The holder of an attempt that ended before the kill gets no second answer: the kill took the attempt's text away.
func TestKillEndsTheRepeats(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid)
		f := []job.Failure{failure(l, time.Hour)}
		got, err := e.Fail(t.Context(), 0, f)
		ends(t, got, err, job.OK)
		same(t, "kill", e.Kills(t, l.ID), job.Discarded)
		got, err = e.Fail(t.Context(), 0, f)
		ends(t, got, err, job.Lost)
		o := e.Drain(t)[0]
		same(t, "attempts", o.Attempt, 1)
		same(t, "history", o.Attempts[0].Outcome, string(job.HandlerError))
	})
}

// A killed job that Redis lost comes back as a dead letter, also where its row still has the attempt before.
func TestRestoreKilled(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		rows := []job.JournalRow{living(queuetest.NewID(0), toKill), living(queuetest.NewID(0), toKill, due),
			living(queuetest.NewID(0), toKill, ran)}
		got, err := e.Restore(t.Context(), 0, rows, time.Now())
		words(t, got, err, job.OK, job.OK, job.OK)
		for i := range rows {
			same(t, "kill again", e.Kills(t, rows[i].ID), job.Discarded)
		}
		e.Take(t, 0)
		out := e.Drain(t)
		same(t, "outcomes", len(out), 3)
		for _, o := range out {
			same(t, "outcome", o.Status, job.Failed)
			same(t, "cause", o.Cause, job.Killed)
			same(t, "error", o.LastError, "no use")
		}
	})
}
