package faktory

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// pushes pushes jobs into the queue default.
func (c *client) pushes(jids ...string) {
	c.t.Helper()
	for _, jid := range jids {
		c.is(fmt.Sprintf(`PUSH {"jid":%q,"jobtype":"T","args":[]}`, jid), "+OK")
	}
}

// fetches fetches from the queue default, and checks which job comes.
func (c *client) fetches(jid string) {
	c.t.Helper()
	if got := c.asks("FETCH default"); !strings.HasPrefix(got, fmt.Sprintf(`{"jid":%q,`, jid)) {
		c.t.Errorf("fetched %s, want %s", got, jid)
	}
}

// A job is pushed, fetched and acknowledged; then the book is empty.
func TestFetchAndAck(t *testing.T) {
	w := newWorld(t)
	s := w.serve()
	c := dial(t, s, `"wid":"w1",`)
	c.pushes("job-one-1")
	c.fetches("job-one-1")
	if len(w.books[" wid w1"]) != 1 {
		t.Errorf("the books are %v", w.books)
	}
	c.is(`ACK {"jid":"job-one-1"}`, "+OK")
	if ends := endsOf(w); ends != "COMPLETED" {
		t.Errorf("it ended %s", ends)
	}
	eventually(t, "the book is empty", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.books[" wid w1"]) == 0
	})
	c.is(`ACK {"jid":"job-one-1"}`, "+OK") // as at the server of Faktory
	c.is(`ACK {"jid":"never-one"}`, "+OK")
	c.is(`ACK {"id":"never-one"}`, `-ERR invalid ACK {"id":"never-one"}`)
	c.is(`ACK`, `-ERR invalid ACK `)
	c.is(`FETCH `, "-ERR must call fetch with at least one queue")
	c.is(`FETCH`, "-ERR must call fetch with at least one queue")
	if claim := w.claims[0]; claim.Worker != "w1" || claim.Lease != leaseFor || claim.Wait > fetchFor || !claim.ByName {
		t.Errorf("the claim was %+v", claim)
	}
}

// A FETCH of a key that holds as many leases as it may waits for one to end, as it waits for a job.
func TestFetch_KeyIsFull(t *testing.T) {
	w := newWorld(t)
	w.most = 1
	s := w.serve()
	a, b := dial(t, s, `"wid":"w1",`), dial(t, s, `"wid":"w2",`)
	a.pushes("job-one-1", "job-two-2")
	a.fetches("job-one-1")
	b.is("FETCH default", "$-1")
	b.sends("FETCH default")
	a.is(`ACK {"jid":"job-one-1"}`, "+OK")
	if got := b.reads(); !strings.HasPrefix(got, `{"jid":"job-two-2",`) {
		t.Errorf("fetched %s", got)
	}
	w.locked(func() {
		if n := len(w.claims); n > 60 {
			t.Errorf("%d claims in two seconds of waiting", n)
		}
	})
}

func endsOf(w *world) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, how := range w.ended {
		all = append(all, string(how))
	}
	return strings.Join(all, " ")
}

// FETCHes of one worker that wait at the same time share claims.
func TestFetch_SharesClaims(t *testing.T) {
	w := newWorld(t)
	s := w.serve()
	const n = 40
	var group sync.WaitGroup
	got := make(chan string, n)
	for range n {
		c := dial(t, s, `"wid":"w1",`)
		group.Go(func() { got <- c.asks("FETCH default") })
	}
	eventually(t, "all wait", func() bool {
		s.fetchers.mu.Lock()
		defer s.fetchers.mu.Unlock()
		for _, one := range s.fetchers.all {
			return len(one.waiting) == n
		}
		return false
	})
	pusher := dial(t, s, "")
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprintf(`{"jid":"job-%05d","jobtype":"T","args":[]}`, i))
	}
	pusher.is("PUSHB ["+strings.Join(texts, ",")+"]", "{}")
	group.Wait()
	close(got)
	seen := map[string]bool{}
	for text := range got {
		seen[text[:min(len(text), 20)]] = true
	}
	if len(seen) != n {
		t.Errorf("%d different jobs for %d FETCHes", len(seen), n)
	}
	if len(w.claims) > n/2 {
		t.Errorf("%d claims for %d FETCHes", len(w.claims), n)
	}
}

