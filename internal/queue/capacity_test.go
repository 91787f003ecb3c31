package queue_test

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

func TestSubmitCapacity(t *testing.T) {
	t.Attr("proves", "S2-N13 S2-P8 S2-G5 S3-I6 T-5")
	t.Parallel()
	small := func(o *queue.Options) { o.Capacity, o.ScheduledLimit = 20, 3 }
	queuetest.EachWith(t, small, func(t *testing.T, e *queuetest.Env) {
		fill := func(tier job.Tier, n int) {
			t.Helper()
			batch := make([]job.Submission, n+1)
			for i := range batch {
				batch[i] = queuetest.Job(tier)
			}
			got, err := e.Words(t.Context(), 0, batch)
			words(t, got, err, append(repeat(job.OK, n), job.Full)...)
		}
		refused := func(tier job.Tier) {
			t.Helper()
			before := e.Snapshot(t)
			got, err := e.Words(t.Context(), 0, []job.Submission{queuetest.Job(tier)})
			words(t, got, err, job.Full)
			e.Unchanged(t, before)
		}
		fill(job.Public, 12) // 60 %
		fill(job.Unpaid, 5)  // 85 % is 17
		refused(job.Public)
		fill(job.Paid, 3) // 100 %
		refused(job.Unpaid)
		refused(job.Paid)
		same(t, "fresh", e.Snapshot(t).Counters["fresh"], 20)

		// Accepted jobs come back even when the queue is full: after a release, a failure and a crash.
		leases := e.Take(t, 3)
		e.PutAll(t, queuetest.Job(job.Paid), queuetest.Job(job.Paid), queuetest.Job(job.Paid))
		refused(job.Paid)
		given, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: leases[0].Ref()}})
		ends(t, given, err, job.OK)
		failed, err := e.Fail(t.Context(), 0, []job.Failure{{LeaseRef: leases[1].Ref(), Cause: job.HandlerError}})
		ends(t, failed, err, job.OK)
		same(t, "crashed", e.Reap(t, job.Crashed, leases[2].ID)[leases[2].ID], job.OK)
		same(t, "fresh after the returns", e.Snapshot(t).Counters["fresh"], 20)
		refused(job.Paid)

		// A second claim of these jobs frees no capacity again.
		e.Take(t, 3)
		same(t, "fresh after the second claims", e.Snapshot(t).Counters["fresh"], 20)
		refused(job.Paid)
	})
}

func TestSubmitRequeueBypassesCapacity(t *testing.T) {
	t.Attr("proves", "S2-P8")
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Capacity = 2 }, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid)
		e.Bury(t, l)
		e.Drain(t)
		e.PutAll(t, queuetest.Job(job.Paid), queuetest.Job(job.Paid))
		j := l.Job
		j.Generation = 2
		got, err := e.Requeue(t.Context(), 0, []job.Job{j})
		words(t, got, err, job.OK)
		same(t, "fresh", e.Snapshot(t).Counters["fresh"], 3) // counted, never refused
	})
}

// Jobs of a tier beyond its share keep no other tier out: neither jobs that came due, nor requeues, nor a flood of
// delayed jobs.
func TestCapacity_BeyondItsShareATierShutsNobodyOut(t *testing.T) {
	t.Attr("proves", "A29")
	t.Parallel()
	small := func(o *queue.Options) { o.Capacity, o.ScheduledLimit = 20, 50 }
	submit := func(t *testing.T, e *queuetest.Env, tier job.Tier, delay time.Duration, n int) (accepted int) {
		t.Helper()
		batch := make([]job.Submission, n)
		for i := range batch {
			batch[i] = queuetest.Job(tier)
			batch[i].Delay = delay
		}
		got, err := e.Words(t.Context(), 0, batch)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range got {
			if word == job.OK {
				accepted++
			}
		}
		return accepted
	}
	queuetest.EachWith(t, small, func(t *testing.T, e *queuetest.Env) {
		same(t, "PUBLIC for later", submit(t, e, job.Public, time.Minute, 60), 30) // 60 % of 50
		same(t, "UNPAID for later", submit(t, e, job.Unpaid, time.Hour, 60), 12)   // 85 % is 42
		same(t, "PAID for later", submit(t, e, job.Paid, time.Hour, 60), 8)
		e.Age(t, "scheduled", 2*time.Minute)
		if _, err := e.Promote(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		same(t, "fresh", e.Snapshot(t).Counters["fresh"], 30) // ten more than the capacity
		same(t, "PUBLIC beside those that came due", submit(t, e, job.Public, 0, 1), 0)
		same(t, "UNPAID beside them", submit(t, e, job.Unpaid, 0, 9), 5)
		same(t, "PAID beside them", submit(t, e, job.Paid, 0, 9), 3)
		same(t, "PUBLIC for later once more", submit(t, e, job.Public, time.Minute, 40), 10) // 20 of 50 are taken

		e.Take(t, 8) // PAID and UNPAID
		same(t, "PAID again", submit(t, e, job.Paid, 0, 9), 8)
	})
	// The same holds if the middle tier came first: PAID still has the 15 % of its own.
	queuetest.EachWith(t, small, func(t *testing.T, e *queuetest.Env) {
		same(t, "UNPAID", submit(t, e, job.Unpaid, 0, 8), 8)
		same(t, "PUBLIC for later", submit(t, e, job.Public, time.Minute, 12), 12)
		e.Age(t, "scheduled", time.Hour)
		if _, err := e.Promote(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		same(t, "UNPAID beside those that came due", submit(t, e, job.Unpaid, 0, 1), 0)
		same(t, "PAID beside them", submit(t, e, job.Paid, 0, 9), 3)
	})
}

func TestSubmitDelayed(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Capacity, o.ScheduledLimit = 2, 5 },
		func(t *testing.T, e *queuetest.Env) {
			batch := make([]job.Submission, 4)
			for i := range batch {
				batch[i] = queuetest.Job(job.Public)
				batch[i].Delay = time.Minute
			}
			got, err := e.Words(t.Context(), 0, batch)
			words(t, got, err, job.OK, job.OK, job.OK, job.Full) // 60 % of 5; the capacity of 2 limits ready jobs only
			snap := e.Snapshot(t)
			same(t, "delayed", snap.Counters["delayed"], 3)
			same(t, "scheduled", snap.Counters["PUBLIC:scheduled"], 3)
			same(t, "fresh", snap.Counters["fresh"], 0)
			same(t, "doorbell", snap.Doorbell, 0)
			j, err := e.Find(t.Context(), batch[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "status", j.Status, job.Scheduled)
			same(t, "due after arrival", j.RunAt.Sub(j.ArrivedAt), time.Minute)
		})
}
