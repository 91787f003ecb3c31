package queue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// listens collects the events that one kind of listener receives once it is up. In a cluster, events of an earlier
// test may arrive late; listens drops them.
func listens(t *testing.T, q *queue.Queue,
	listen func(context.Context, func([]job.Event), func()) error) <-chan job.Event {
	t.Helper()
	began := time.Now() // the servers run on this machine; ReadClock is off by half of its round trip
	up, heard, done := make(chan struct{}), make(chan job.Event, 100), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		done <- listen(ctx, func(events []job.Event) {
			for _, e := range events {
				if !e.At.Before(began.Truncate(time.Millisecond)) {
					heard <- e
				}
			}
		}, func() { close(up) })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the listener ended with %v", err)
		}
	})
	select {
	case <-up:
	case err := <-done:
		t.Fatal(err)
	case <-time.After(5 * time.Second):
		t.Fatal("the subscription does not stand")
	}
	return heard
}

// crashes makes the worker of a running job stop and the crashed watch reclaim the job.
func crashes(t *testing.T, e *queuetest.Env) {
	t.Helper()
	e.Age(t, "heartbeat_deadlines", time.Hour)
	e.Look(t, job.Crashed)
	e.Age(t, "suspects:crashed", queue.Patience)
	e.Look(t, job.Crashed)
}

// A listener of the alarms receives only deaths and reclaims, in their order.
func TestAlarms(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		heard := listens(t, e.Queue, e.ListenAlarms)
		fail := func(l job.Lease, cause job.Cause, delay time.Duration, final bool) {
			t.Helper()
			if _, err := e.Fail(t.Context(), 0,
				[]job.Failure{{LeaseRef: l.Ref(), Cause: cause, Delay: delay, Final: final}}); err != nil {
				t.Fatal(err)
			}
		}
		again := func() job.Lease {
			t.Helper()
			return e.Take(t, 1)[0]
		}
		e.Finish(t, e.Start(t, job.Paid))
		l := e.Start(t, job.Paid)
		fail(l, job.HandlerError, 0, false) // a retry is no alarm
		l = again()
		fail(l, job.MaxTimeExceeded, 0, false)
		hears(t, heard, l.ID, job.Pending, 2, job.MaxTimeExceeded)
		l = again()
		fail(l, job.MaxTimeExceeded, time.Minute, false)
		hears(t, heard, l.ID, job.Scheduled, 3, job.MaxTimeExceeded)
		e.Age(t, "scheduled", time.Hour)
		if _, err := e.Promote(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		l = again()
		crashes(t, e)
		hears(t, heard, l.ID, job.Pending, 4, job.HeartbeatStopped)
		l = again()
		fail(l, job.HandlerError, time.Minute, false)
		same(t, "cancel", e.Cancels(t, l.ID), job.WasCancelled)
		l = e.Start(t, job.Public)
		fail(l, job.PermanentError, 0, true)
		hears(t, heard, l.ID, job.Failed, 1, job.PermanentError)
		l = e.Start(t, job.Public)
		same(t, "cancel", e.Cancels(t, l.ID), job.Cancel)
		crashes(t, e)
		hears(t, heard, l.ID, job.Cancelled, 1, job.HeartbeatStopped)
		killed := e.Put(t, job.Public)
		same(t, "kill", e.Kills(t, killed), job.Discarded)
		hears(t, heard, killed, job.Failed, 0, job.Killed)
		select {
		case e := <-heard:
			t.Errorf("heard %+v", e)
		default:
		}
	})
}

// A listener of one channel does not make the scripts publish on the other.
func TestAlarms_AndEventsAreTwoSwitches(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"events", "alarms"} {
		t.Run("not "+other, func(t *testing.T) {
			queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
				listen := e.ListenAlarms
				if other == "alarms" {
					listen = e.Listen
				}
				listens(t, e.Queue, listen)
				keys := e.Keys(0)["fail"] // the channel's name carries the database
				channel := keys[slices.IndexFunc(keys, func(key string) bool { return strings.Contains(key, "}:"+other) })]
				s := e.Redis.Subscribe(t.Context(), channel)
				t.Cleanup(func() { _ = s.Close() })
				if _, err := s.Receive(t.Context()); err != nil {
					t.Fatal(err)
				}
				e.Finish(t, e.Start(t, job.Paid))
				l := e.Start(t, job.Paid)
				if _, err := e.Fail(t.Context(), 0,
					[]job.Failure{{LeaseRef: l.Ref(), Cause: job.PermanentError, Final: true}}); err != nil {
					t.Fatal(err)
				}
				e.Start(t, job.Public)
				crashes(t, e)
				if err := e.Redis.Publish(t.Context(), channel, "the end").Err(); err != nil {
					t.Fatal(err)
				}
				select {
				case m := <-s.Channel():
					if m.Payload != "the end" {
						t.Errorf("%s told %q, and nobody listens", channel, m.Payload)
					}
				case <-time.After(5 * time.Second):
					t.Fatal("the end was not heard")
				}
			})
		})
	}
}
