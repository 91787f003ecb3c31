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

func ack(l job.Lease, s job.Status) job.Ack {
	return job.Ack{ID: l.ID, Generation: l.Generation, Attempt: l.Attempt, Status: s}
}

func about(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got > want || got < want-5*time.Second {
		t.Errorf("%s is %s, want %s", what, got, want)
	}
}

func TestAcknowledgeTTL(t *testing.T) {
	t.Attr("proves", "S2-N11 S2-P12 T-8")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		done, dead, cancelled, running := e.Start(t, job.Paid), e.Start(t, job.Paid), e.Start(t, job.Paid),
			e.Start(t, job.Paid)
		e.Finish(t, done)
		e.Bury(t, dead)
		e.Cancels(t, cancelled.ID)
		got, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: cancelled.Ref()}})
		ends(t, got, err, job.WasCancelled)
		for _, l := range []job.Lease{done, dead, cancelled, running} {
			if ttl := e.Snapshot(t).TTL(string(l.ID)); ttl >= 0 { // it begins at acknowledge, not at the end
				t.Errorf("%s has a time to live of %s before acknowledge", l.ID, ttl)
			}
		}
		e.Drain(t)
		snap := e.Snapshot(t)
		about(t, "completed", snap.TTL(string(done.ID)), 24*time.Hour)
		about(t, "failed", snap.TTL(string(dead.ID)), 24*time.Hour)
		about(t, "cancelled", snap.TTL(string(cancelled.ID)), 24*time.Hour)
		same(t, "failed's state", snap.State(dead.ID), job.Failed)
		same(t, "outbox", len(snap.Sets["outbox"]), 0)
		same(t, "histories", len(snap.Histories), 0)
		same(t, "acknowledged", snap.Counters["acknowledged"], 3)
		same(t, "outbox bytes", snap.Counters["outbox_bytes"], 0)
		same(t, "bystander", snap.State(running.ID), job.Processing)
		if _, err := e.Find(t.Context(), dead.ID); err != nil {
			t.Error("the failed one at once:", err)
		}
		e.AgeEnd(t, time.Hour, dead.ID)
		e.Elapse(t, time.Hour)
		if _, err := e.Find(t.Context(), dead.ID); !errors.Is(err, job.ErrNotFound) {
			t.Error("the failed one after an hour:", err)
		}
		if _, err := e.Find(t.Context(), done.ID); err != nil {
			t.Error("the completed one after an hour:", err)
		}
		e.Elapse(t, 23*time.Hour)
		same(t, "jobs after a day", len(e.Snapshot(t).Jobs), 1)
	})
}

// A job that ran twice (Redis had forgotten its end) may end the same way with another result. SQL's first result
// stands, and Redis drops its own.
func TestAcknowledgeDropsAnotherRunsResult(t *testing.T) {
	t.Attr("proves", "F17")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		again, once := e.Start(t, job.Paid), e.Start(t, job.Paid)
		e.Finish(t, again, once)
		known := ack(again, job.Completed)
		known.Known = true
		got, err := e.Acknowledge(t.Context(), 0, []job.Ack{known, ack(once, job.Completed)})
		words(t, got, err, job.OK, job.OK)
		snap := e.Snapshot(t)
		for id, want := range map[job.ID]bool{again.ID: false, once.ID: true} {
			if _, told := snap.Jobs[string(id)]["result"]; told != want {
				t.Errorf("the result of %s is told: %v, want %v", id, told, want)
			}
		}
	})
}

func TestAcknowledgePace(t *testing.T) {
	t.Attr("proves", "S2-N11")
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.KeepEnded = 1000 }, func(t *testing.T, e *queuetest.Env) {
		for _, c := range []struct {
			perSecond float64
			want      time.Duration
		}{{0.001, 24 * time.Hour}, {2, 500 * time.Second}, {5000, time.Minute}} {
			e.SetRate(c.perSecond)
			l := e.Start(t, job.Paid)
			e.Finish(t, l)
			e.Drain(t)
			about(t, "time to live", e.Snapshot(t).TTL(string(l.ID)), c.want)
		}
	})
}

func TestAcknowledgeForgets(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Retention, o.FailedRetention = 0, 0 },
		func(t *testing.T, e *queuetest.Env) {
			done, dead := e.Start(t, job.Paid), e.Start(t, job.Paid)
			e.Finish(t, done)
			e.Bury(t, dead)
			e.Drain(t)
			snap := e.Snapshot(t)
			same(t, "jobs", len(snap.Jobs), 0)
			same(t, "histories", len(snap.Histories), 0)
		})
}

