package faktory

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// noBook is a world whose book takes no leases.
type noBook struct{ *world }

func (noBook) HoldLeases(context.Context, string, string, []job.HeldLease) error {
	return job.ErrUnavailable
}

// A failed job comes again, with what is known of its failure. Its last failure makes it a dead letter.
func TestFail(t *testing.T) {
	w := newWorld(t)
	s := w.serve()
	c := dial(t, s, `"wid":"w1",`)
	c.is(`PUSH {"jid":"job-one-1","jobtype":"T","args":[],"retry":1}`, "+OK")
	c.fetches("job-one-1")
	c.is(`FAIL {"jid":"job-one-1","errtype":"Boom","message":"it broke","backtrace":["a","b"]}`, "+OK")
	got := c.asks("FETCH default")
	want := `"failure":{"retry_count":0,"remaining":1,"failed_at":`
	if !contains(got, want) || !contains(got, `"message":"it broke","errtype":"Boom","backtrace":["a","b"]}}`) {
		t.Errorf("the second attempt gets %s", got)
	}
	c.is(`FAIL {"jid":"job-one-1"}`, "+OK")
	if len(w.dead) != 1 || w.dead[0].LastError != "unknown: unknown" {
		t.Errorf("the dead letters are %+v", w.dead)
	}
	c.is(`FAIL {"jid":"job-one-1"}`, "-ERR Job not found job-one-1")
	c.is(`FAIL {}`, "-ERR missing JID")
	c.is(`FAIL {"jid":1}`, `-ERR invalid FAIL {"jid":1}`)
}

func contains(text, part string) bool {
	for i := range len(text) - len(part) + 1 {
		if text[i:i+len(part)] == part {
			return true
		}
	}
	return false
}

// A worker whose lease is lost ends nobody's attempt. It hears +OK, once also for a FAIL.
func TestReport_OfLostLease(t *testing.T) {
	w := newWorld(t)
	s := w.serve()
	zombie, next := dial(t, s, `"wid":"w1",`), dial(t, s, `"wid":"w2",`)
	zombie.pushes("job-one-1", "job-two-2")
	zombie.fetches("job-one-1")
	zombie.fetches("job-two-2")
	w.locked(func() { // the watches take its jobs back
		for sealed, l := range w.leases {
			delete(w.leases, sealed)
			w.ready = append(w.ready, l.Job)
		}
	})
	for range 2 {
		next.asks("FETCH default")
	}
	zombie.is(`ACK {"jid":"job-one-1"}`, "+OK")
	zombie.is(`FAIL {"jid":"job-two-2"}`, "+OK")
	zombie.is(`FAIL {"jid":"job-two-2"}`, "-ERR Job not found job-two-2")
	if ends := endsOf(w); ends != "" || s.lost.Load() != 2 {
		t.Errorf("it ended %s; %d were counted as lost", ends, s.lost.Load())
	}
	next.is(`ACK {"jid":"job-one-1"}`, "+OK")
	next.is(`FAIL {"jid":"job-two-2"}`, "+OK")
	if len(w.ended) != 2 {
		t.Errorf("the holder's reports ended %v", w.ended)
	}
}

// A worker reports through any process: the book is where both look. Its latest attempt counts.
func TestReport_ThroughAnotherProcess(t *testing.T) {
	w := newWorld(t)
	a, b := w.serve(), w.serve()
	one, other := dial(t, a, `"wid":"w1",`), dial(t, b, `"wid":"w1",`)
	one.pushes("job-one-1", "job-two-2")
	one.fetches("job-one-1")
	other.is(`ACK {"jid":"job-one-1"}`, "+OK")
	if ends := endsOf(w); ends != "COMPLETED" {
		t.Errorf("at another process: %q", ends)
	}
	one.fetches("job-two-2")
	w.locked(func() {
		for sealed, l := range w.leases {
			delete(w.leases, sealed)
			w.ready = append(w.ready, l.Job)
		}
	})
	other.fetches("job-two-2") // the same worker gets it again
	one.is(`ACK {"jid":"job-two-2"}`, "+OK")
	if len(w.ended) != 2 {
		t.Errorf("the latest attempt ended %v", w.ended)
	}
	stranger := dial(t, b, `"wid":"w2",`)
	stranger.pushes("job-three")
	stranger.fetches("job-three")
	one.is(`ACK {"jid":"job-three"}`, "+OK")
	if len(w.ended) != 2 {
		t.Error("a worker ended the job of another")
	}
}

