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

// A server that has lost the scripts (a restart, a failover, SCRIPT FLUSH) gets them again, without an error for
// the caller.
func TestScriptFlush(t *testing.T) {
	t.Attr("proves", "F20")
	t.Parallel()
	life := func(t *testing.T, e *queuetest.Env, flush func()) {
		for range 3 {
			flush()
			id := e.Put(t, job.Paid)
			flush()
			l := e.Take(t, 1)[0]
			flush()
			got, err := e.Heartbeat(t.Context(), 0, []job.Beat{beat(l, time.Minute)})
			words(t, got, err, job.OK)
			flush()
			e.Finish(t, l)
			flush()
			same(t, "outcome", e.Drain(t)[0].ID, id)
		}
	}
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		e := queuetest.Embedded(t, func(*queue.Options) {})
		life(t, e, func() {
			if err := e.Redis.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		clients := queuetest.Connect(t, testkit.NewRedis(t).URL()) // no other test uses it: a flush would disturb others
		e := queuetest.Open(t, clients, func(*queue.Options) {})
		life(t, e, func() {
			if err := e.Redis.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		})
	})
}

func TestWords(t *testing.T) {
	t.Parallel()
	for _, w := range []job.Word{job.OK, job.Full, job.Late, job.Lost, job.Duplicate, job.Busy, job.Empty, job.Cancel,
		job.Discarded, job.WasCancelled, job.Ended, job.Suspect, job.Quarantined, job.Repaired, job.Reported} {
		if err := queue.Word(string(w)); err != nil {
			t.Error(err)
		}
	}
	for _, text := range []string{"", "ok", "OK ", "GONE"} {
		if err := queue.Word(text); err == nil || !strings.Contains(err.Error(), "example") {
			t.Errorf("%q: %v; it does not name the script", text, err)
		}
	}
}

func TestNoSuchPartition(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for _, p := range []int{-1, e.Options.Partitions, 255} {
			if _, err := e.Promote(t.Context(), p); err == nil {
				t.Errorf("partition %d of %d", p, e.Options.Partitions)
			}
		}
	})
}

// Observe is called for every call; a caller's cancelled context is not reported as a fault of Redis.
func TestObserve(t *testing.T) {
	t.Attr("proves", "F55")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		var heard []error
		o := e.Options
		o.Observe = func(_ string, _ int, _ time.Duration, err error) { heard = append(heard, err) }
		q := queue.New(e.Clients, e.Plans, o)
		if _, err := q.Promote(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := q.Promote(gone, 0)
		if !errors.Is(err, context.Canceled) || errors.Is(err, job.ErrAmbiguous) || errors.Is(err, job.ErrUnavailable) {
			t.Errorf("a cancelled call: %v", err)
		}
		if len(heard) != 2 || heard[0] != nil || !errors.Is(heard[1], context.Canceled) {
			t.Errorf("heard %v", heard)
		}
	})
}
