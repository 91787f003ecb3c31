package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

func failure(l job.Lease, delay time.Duration) job.Failure {
	return job.Failure{LeaseRef: l.Ref(), Cause: job.HandlerError, Error: "boom: it broke", Delay: delay}
}

func TestFailGoesBackToItsPlace(t *testing.T) {
	t.Attr("proves", "S2-P3")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		first, second, third := e.Put(t, job.Paid), e.Put(t, job.Paid), e.Put(t, job.Paid)
		place := e.Snapshot(t).Sets["queue"]
		l := e.Take(t, 1)[0]
		got, err := e.Fail(t.Context(), 0, []job.Failure{failure(l, 0)})
		ends(t, got, err, job.OK)
		snap := e.Snapshot(t)
		same(t, "state", snap.State(first), job.Pending)
		same(t, "score", snap.Sets["queue"][string(first)], place[string(first)])
		same(t, "fresh", snap.Counters["fresh"], 2)
		same(t, "ready", snap.Counters["PAID:ready"], 3)
		for i, l := range e.Take(t, 3) {
			same(t, fmt.Sprintf("job %d", i+1), l.ID, []job.ID{first, second, third}[i])
		}
	})
}

func TestFailWaits(t *testing.T) {
	t.Attr("proves", "S0-N7 S3-I4 S4-T2")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l, bystander := e.Start(t, job.Paid), e.Start(t, job.Paid)
		got, err := e.Fail(t.Context(), 0, []job.Failure{failure(l, 2*time.Second)})
		ends(t, got, err, job.OK)
		j, err := e.Find(t.Context(), l.ID)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "status", j.Status, job.Scheduled)
		same(t, "due", j.RunAt, got[0].At.Add(2*time.Second))
		same(t, "retries", j.RetryCount, 1)
		same(t, "cause", j.Cause, job.HandlerError)
		same(t, "error", j.LastError, "boom: it broke")
		snap := e.Snapshot(t)
		same(t, "delayed", snap.Counters["delayed"], 0) // this counter has only jobs scheduled at submit
		same(t, "scheduled", snap.Counters["PAID:scheduled"], 1)
		same(t, "bystander", snap.State(bystander.ID), job.Processing)
	})
}

func TestFailUntilSpent(t *testing.T) {
	t.Attr("proves", "S2-N4 S2-S8 S0-S5 S0-S6")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for tier, retries := range map[job.Tier]int{job.Paid: 5, job.Unpaid: 2, job.Public: 1} {
			id := e.Put(t, tier)
			for n := range retries {
				l := e.Take(t, 1)[0]
				same(t, "retries before", l.RetryCount, n)
				got, err := e.Fail(t.Context(), 0, []job.Failure{failure(l, 0)})
				ends(t, got, err, job.OK)
			}
			last := e.Take(t, 1)[0]
			got, err := e.Fail(t.Context(), 0, []job.Failure{failure(last, 0)})
			ends(t, got, err, job.Discarded)
			same(t, "state", e.Snapshot(t).State(id), job.NeedDiscard)
			out := e.Drain(t)
			same(t, "outcome", out[0].Status, job.Failed)
			same(t, "total retries", out[0].RetryCount, retries)
			same(t, "attempt", out[0].Attempt, retries+1)
			same(t, "first tried", out[0].FirstTriedAt.IsZero(), false)
			same(t, "ended", out[0].EndedAt, got[0].At)
			same(t, "cause", out[0].Cause, job.HandlerError)
			same(t, "payload", string(out[0].Payload), `{"steps":[]}`)
			same(t, "history", len(out[0].Attempts), retries+1)
			for i, a := range out[0].Attempts {
				same(t, "number", a.Number, i+1)
				same(t, "outcome", a.Outcome, string(job.HandlerError))
				same(t, "worker", a.Worker, e.Options.Nonce)
				same(t, "its error", a.Error, "boom: it broke")
				if a.StartedAt.IsZero() || a.FinishedAt.Before(a.StartedAt) {
					t.Errorf("attempt %d from %v to %v", i+1, a.StartedAt, a.FinishedAt)
				}
			}
		}
	})
}

func TestFailFinal(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid)
		e.Bury(t, l)
		out, err := e.TakeOutbox(t.Context(), 0, 1)
		if err != nil || len(out) != 1 {
			t.Fatal(out, err)
		}
		same(t, "outcome", out[0].Status, job.Failed)
		same(t, "cause", out[0].Cause, job.PermanentError)
		same(t, "retries", out[0].RetryCount, 0)
	})
}

func TestFailCancelled(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		a, b := e.Start(t, job.Paid), e.Start(t, job.Paid)
		e.Cancels(t, a.ID)
		e.Cancels(t, b.ID)
		final := failure(b, 0)
		final.Final = true
		got, err := e.Fail(t.Context(), 0, []job.Failure{failure(a, time.Minute), final})
		ends(t, got, err, job.WasCancelled, job.WasCancelled)
		for _, o := range e.Drain(t) {
			same(t, "outcome", o.Status, job.Cancelled)
			same(t, "retries", o.RetryCount, 0)
			same(t, "history", len(o.Attempts), 1)
		}
	})
}

func TestFailBatch(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for range 100 {
			e.Put(t, job.Unpaid)
		}
		leases := e.Take(t, 100)
		batch := make([]job.Failure, 100)
		want := repeat(job.OK, 100)
		for i, l := range leases {
			batch[i] = failure(l, time.Duration(i%2)*time.Minute)
			batch[i].Error = strings.Repeat("é \r\n", 400) // 2 KB, any text
		}
		batch[7].Attempt, want[7] = 9, job.Lost
		batch[99] = batch[98]
		got, err := e.Fail(t.Context(), 0, batch)
		ends(t, got, err, want...)
		j, err := e.Find(t.Context(), leases[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "error", j.LastError, strings.Repeat("é \r\n", 400))
		snap := e.Snapshot(t)
		same(t, "back", snap.Counters["UNPAID:ready"]+snap.Counters["UNPAID:scheduled"], 98)
		same(t, "doorbell", snap.Doorbell, 1)
	})
}
