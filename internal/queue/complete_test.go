package queue_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

func TestComplete(t *testing.T) {
	t.Attr("proves", "S2-S6 S0-S4 S1-S2")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l, bystander := e.Start(t, job.Unpaid), e.Start(t, job.Unpaid)
		before := e.Now(t)
		got, err := e.Complete(t.Context(), 0, []job.Completion{{LeaseRef: l.Ref(), Result: []byte(`{"sum":3}`)}})
		ends(t, got, err, job.OK)
		if at := got[0].At.UnixMilli(); at < before || at > e.Now(t) {
			t.Errorf("ended at %d, asked at %d", at, before)
		}
		snap := e.Snapshot(t)
		same(t, "state", snap.State(l.ID), job.Completed)
		same(t, "heartbeat_deadlines", len(snap.Sets["heartbeat_deadlines"]), 1)
		same(t, "run_deadlines", len(snap.Sets["run_deadlines"]), 1)
		same(t, "running", snap.Counters["UNPAID:running"], 1)
		same(t, "outbox bytes", snap.Counters["outbox_bytes"], int64(len(`{"sum":3}`)))
		same(t, "bystander", snap.State(bystander.ID), job.Processing)
		// For a first attempt this process writes the outcome from memory, and the outbox waits.
		same(t, "outbox's next try", int64(snap.Sets["outbox"][string(l.ID)]), got[0].At.Add(queue.OutboxLead).UnixMilli())
		j, err := e.Find(t.Context(), l.ID)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "result", string(j.Result), `{"sum":3}`)
		same(t, "ended", j.EndedAt, got[0].At)
		same(t, "status", j.Status, job.Completed)
	})
}

func TestCompleteLaterAttempt(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid)
		e.Reap(t, job.Crashed, l.ID)
		again := e.Take(t, 1)[0]
		e.Finish(t, again)
		// A later attempt has a history that only Redis has: any drainer may take the outcome at once.
		out, err := e.TakeOutbox(t.Context(), 0, 10)
		if err != nil || len(out) != 1 {
			t.Fatal(out, err)
		}
		same(t, "attempts in the history", len(out[0].Attempts), 1)
		same(t, "attempt", out[0].Attempt, 2)
	})
}

func TestCompleteCancelled(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid)
		e.Cancels(t, l.ID)
		got, err := e.Complete(t.Context(), 0, []job.Completion{{LeaseRef: l.Ref(), Result: []byte("1")}})
		ends(t, got, err, job.WasCancelled)
		out, err := e.TakeOutbox(t.Context(), 0, 10)
		if err != nil || len(out) != 1 {
			t.Fatal(out, err)
		}
		same(t, "outcome", out[0].Status, job.Cancelled)
		same(t, "result", string(out[0].Result), "")
	})
}

func TestCompleteBatch(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for range 101 {
			e.Put(t, job.Paid)
		}
		leases := append(e.Take(t, 100), e.Take(t, 1)...)
		batch := make([]job.Completion, 100)
		want := repeat(job.OK, 100)
		for i := range batch {
			batch[i] = job.Completion{LeaseRef: leases[i].Ref(), Result: bytes.Repeat([]byte{byte(i)}, 10_000)}
		}
		batch[40].Token, want[40] = "stale:1", job.Lost // a lost lease in the middle does not affect the others
		batch[99] = batch[98]
		got, err := e.Complete(t.Context(), 0, batch)
		ends(t, got, err, want...)
		snap := e.Snapshot(t)
		same(t, "running", snap.Counters["PAID:running"], 3)
		same(t, "outbox bytes", snap.Counters["outbox_bytes"], 98*10_000)

		// TakeOutbox returns the outcomes in pieces of about 1 MiB, each job once.
		e.Age(t, "outbox", time.Minute)
		seen := map[job.ID]bool{}
		for {
			out, err := e.TakeOutbox(t.Context(), 0, 100)
			if err != nil {
				t.Fatal(err)
			}
			if len(out) == 0 {
				break
			}
			for _, o := range out {
				if seen[o.ID] || len(o.Result) != 10_000 {
					t.Fatalf("%s again, or with %d bytes", o.ID, len(o.Result))
				}
				seen[o.ID] = true
			}
		}
		same(t, "outcomes", len(seen), 98)
	})
}
