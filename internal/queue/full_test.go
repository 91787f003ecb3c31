package queue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// A full Redis refuses calls that add jobs. Every call that frees memory works, and running jobs go on.
func TestFullRedisStillDrains(t *testing.T) {
	t.Attr("proves", "F22")
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		clients := queuetest.Connect(t, testkit.NewRedis(t, "--appendonly", "no").URL())
		e := queuetest.Open(t, clients, func(*queue.Options) {})
		ctx := t.Context()
		jobs := make([]job.Submission, 20)
		for i := range jobs {
			jobs[i] = owned("ann", 100)
		}
		e.PutAll(t, jobs...)
		l := e.Take(t, 12)
		due, hastened := later(job.Paid, time.Second), later(job.Paid, time.Hour)
		e.PutAll(t, due, hastened)
		e.Expire(t, job.Crashed, l[5].ID, l[6].ID, l[7].ID)
		e.Cancels(t, l[6].ID)
		e.Look(t, job.Crashed)
		e.Age(t, "suspects:crashed", queue.Patience)
		e.Age(t, "scheduled", time.Minute)
		e.Bury(t, l[8])

		full := func(limit string) {
			t.Helper()
			if err := e.Redis.ConfigSet(ctx, "maxmemory", limit).Err(); err != nil {
				t.Fatal(err)
			}
		}
		full("1mb") // less than an empty server uses
		_, err := e.Words(ctx, 0, []job.Submission{queuetest.Job(job.Paid)})
		if !errors.Is(err, job.ErrUnavailable) || !strings.Contains(err.Error(), "OOM") {
			t.Fatalf("submit on a full Redis: %v", err)
		}
		if err := e.Probe(ctx); !errors.Is(err, job.ErrUnavailable) {
			t.Fatalf("probe on a full Redis: %v", err)
		}

		beats, err := e.Heartbeat(ctx, 0, []job.Beat{beat(l[0], time.Minute)})
		words(t, beats, err, job.OK)
		same(t, "cancel of a running job", e.Cancels(t, l[1].ID), job.Cancel)
		same(t, "cancel of a waiting job", e.Cancels(t, jobs[19].ID), job.WasCancelled)
		same(t, "kill of a waiting job", e.Kills(t, jobs[18].ID), job.Discarded)
		same(t, "hasten of a delayed job", e.Hastens(t, hastened.ID), job.OK)
		e.Finish(t, l[0])
		got, err := e.Fail(ctx, 0, []job.Failure{failure(l[2], 0)})
		ends(t, got, err, job.OK)
		got, err = e.Fail(ctx, 0, []job.Failure{failure(l[3], time.Minute)})
		ends(t, got, err, job.OK)
		got, err = e.Release(ctx, 0, []job.Release{{LeaseRef: l[4].Ref()}})
		ends(t, got, err, job.OK)
		found := e.Look(t, job.Crashed)
		same(t, "reclaimed", found[l[5].ID], job.OK)
		same(t, "reclaimed, cancelled", found[l[6].ID], job.WasCancelled)
		if n, err := e.Promote(ctx, 0); n != 1 || err != nil {
			t.Fatal("promote:", n, err)
		}
		full("0")
		e.Age(t, "outbox", time.Hour) // ageing data needs memory
		full("1mb")
		out := take(t, e.Queue, 100)
		same(t, "outcomes", len(out), 5)
		for _, o := range out {
			words, err := e.Acknowledge(ctx, 0,
				[]job.Ack{{ID: o.ID, Generation: o.Generation, Attempt: o.Attempt, Status: o.Status}})
			if err != nil || words[0] != job.OK {
				t.Fatal("acknowledge:", words, err)
			}
		}
		e.Take(t, 11) // ready jobs can still be claimed
		e.Take(t, 0)  // and a claim of an empty queue is no error

		next := job.Job{ID: queuetest.NewID(0), Generation: 2, Attempt: 1, Tier: job.Paid, Payload: []byte("{}")}
		next.Type, next.MaxRetries = "SIMULATION", 1
		given, err := e.Requeue(ctx, 0, []job.Job{next})
		words(t, given, err, job.OK) // a promised requeue is kept, whether or not Redis still has the earlier generation
		e.Take(t, 1)

		full("0")
		e.Put(t, job.Paid) // the queue accepts jobs again
	})
}