// waits waits until a FETCH waits for a job.
func (s *Server) waits(t *testing.T) {
	t.Helper()
	eventually(t, "a FETCH waits", func() bool {
		s.fetchers.mu.Lock()
		defer s.fetchers.mu.Unlock()
		return len(s.fetchers.all) == 1
	})
	<-time.After(20 * time.Millisecond) // then its connection is watched, too
}

// A client that hangs up while it waits gets no job: the next one does.
func TestFetch_ClientHasGone(t *testing.T) {
	w := newWorld(t)
	s := w.serve()
	gone := dial(t, s, `"wid":"w1",`)
	gone.sends("FETCH default")
	s.waits(t)
	_ = gone.nc.Close()
	eventually(t, "its FETCH is forgotten", func() bool {
		s.fetchers.mu.Lock()
		defer s.fetchers.mu.Unlock()
		return len(s.fetchers.all) == 0
	})
	c := dial(t, s, `"wid":"w2",`)
	c.pushes("job-one-1")
	c.fetches("job-one-1")
	if len(w.books[" wid w1"]) != 0 {
		t.Errorf("the book of the client that has gone: %v", w.books)
	}
}

// Without a job FETCH answers after two seconds. The same holds for a worker that is to get none, and a client may
// send its next command before.
func TestFetch_FindsNothing(t *testing.T) {
	w := newWorld(t)
	w.asked["w2"] = job.WorkerQuiet
	s := w.serve()
	c, quiet, own := dial(t, s, `"wid":"w1",`), dial(t, s, `"wid":"w2",`), dial(t, s, `"wid":"w3",`)
	quiet.pushes("job-one-1")
	began := time.Now()
	quiet.is(`BEAT {"wid":"w2","rss_kb":5}`, `{"state":"quiet"}`)
	own.is(`BEAT {"wid":"w3","current_state":"terminate"}`, `{"state":"terminate"}`)
	for _, one := range []*client{quiet, own} {
		one.sends("FETCH default")
	}
	c.sends("FETCH other")
	c.sends("NOPE")
	for _, one := range []*client{c, quiet, own} {
		if got := one.reads(); got != "$-1" {
			t.Errorf("it got %s", got)
		}
	}
	if took := time.Since(began); took < fetchFor {
		t.Errorf("they waited for %s", took)
	}
	if got := c.reads(); got != "-ERR unknown command NOPE" {
		t.Errorf("the next command: %s", got)
	}
	c.is(`BEAT {"wid":"other"}`, "-ERR unknown worker other")
	c.is(`BEAT {`, "-ERR invalid BEAT {")
	c.is(`BEAT {"wid":"w1"}`, "+OK")
	c.fetches("job-one-1")
}

// A job that cannot be entered into the book of its worker goes back.
func TestFetch_WithoutBook(t *testing.T) {
	w := newWorld(t)
	s := w.serve(func(c *Config) { c.Book = &noBook{w} })
	c := dial(t, s, `"wid":"w1",`)
	c.pushes("job-one-1")
	c.is("FETCH default", "-ERR unavailable, try again in 1 s")
	if w.released != 1 {
		t.Errorf("%d leases were released", w.released)
	}
	w.locked(func() { w.down = job.ErrUnavailable })
	c.is("FETCH default", "-ERR unavailable, try again in 1 s")
	c.is(`PUSH {"jid":"job-two-2","jobtype":"T","args":[]}`, "-ERR unavailable, try again in 1 s")
}

// A process that ends answers those that wait, and then closes.
func TestFetch_ProcessEnds(t *testing.T) {
	s := newWorld(t).serve()
	c := dial(t, s, `"wid":"w1",`)
	c.sends("FETCH default")
	s.waits(t)
	began := time.Now()
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if got := c.reads(); got != "$-1" || time.Since(began) > time.Second {
		t.Errorf("it got %s after %s", got, time.Since(began))
	}
	if got := c.reads(); got != "closed: " {
		t.Errorf("then %s", got)
	}
}
