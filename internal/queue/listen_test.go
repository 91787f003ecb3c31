package queue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// ear collects the events of a queue, once the listener is up.
func ear(t *testing.T, q *queue.Queue) <-chan job.Event {
	t.Helper()
	return listens(t, q, q.Listen)
}

func hears(t *testing.T, heard <-chan job.Event, id job.ID, status job.Status, attempt int, cause job.Cause) {
	t.Helper()
	select {
	case e := <-heard:
		if e.ID != id || e.Status != status || e.Attempt != attempt || e.Cause != cause || e.Tier == "" ||
			time.Since(e.At).Abs() > time.Minute {
			t.Errorf("heard %+v, want %s %s, attempt %d, cause %q", e, id, status, attempt, cause)
		}
	case <-time.After(5 * time.Second):
		t.Errorf("heard nothing of %s %s", id, status)
	}
}

// A listener receives every transition of every script, in order.
func TestEvents(t *testing.T) {
	t.Attr("proves", "S4-M1")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		heard := ear(t, e.Queue)
		fail := func(l job.Lease, delay time.Duration, final bool) {
			t.Helper()
			if _, err := e.Fail(t.Context(), 0,
				[]job.Failure{{LeaseRef: l.Ref(), Cause: job.HandlerError, Delay: delay, Final: final}}); err != nil {
				t.Fatal(err)
			}
		}
		l := e.Start(t, job.Paid)
		hears(t, heard, l.ID, job.Pending, 0, "")
		hears(t, heard, l.ID, job.Processing, 1, "")
		e.Finish(t, l)
		hears(t, heard, l.ID, job.Completed, 1, "")

		l = e.Start(t, job.Paid)
		hears(t, heard, l.ID, job.Pending, 0, "")
		hears(t, heard, l.ID, job.Processing, 1, "")
		fail(l, 0, false)
		hears(t, heard, l.ID, job.Pending, 1, job.HandlerError)
		l = e.Take(t, 1)[0]
		hears(t, heard, l.ID, job.Processing, 2, "")
		fail(l, time.Minute, false)
		hears(t, heard, l.ID, job.Scheduled, 2, job.HandlerError)
		e.Age(t, "scheduled", time.Hour)
		if _, err := e.Promote(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		hears(t, heard, l.ID, job.Pending, 2, "")
		l = e.Take(t, 1)[0]
		hears(t, heard, l.ID, job.Processing, 3, "")
		if _, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: l.Ref()}}); err != nil {
			t.Fatal(err)
		}
		hears(t, heard, l.ID, job.Pending, 3, "")
		l = e.Take(t, 1)[0]
		hears(t, heard, l.ID, job.Processing, 4, "")
		e.Age(t, "heartbeat_deadlines", time.Hour)
		e.Look(t, job.Crashed)
		e.Age(t, "suspects:crashed", queue.Patience)
		e.Look(t, job.Crashed)
		hears(t, heard, l.ID, job.Pending, 4, job.HeartbeatStopped)
		l = e.Take(t, 1)[0]
		hears(t, heard, l.ID, job.Processing, 5, "")
		fail(l, 0, true)
		hears(t, heard, l.ID, job.Failed, 5, job.HandlerError)
		dead := e.Drain(t)
		for i := range dead {
			if dead[i].ID == l.ID {
				again := dead[i].Job
				again.Generation = 2
				got, err := e.Requeue(t.Context(), 0, []job.Job{again})
				words(t, got, err, job.OK)
			}
		}
		hears(t, heard, l.ID, job.Pending, 5, "")
		same(t, "cancel", e.Cancels(t, l.ID), job.WasCancelled)
		hears(t, heard, l.ID, job.Cancelled, 5, "")

		l = e.Start(t, job.Public)
		hears(t, heard, l.ID, job.Pending, 0, "")
		hears(t, heard, l.ID, job.Processing, 1, "")
		same(t, "cancel", e.Cancels(t, l.ID), job.Cancel)
		hears(t, heard, l.ID, job.Processing, 1, "") // a cancel was requested
		if _, err := e.Complete(t.Context(), 0, []job.Completion{{LeaseRef: l.Ref()}}); err != nil {
			t.Fatal(err)
		}
		hears(t, heard, l.ID, job.Cancelled, 1, "")

		delayed := later(job.Public, time.Hour)
		e.PutAll(t, delayed)
		hears(t, heard, delayed.ID, job.Scheduled, 0, "")
		same(t, "hasten", e.Hastens(t, delayed.ID), job.OK)
		hears(t, heard, delayed.ID, job.Pending, 0, "")
		same(t, "kill", e.Kills(t, delayed.ID), job.Discarded)
		hears(t, heard, delayed.ID, job.Failed, 0, job.Killed)
		lost := living(queuetest.NewID(0), toKill)
		restore(t, e, []job.JournalRow{lost}, job.OK)
		hears(t, heard, lost.ID, job.Failed, 0, job.Killed)
	})
}

// A connection that fails ends Listen with an error, so that the caller does not wait for ever.
func TestListenEndsWithItsConnection(t *testing.T) {
	t.Attr("proves", "F21")
	t.Parallel()
	// a server that no other test uses: the kill must not reach other listeners
	clients, err := queue.Connect(testkit.NewRedis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	e := queuetest.Open(t, clients, func(*queue.Options) {})
	up, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- e.Listen(t.Context(), func([]job.Event) {}, func() { close(up) })
	}()
	<-up
	if err := e.Redis.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if !errors.Is(err, job.ErrAmbiguous) && !errors.Is(err, job.ErrUnavailable) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("still listening")
	}
}

// A Redis user without the right to publish can still move jobs, because events are only hints.
func TestEventsForbidden(t *testing.T) {
	t.Parallel()
	url := testkit.SharedRedisDB(t)
	e := queuetest.Open(t, realClients(t), func(*queue.Options) {})
	user := "mute-" + e.Options.Nonce
	if err := e.Redis.Do(t.Context(), "ACL", "SETUSER", user, "on", ">secret", "~*", "resetchannels",
		"+@all").Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Redis.Do(context.Background(), "ACL", "DELUSER", user) })
	clients, err := queue.Connect(strings.Replace(url, "redis://", "redis://"+user+":secret@", 1))
	if err != nil {
		t.Fatal(err)
	}
	mute := queuetest.Open(t, clients, func(*queue.Options) {})
	mute.Finish(t, mute.Start(t, job.Paid))
}