func TestAcknowledgeSheds(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		small, big := e.Start(t, job.Paid), e.Start(t, job.Paid)
		got, err := e.Complete(t.Context(), 0, []job.Completion{
			{LeaseRef: small.Ref(), Result: bytes.Repeat([]byte("1"), 1024)},
			{LeaseRef: big.Ref(), Result: bytes.Repeat([]byte("1"), 1025)}})
		ends(t, got, err, job.OK, job.OK)
		same(t, "outbox bytes", e.Snapshot(t).Counters["outbox_bytes"], 2049)
		e.Drain(t)
		snap := e.Snapshot(t)
		same(t, "small result", len(snap.Jobs[string(small.ID)]["result"]), 1024)
		same(t, "big result", len(snap.Jobs[string(big.ID)]["result"]), 0)
		// A repeat of the same ending still gets its answer.
		again, err := e.Complete(t.Context(), 0, []job.Completion{{LeaseRef: big.Ref(), Result: []byte("1")}})
		ends(t, again, err, job.OK)
		same(t, "answer", again[0], got[1])
		e.Unchanged(t, snap)
	})
}

func TestAcknowledgeOnlyWhatItMeans(t *testing.T) {
	t.Attr("proves", "S4-M6")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l, running := e.Start(t, job.Paid), e.Start(t, job.Paid)
		waiting := e.Put(t, job.Paid)
		e.Finish(t, l)
		before := e.Snapshot(t)
		good := ack(l, job.Completed)
		generation, attempt := good, good
		generation.Generation, attempt.Attempt = 2, 2
		got, err := e.Acknowledge(t.Context(), 0, []job.Ack{
			generation, attempt, ack(running, job.Completed), {ID: waiting, Generation: 1, Status: job.Completed},
			{ID: queuetest.NewID(0), Generation: 1, Status: job.Failed}})
		words(t, got, err, repeat(job.Empty, 5)...)
		e.Unchanged(t, before)
		got, err = e.Acknowledge(t.Context(), 0, []job.Ack{good, good})
		words(t, got, err, job.OK, job.Empty)
		before = e.Snapshot(t)
		got, err = e.Acknowledge(t.Context(), 0, []job.Ack{good})
		words(t, got, err, job.Empty)
		e.Unchanged(t, before)
	})
}

// A late acknowledge of the old generation does not change the new one.
func TestAcknowledgeOldGeneration(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		j := dead(t, e, job.Public)
		got, err := e.Requeue(t.Context(), 0, []job.Job{j})
		words(t, got, err, job.OK)
		e.Bury(t, e.Take(t, 1)[0])
		before := e.Snapshot(t)
		got, err = e.Acknowledge(t.Context(), 0, []job.Ack{{ID: j.ID, Generation: 1, Attempt: j.Attempt, Status: job.Failed}})
		words(t, got, err, job.Empty)
		e.Unchanged(t, before)
	})
}

// If the stores disagree, SQL's outcome wins: the state in Redis follows it, and the data of the other outcome is
// removed.
func TestAcknowledgeSQLWins(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		done, dead := e.Start(t, job.Paid), e.Start(t, job.Paid)
		e.Finish(t, done)
		e.Bury(t, dead)
		got, err := e.Acknowledge(t.Context(), 0, []job.Ack{ack(done, job.Failed), ack(dead, job.Completed)})
		words(t, got, err, job.OK, job.OK)
		snap := e.Snapshot(t)
		same(t, "completed, SQL says failed", snap.State(done.ID), job.Failed)
		same(t, "its result", snap.Jobs[string(done.ID)]["result"], "")
		about(t, "its time to live", snap.TTL(string(done.ID)), 24*time.Hour)
		same(t, "failed, SQL says completed", snap.State(dead.ID), job.Completed)
		same(t, "histories", len(snap.Histories), 0)
	})
}

func TestAcknowledgeBatch(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for range 100 {
			e.Put(t, job.Paid)
		}
		leases := e.Take(t, 100)
		e.Finish(t, leases...)
		acks := make([]job.Ack, 100)
		for i, l := range leases {
			acks[i] = ack(l, job.Completed)
		}
		got, err := e.Acknowledge(t.Context(), 0, acks)
		words(t, got, err, repeat(job.OK, 100)...)
		same(t, "acknowledged", e.Snapshot(t).Counters["acknowledged"], 100)
	})
}
