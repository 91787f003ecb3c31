package queue_test

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

func beat(l job.Lease, timeout time.Duration) job.Beat {
	return job.Beat{LeaseRef: l.Ref(), Timeout: timeout}
}

func TestHeartbeat(t *testing.T) {
	t.Attr("proves", "S2-P5 S2-G2")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l, bystander := e.Start(t, job.Public), e.Start(t, job.Public)
		e.Age(t, "heartbeat_deadlines", time.Hour)
		still := e.Snapshot(t)
		before := e.Now(t)
		got, err := e.Heartbeat(t.Context(), 0, []job.Beat{beat(l, 3*time.Second)})
		words(t, got, err, job.OK)
		after := e.Now(t)
		snap := e.Snapshot(t)
		deadline := int64(snap.Sets["heartbeat_deadlines"][string(l.ID)])
		if deadline < before+3000 || deadline > after+3000 {
			t.Errorf("deadline %d after a beat between %d and %d", deadline, before, after)
		}
		same(t, "bystander's deadline", snap.Sets["heartbeat_deadlines"][string(bystander.ID)],
			still.Sets["heartbeat_deadlines"][string(bystander.ID)])
		// heartbeats do not extend the run deadline
		same(t, "max time", snap.Sets["run_deadlines"][string(l.ID)], still.Sets["run_deadlines"][string(l.ID)])
	})
}

func TestHeartbeatOnlyForward(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid) // 15 s
		before := e.Snapshot(t)
		got, err := e.Heartbeat(t.Context(), 0, []job.Beat{beat(l, time.Second)})
		words(t, got, err, job.OK)
		e.Unchanged(t, before)
	})
}

func TestHeartbeatCancel(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l, other := e.Start(t, job.Paid), e.Start(t, job.Paid)
		same(t, "cancel", e.Cancels(t, l.ID), job.Cancel)
		e.Age(t, "heartbeat_deadlines", time.Minute)
		got, err := e.Heartbeat(t.Context(), 0, []job.Beat{beat(l, 15*time.Second), beat(other, 15*time.Second)})
		words(t, got, err, job.Cancel, job.OK)
		if now := e.Now(t); int64(e.Snapshot(t).Sets["heartbeat_deadlines"][string(l.ID)]) < now {
			t.Error("a job that is asked to end lost its lease")
		}
	})
}

func TestHeartbeatBatch(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for range 100 {
			e.Put(t, job.Paid)
		}
		leases := e.Take(t, 100)
		e.Finish(t, leases[50])
		e.Age(t, "heartbeat_deadlines", time.Hour)
		var batch []job.Beat
		want := repeat(job.OK, 100)
		for _, l := range leases[:99] {
			batch = append(batch, beat(l, time.Second))
		}
		batch = append(batch, beat(leases[0], time.Second)) // twice in one batch
		want[50] = job.Lost
		got, err := e.Heartbeat(t.Context(), 0, batch)
		words(t, got, err, want...)
		same(t, "expired", len(e.Look(t, job.Crashed)), 1) // only leases[99]
	})
}
