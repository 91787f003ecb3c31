package httpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// caller is the connection of one client.
type caller struct {
	t *testing.T
	net.Conn
	answers *bufio.Reader
}

func dial(t *testing.T, s *Server) *caller {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return &caller{t, c, bufio.NewReader(c)}
}

func (c *caller) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

func (c *caller) asks() {
	c.t.Helper()
	c.send("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
	res, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 {
		c.t.Fatalf("%d %v", res.StatusCode, err)
	}
}

// gone waits until the server closes the connection.
func (c *caller) gone() {
	c.t.Helper()
	if n, err := c.answers.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("still there: %d bytes, %v", n, err)
	}
}

// small serves the handler on a server with few seats.
func small(t *testing.T, seats int, h http.Handler) (*Server, *strings.Builder) {
	t.Helper()
	var said strings.Builder
	s := NewServer("TIERQ_ADDR", "127.0.0.1:0", h, Limits{Connections: seats}, slog.New(slog.NewTextHandler(&said, nil)))
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Stop(ctx)
	})
	return s, &said
}

// are waits until the server has want connections of a class.
func (s *Server) are(t *testing.T, want int, of class) {
	t.Helper()
	testkit.Eventually(t, 5*time.Second, "connections are where they belong", func() (bool, string) {
		s.listener.mu.Lock()
		defer s.listener.mu.Unlock()
		n, counted := s.listener.taken, 0
		for i := range s.listener.missed {
			length := 0
			for l := s.listener.missed[i].next; l.of != nil; l = l.next {
				length++
			}
			if n -= length; class(i) == of {
				counted = length
			}
		}
		if of == busy {
			counted = n
		}
		return counted == want, ""
	})
}

// When all seats are taken, connections are closed in this order: the longest idle first, then those that have sent
// nothing, then those without complete headers. A connection with a request under way stays.
func TestSeats_WhoGoesFirst(t *testing.T) {
	t.Attr("proves", "A14 A17")
	entered, leave := make(chan struct{}), make(chan struct{})
	s, said := small(t, 6, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			entered <- struct{}{}
			<-leave
		}
	}))
	var once sync.Once
	open := func() { once.Do(func() { close(leave) }) }
	t.Cleanup(open)

	working := dial(t, s)
	working.send("GET /busy HTTP/1.1\r\nHost: x\r\n\r\n")
	<-entered
	slow := dial(t, s)
	slow.send("GET / HTTP/1.1\r\nHost: x\r\nX-A: ")
	s.are(t, 1, begun)
	mute := dial(t, s)
	s.are(t, 1, fresh)
	first, second, third := dial(t, s), dial(t, s), dial(t, s)
	for n, c := range []*caller{third, first, second} {
		c.asks()
		s.are(t, n+1, silent)
	}
	again := dial(t, s) // a seventh connection
	third.gone()        // its request was the first
	again.asks()
	s.are(t, 3, silent)
	first.asks() // now second is idle longest, then again, then first
	s.are(t, 3, silent)
	for _, left := range []*caller{second, again, first, mute, slow} {
		c := dial(t, s)
		c.send("GET /busy HTTP/1.1\r\nHost: x\r\n\r\n")
		<-entered
		left.gone()
	}
	s.are(t, 6, busy)
	last := dial(t, s)
	last.send("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n") // every seat is busy: the connection waits
	open()
	if res, err := http.ReadResponse(working.answers, nil); err != nil || res.StatusCode != 200 {
		t.Errorf("the first, which was under way: %v", err)
	}
	if res, err := http.ReadResponse(last.answers, nil); err != nil || res.StatusCode != 200 {
		t.Errorf("the one that waited: %v", err)
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if n := strings.Count(said.String(), "all connections are in use"); n != 1 {
		t.Errorf("said %d times:\n%s", n, said)
	}
	if s.listener.taken != 0 {
		t.Errorf("%d seats are not given back", s.listener.taken)
	}
}

// A server that stops does not wait for a free seat.
func TestSeats_StopWhileSomebodyWaits(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s, _ := small(t, 1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { entered <- struct{}{}; <-leave }))
	dial(t, s).send("GET /busy HTTP/1.1\r\nHost: x\r\n\r\n")
	<-entered
	waits := dial(t, s)
	waits.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(context.Background()) }()
	waits.gone()
	close(leave)
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// outOfFiles fails the first Accept with EMFILE, as in a process without free file descriptors.
type outOfFiles struct {
	net.Listener
	refused bool
}

func (l *outOfFiles) Accept() (net.Conn, error) {
	if !l.refused {
		l.refused = true
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// If a process has no file descriptor left, Accept closes an idle connection, and the next Accept succeeds.
func TestSeats_OutOfDescriptors(t *testing.T) {
	t.Attr("proves", "A17")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newSeats(&outOfFiles{Listener: l}, Limits{Connections: 8}, slog.New(slog.DiscardHandler))
	defer s.Close()
	near, far := net.Pipe()
	defer far.Close()
	idle := s.newSeated(near)
	s.seat(idle)
	s.state(idle, http.StateActive)
	s.state(idle, http.StateIdle)
	if _, err := s.Accept(); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("accept: %v", err)
	}
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || s.taken != 0 {
		t.Errorf("the idle one: %v; %d seats taken", err, s.taken)
	}
	go net.Dial("tcp", l.Addr().String()) //nolint:errcheck // Accept reports the error
	c, err := s.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// When many clients connect at once to a server with few seats, each client is served in the end and no seat is
// lost.
func TestSeats_UnderLoad(t *testing.T) {
	t.Attr("proves", "A17")
	s, _ := small(t, 8, http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	var group sync.WaitGroup
	for n := range 16 {
		group.Go(func() {
			for i := range 100 {
				c, err := net.Dial("tcp", s.Addr())
				if err != nil {
					t.Error(err)
					return
				}
				_ = c.SetDeadline(time.Now().Add(10 * time.Second))
				if (n+i)%2 == 0 {
					_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
					_, _ = bufio.NewReader(c).ReadString('\n')
				}
				c.Close()
			}
		})
	}
	group.Wait()
	honest := dial(t, s)
	honest.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if line, err := honest.answers.ReadString('\n'); err != nil || !strings.Contains(line, "204") {
		t.Errorf("afterwards: %q %v", line, err)
	}
	honest.Close()
	testkit.Eventually(t, 10*time.Second, "every seat is given back", func() (bool, string) {
		s.listener.mu.Lock()
		defer s.listener.mu.Unlock()
		return s.listener.taken == 0, ""
	})
}
