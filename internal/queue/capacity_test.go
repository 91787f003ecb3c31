package queue_test

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

func TestSubmitCapacity_S2_N13_S2_P8_S2_G5_S3_I6_T_5(t *testing.T) {
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

		// What was accepted comes back whatever the capacity: a release, a failure, a crash.
		leases := e.Take(t, 3)
		e.PutAll(t, queuetest.Job(job.Paid), queuetest.Job(job.Paid), queuetest.Job(job.Paid))
		refused(job.Paid)
		given, err := e.Release(t.Context(), 0, []job.GiveBack{{LeaseRef: leases[0].Ref()}})
		ends(t, given, err, job.OK)
		failed, err := e.Fail(t.Context(), 0, []job.Failure{{LeaseRef: leases[1].Ref(), Cause: job.HandlerError}})
		ends(t, failed, err, job.OK)
		same(t, "crashed", e.Reap(t, job.Crashed, leases[2].ID)[leases[2].ID], job.OK)
		same(t, "fresh after the returns", e.Snapshot(t).Counters["fresh"], 20)
		refused(job.Paid)

		// Claimed again, they do not make room a second time.
		e.Take(t, 3)
		same(t, "fresh after the second claims", e.Snapshot(t).Counters["fresh"], 20)
		refused(job.Paid)
	})
}

func TestSubmitRequeueBypassesCapacity_S2_P8(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Capacity = 2 }, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid)
		e.Kill(t, l)
		e.Drain(t)
		e.PutAll(t, queuetest.Job(job.Paid), queuetest.Job(job.Paid))
		j := l.Job
		j.Generation = 2
		got, err := e.Requeue(t.Context(), 0, []job.Job{j})
		words(t, got, err, job.OK)
		same(t, "fresh", e.Snapshot(t).Counters["fresh"], 3) // counted, never refused
	})
}

func TestSubmitDelayed(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Capacity, o.ScheduledLimit = 2, 3 }, func(t *testing.T, e *queuetest.Env) {
		batch := make([]job.Submission, 4)
		for i := range batch {
			batch[i] = queuetest.Job(job.Public)
			batch[i].Delay = time.Minute
		}
		got, err := e.Words(t.Context(), 0, batch)
		words(t, got, err, job.OK, job.OK, job.OK, job.Full) // the capacity of 2 is another limit
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