// Two jobs with one jid are two jobs, as at the server of Faktory.
func TestReport_JidTwice(t *testing.T) {
	w := newWorld(t)
	c := dial(t, w.serve(), `"wid":"w1",`)
	c.pushes("job-one-1", "job-one-1")
	c.fetches("job-one-1")
	c.fetches("job-one-1")
	c.is(`ACK {"jid":"job-one-1"}`, "+OK")
	c.is(`ACK {"jid":"job-one-1"}`, "+OK")
	if ends := endsOf(w); ends != "COMPLETED COMPLETED" {
		t.Errorf("they ended %s", ends)
	}
}

// An error of the store is told, and the worker may report once more.
func TestReport_StoreIsAway(t *testing.T) {
	w := newWorld(t)
	c := dial(t, w.serve(), `"wid":"w1",`)
	c.pushes("job-one-1")
	c.fetches("job-one-1")
	w.locked(func() { w.fails = 1 })
	c.is(`ACK {"jid":"job-one-1"}`, "-ERR unavailable, try again in 1 s")
	c.is(`ACK {"jid":"job-one-1"}`, "+OK")
	if ends := endsOf(w); ends != "COMPLETED" {
		t.Errorf("it ended %q", ends)
	}
}

// Clients without a wid share the book of their host, in all processes.
func TestReport_WithoutWid(t *testing.T) {
	w := newWorld(t)
	a, b := w.serve(), w.serve()
	one, other := dial(t, a, `"hostname":"h",`), dial(t, b, `"hostname":"h",`)
	one.pushes("job-one-1")
	one.fetches("job-one-1")
	other.is(`ACK {"jid":"job-one-1"}`, "+OK")
	if ends := endsOf(w); ends != "COMPLETED" {
		t.Errorf("it ended %q", ends)
	}
}

// The open connections of a worker keep its leases alive, and graceTime after the last has closed.
func TestLife(t *testing.T) {
	w := newWorld(t)
	s := w.serve()
	c, nameless := dial(t, s, `"wid":"w1",`), dial(t, s, "")
	c.pushes("job-one-1", "job-two-2", "job-three")
	c.fetches("job-one-1")
	nameless.fetches("job-two-2")
	extended := func() map[string]int {
		w.locked(func() { w.beats = nil })
		s.extendAll(t.Context())
		found := map[string]int{}
		w.locked(func() {
			for _, b := range w.beats {
				if b.Extend != leaseFor {
					t.Errorf("extended by %s", b.Extend)
				}
				found[b.Sealed[len(b.Sealed)-3:]]++
			}
		})
		return found
	}
	if got := fmt.Sprint(extended()); got != "map[1.1:1 2.1:1]" {
		t.Errorf("extended %s", got)
	}
	// Another process has the connections: the book says which leases there are.
	other := w.serve()
	dial(t, other, `"wid":"w1",`)
	w.locked(func() { w.beats = nil })
	other.extendAll(t.Context())
	if len(w.beats) != 1 {
		t.Errorf("another process extended %v", w.beats)
	}
	_ = nameless.nc.Close()
	_ = c.nc.Close()
	eventually(t, "the connections are closed", func() bool { return s.seats.count() == 0 })
	if got := fmt.Sprint(extended()); got != "map[1.1:1]" {
		t.Errorf("after the connections: %s", got)
	}
	one := s.workers.find("", "w1")
	one.mu.Lock()
	one.left = time.Now().Add(-graceTime - time.Second)
	one.mu.Unlock()
	if got := fmt.Sprint(extended()); got != "map[]" {
		t.Errorf("after the grace time: %s", got)
	}
}

// A lost lease is extended no more. It stays in the book for its worker's report, for a day.
func TestLife_LostLease(t *testing.T) {
	w := newWorld(t)
	s := w.serve()
	c := dial(t, s, `"wid":"w1",`)
	c.pushes("job-one-1")
	c.fetches("job-one-1")
	w.locked(func() { clear(w.leases) })
	for range 3 {
		s.extendAll(t.Context())
	}
	if len(w.beats) > 2 || len(w.books[" wid w1"]) != 1 { // the loop may have made one of its own
		t.Errorf("%d beats, the book has %v", len(w.beats), w.books)
	}
	one := s.workers.find("", "w1")
	one.mu.Lock()
	for _, h := range one.held {
		long := time.Now().Add(-lostFor - time.Second)
		h.lost.Store(&long)
	}
	one.mu.Unlock()
	s.extendAll(t.Context())
	eventually(t, "it leaves the book", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.books[" wid w1"]) == 0
	})
}
