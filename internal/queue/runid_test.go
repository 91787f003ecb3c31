package queue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// The run changes with a restart and with a FLUSHALL, and with nothing else; a server that says no run is known by its data.
func TestRunID_F17_F19(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t)
	clients, err := queue.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	e := queuetest.Open(t, clients, func(*queue.Options) {})
	read := func() string {
		t.Helper()
		var id string
		testkit.Eventually(t, 5*time.Second, "the server says which run it is", func() (bool, string) {
			var err error
			id, err = e.RunID(t.Context())
			return err == nil && id == e.KnownRun(), id
		})
		return id
	}
	first := read()
	same(t, "read again", read(), first)
	if len(first) > 64 || len(first) < 41 {
		t.Errorf("a run of %d bytes: %q", len(first), first)
	}
	if err := e.Redis.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	flushed := read()
	if flushed == first {
		t.Error("FLUSHALL passed unseen")
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	restarted := read()
	if restarted == flushed {
		t.Error("a restart passed unseen")
	}
	if err := e.Redis.Do(t.Context(), "ACL", "SETUSER", "default", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	blind := read()
	if !strings.HasPrefix(blind, "unknown.") || read() != blind {
		t.Errorf("without INFO: %q", blind)
	}
	mine := queuetest.Embedded(t, func(o *queue.Options) { o.Embedded = true })
	if id, err := mine.RunID(t.Context()); err != nil || id != mine.Options.Nonce || mine.KnownRun() != id {
		t.Errorf("embedded: %q, %v", id, err)
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		other := e.Process("other")
		ask := func(q *queue.Queue, want bool) {
			t.Helper()
			got, err := q.Lease(t.Context(), "sweep", time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "lease", got, want)
		}
		ask(e.Queue, true)
		ask(e.Queue, true)
		ask(other, false)
		if ttl := e.Redis.PTTL(t.Context(), "{tierq}:lease:sweep").Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("held for %s", ttl)
		}
		e.Redis.Del(t.Context(), "{tierq}:lease:sweep")
		ask(other, true)
		ask(e.Queue, false)
	})
}
