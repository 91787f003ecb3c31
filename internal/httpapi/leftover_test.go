package httpapi

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// answered reads one answer from the connection and checks its status.
func (c *caller) answered(want int) *http.Response {
	c.t.Helper()
	res, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != want {
		c.t.Fatalf("%d %v, want %d", res.StatusCode, err, want)
	}
	return res
}

// settle waits until want connections have a request under way, but no longer than the server waits for the rest of
// a body.
func (s *Server) settle(want int) {
	for end := time.Now().Add(leftoverLimit); time.Now().Before(end); {
		s.listener.mu.Lock()
		idle := 0
		for _, of := range []class{silent, fresh} {
			for l := s.listener.missed[of].next; l.of != nil; l = l.next {
				idle++
			}
		}
		there := s.listener.taken-idle >= want
		s.listener.mu.Unlock()
		if there {
			return
		}
		<-time.After(time.Millisecond)
	}
}

// Forty clients that have their answers and never send their bodies do not keep a new client waiting for one of
// four seats.
func TestLeftover_KeepsNoSeat(t *testing.T) {
	t.Attr("proves", "A15")
	for name, head := range map[string]string{
		"refused":            "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
		"refused, in chunks": "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
		"refused, expecting": "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
		"served":             "GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := small(t, 4, newRooms(t))
			for n := range 40 {
				dial(t, s).send(head)
				if n < 4 { // the others wait in the listener's queue, or replace one another
					s.settle(n + 1)
				}
			}
			begun := time.Now()
			dial(t, s).asks()
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("somebody else was answered after %s", took)
			}
		})
	}
}

// A body that arrives after a refusal does no harm: the answer is complete and the connection stays open. A body
// that does not arrive is waited for briefly, then the connection ends.
func TestLeftover_OfWhoMeansWell(t *testing.T) {
	t.Attr("proves", "A15")
	synctest.Test(t, func(t *testing.T) {
		r := newRooms(t)
		r.messages = make(chan job.Message, 1)
		conn := call(t, NewHandler(r.deps))
		answers := bufio.NewReader(conn)
		send := func(pieces ...string) {
			t.Helper()
			for i, piece := range pieces {
				if i > 0 {
					<-time.After(300 * time.Millisecond)
				}
				if _, err := io.WriteString(conn, piece); err != nil {
					t.Fatal(err)
				}
			}
		}
		answer := func(want int, within time.Duration) *http.Response {
			t.Helper()
			begun := time.Now()
			res, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); res.StatusCode != want || took > within {
				t.Fatalf("%d after %s", res.StatusCode, took)
			}
			return res
		}
		read := func(want int, within time.Duration) *http.Response {
			t.Helper()
			res := answer(want, within)
			_, _ = io.Copy(io.Discard, res.Body)
			return res
		}
		const lost = "POST /nowhere HTTP/1.1\r\nHost: localhost\r\n"
		send(lost + "Content-Length: 4\r\n\r\nabcd")
		read(404, 0)
		send(lost+"Content-Length: 4\r\n\r\n", "ab", "cd")
		read(404, 0)
		send(lost+"Transfer-Encoding: chunked\r\n\r\n2\r\n", "ab\r\n", "0\r\n\r\n")
		read(404, 0)
		send("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
		read(200, 0)
		send("GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\na")
		if res := read(200, leftoverLimit); !res.Close {
			t.Error("with the rest of a body to come, the connection is kept")
		}
		if _, err := answers.ReadByte(); err == nil {
			t.Error("it goes on")
		}

		// A stream lasts as long as any other once its body has arrived.
		conn = call(t, NewHandler(r.deps))
		answers = bufio.NewReader(conn)
		send("GET /api/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
		lines := bufio.NewScanner(answer(200, 0).Body)
		<-time.After(10 * time.Second)
		r.messages <- job.Message{ID: "n-1", Resync: true}
		for lines.Scan() && !strings.Contains(lines.Text(), "n-1") {
		}
		if !strings.Contains(lines.Text(), "n-1") {
			t.Errorf("the stream ended: %v", lines.Err())
		}
	})
}
