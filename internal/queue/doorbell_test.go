package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// Every script that makes a job ready rings the doorbell, and so does a claim that leaves jobs. There is never
// more than one token.
func TestDoorbell(t *testing.T) {
	t.Attr("proves", "S3-I17")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		tokens := func(what string, want int) {
			t.Helper()
			same(t, "tokens after "+what, e.Snapshot(t).Doorbell, want)
			e.Redis.Del(t.Context(), queue.Key(0, "doorbell"))
		}
		e.PutAll(t, queuetest.Job(job.Paid), queuetest.Job(job.Paid))
		e.Put(t, job.Paid)
		tokens("two submits of three", 1)
		delayed := later(job.Paid, time.Minute)
		e.PutAll(t, delayed)
		tokens("a delayed submit", 0)
		one := e.Take(t, 1)[0]
		tokens("a claim that leaves jobs", 1)
		two := e.Take(t, 2)
		tokens("a claim that leaves none", 0)

		got, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: one.Ref()}})
		ends(t, got, err, job.OK)
		tokens("a release", 1)
		got, err = e.Fail(t.Context(), 0, []job.Failure{failure(two[0], 0)})
		ends(t, got, err, job.OK)
		tokens("a failure without backoff", 1)
		e.Reap(t, job.Crashed, two[1].ID)
		tokens("a reclaim", 1)
		e.Age(t, "scheduled", time.Hour)
		if n, err := e.Promote(t.Context(), 0); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		tokens("a promotion", 1)

		l := e.Take(t, 4)
		e.Redis.Del(t.Context(), queue.Key(0, "doorbell"))
		got, err = e.Fail(t.Context(), 0, []job.Failure{failure(l[0], time.Minute)})
		ends(t, got, err, job.OK)
		tokens("a failure that waits", 0)
		e.Finish(t, l[1])
		tokens("a completion", 0)
		e.Bury(t, l[2])
		out := e.Drain(t)
		j := out[0].Job
		if j.Status != job.Failed {
			j = out[1].Job
		}
		j.Generation++
		again, err := e.Requeue(t.Context(), 0, []job.Job{j})
		words(t, again, err, job.OK)
		tokens("a requeue", 1)

		for range 3 {
			if err := e.Ring(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		tokens("three rings", 1)
	})
}

func TestDoorbellWakes(t *testing.T) {
	t.Attr("proves", "S3-I5")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		e.Put(t, job.Paid)
		start := time.Now()
		if err := e.Wait(t.Context(), 0); err != nil { // the doorbell rang before: Wait returns at once
			t.Fatal(err)
		}
		same(t, "tokens left", e.Snapshot(t).Doorbell, 0)

		woken := make(chan error, 1)
		go func() { woken <- e.Wait(t.Context(), 0) }()
		e.Put(t, job.Paid)
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d > 900*time.Millisecond {
			t.Errorf("two rings took %s", d)
		}
		if err := e.Wait(t.Context(), 0); err != nil { // no ring: nil after a second
			t.Fatal(err)
		}
	})
}

func TestDoorbellWithoutRedis(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		r := testkit.NewRedis(t)
		clients, err := queue.Connect(r.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer clients.Close()
		q := queue.New(clients, &job.PlanBook{}, queue.Options{Partitions: 1})
		if err := r.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := q.Wait(t.Context(), 0); !errors.Is(err, job.ErrUnavailable) { // nil would mean that the bell did not ring
			t.Error(err)
		}
		if err := q.Ring(t.Context(), 0); !errors.Is(err, job.ErrUnavailable) {
			t.Error(err)
		}
	})
}
