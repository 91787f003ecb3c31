package sandbox

import (
	"errors"
	"testing"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// A cut link gives the same error as an unreachable Redis, and the clients work at once after it is healed.
func TestLink(t *testing.T) {
	t.Parallel()
	s := newStore()
	defer s.close()
	l := newLink(s.server.Dial)
	clients := queue.ConnectInMemory(l.Dial)
	q := queue.New(clients, &job.PlanBook{}, queue.Options{Nonce: "x", Partitions: 1, PriorityBase: 1e13, Capacity: 1})
	for range 3 {
		if _, err := q.Promote(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		l.cut()
		for range 20 { // more than the connections of a client
			if _, err := q.Promote(t.Context(), 0); !errors.Is(err, job.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		l.heal()
	}
	if _, err := q.Promote(t.Context(), 0); err != nil || len(l.conns) == 0 {
		t.Fatal(len(l.conns), err)
	}
	if err := clients.Close(); err != nil {
		t.Error(err)
	}
	if n := len(l.conns); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}
