package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// answers are what a receiver answers, by the job's payload. before is the number of earlier calls with it.
type answers = map[string]func(w http.ResponseWriter, r *http.Request, before int)

// pushes is a receiver of a queue that pushes. Each job's payload is the name of what it answers.
type pushes struct {
	*httptest.Server
	answers answers

	mu    sync.Mutex
	calls map[string][]http.Header // by payload
	now   atomic.Int32             // calls under way
	most  atomic.Int32
	ended atomic.Int32 // calls whose caller has hung up
}

func newPushes(t testing.TB, a answers) *pushes {
	t.Helper()
	p := &pushes{answers: a, calls: map[string][]http.Header{}}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *pushes) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return // the caller was killed
	}
	var name string
	_ = json.Unmarshal(body, &name)
	if r.Method != http.MethodPost || r.URL.Path != "/jobs" {
		name = r.Method + " " + r.URL.Path
	}
	for now := p.now.Add(1); ; {
		if most := p.most.Load(); now <= most || p.most.CompareAndSwap(most, now) {
			break
		}
	}
	defer p.now.Add(-1)
	p.mu.Lock()
	before := len(p.calls[name])
	p.calls[name] = append(p.calls[name], r.Header)
	p.mu.Unlock()
	if answer := p.answers[name]; answer != nil {
		answer(w, r, before)
	}
}

// of returns the headers of the calls with a payload.
func (p *pushes) of(name string) []http.Header {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.calls[name]
	return all[:len(all):len(all)]
}

// never does not answer until the caller hangs up.
func (p *pushes) never(_ http.ResponseWriter, r *http.Request, _ int) {
	select {
	case <-r.Context().Done():
		p.ended.Add(1)
	case <-time.After(2 * time.Minute):
	}
}

// status answers one status first, and then 200 with the number of calls before.
func status(first int, header ...string) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, before int) {
		if before > 0 {
			_, _ = fmt.Fprint(w, before)
			return
		}
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(first)
	}
}

// says answers 200 with a body.
func says(body string) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = io.WriteString(w, body) }
}

// pushTo declares a queue that pushes to a URL; more are further members of its push.
func (s *server) pushTo(queue, url, more string) {
	s.t.Helper()
	s.changes(http.MethodPut, "/admin/queues/"+queue, `{"types":["PUSHED"],"push":{"url":"`+url+`"`+more+`}}`, 200)
}

// pushed submits a job whose payload is name into a queue.
func (s *server) pushed(queue, name, more string) string {
	s.t.Helper()
	return s.submit("paid", `{"type":"PUSHED","queue":"`+queue+`","payload":"`+name+`"`+more+`}`)
}

// eachStore runs a test on an embedded server, and on one with Redis and MariaDB.
func eachStore(t *testing.T, env []string, test func(t *testing.T, s *server)) {
	t.Helper()
	env = append(append([]string{}, outward...), env...)
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		e := newEmbedded(t, env...)
		e.start()
		test(t, e.server)
	})
	t.Run("redis and mariadb", func(t *testing.T) {
		t.Parallel()
		test(t, newCluster(t).start(env...))
	})
}
