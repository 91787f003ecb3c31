package httpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// pipes is a listener with connections in memory, so that they can run in a test's synthetic time.
type pipes struct {
	conns chan net.Conn
}

func (p pipes) Accept() (net.Conn, error) {
	if c, open := <-p.conns; open {
		return c, nil
	}
	return nil, http.ErrServerClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// call opens a connection to a server with its real limits, in the synthetic time of the test.
func call(t *testing.T, h http.Handler) net.Conn {
	t.Helper()
	s := NewServer("TIERQ_ADDR", "", h, Limits{}, nil).server
	p := pipes{make(chan net.Conn)}
	go s.Serve(p) //nolint:errcheck // it ends with the test
	near, far := net.Pipe()
	p.conns <- far
	t.Cleanup(func() { near.Close(); close(p.conns); s.Close() })
	return near
}

// lasted returns how long the server kept the connection open.
func lasted(c net.Conn, begun time.Time) time.Duration {
	_, _ = io.Copy(io.Discard, c)
	return time.Since(begun)
}

// Headers or a body that arrive one byte per second are cut off at their deadline; a byte does not extend it.
func TestSlow_HeadersAndBodies(t *testing.T) {
	t.Attr("proves", "A14 A15")
	const head = "POST /paid/submit HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct {
		text string
		want time.Duration
	}{
		"not a byte":       {"", 5 * time.Second},
		"headers":          {head + "X-A: ", 5 * time.Second},
		"a body":           {head + "Content-Length: 900\r\n\r\n{", 15 * time.Second},
		"a body in chunks": {head + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", 15 * time.Second},
		"a batch": {strings.Replace(head, "submit", "submit/batch", 1) + "Content-Length: 900\r\n\r\n[",
			time.Minute},
		"after one request": {"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRooms(t)
				begun := time.Now()
				conn := call(t, r)
				var trickle sync.WaitGroup
				trickle.Go(func() {
					for _, err := io.WriteString(conn, c.text); err == nil && c.text != "" && name != "after one request"; {
						<-time.After(time.Second)
						_, err = io.WriteString(conn, " ")
					}
				})
				if took := lasted(conn, begun); took < c.want || took > c.want+2*time.Second {
					t.Errorf("it was kept for %s, want %s", took, c.want)
				}
				trickle.Wait()
				if len(r.submitted) != 0 {
					t.Errorf("submitted %+v", r.submitted)
				}
			})
		})
	}
}

// A client may read an export slowly as long as it takes some of it: each piece that gets through extends the
// deadline, and nothing else does.
func TestSlow_AReaderOfAnExport(t *testing.T) {
	t.Attr("proves", "A16")
	synctest.Test(t, func(t *testing.T) {
		r := newRooms(t)
		ended := make(chan error, 1)
		r.deps.Dead = endless{r, letter(`"` + strings.Repeat("x", 8000) + `"`), ended}
		conn := call(t, NewHandler(r.deps))
		if _, err := io.WriteString(conn, "GET /admin/dead/export HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		begun, lines := time.Now(), bufio.NewReader(res.Body)
		for range 30 { // seven minutes and a half at 15 s a line
			<-time.After(15 * time.Second)
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatalf("after %s: %v", time.Since(begun), err)
			}
		}
		stopped := time.Now()
		if err := <-ended; err == nil || time.Since(stopped) > 30*time.Second {
			t.Errorf("who reads no more was kept for %s: %v", time.Since(stopped), err)
		}
	})
}

// endless is a DeadLetters with an endless number of dead letters.
type endless struct {
	*rooms
	letter job.DeadLetter
	ended  chan error
}

func (e endless) EachDead(ctx context.Context, _ job.Filter, yield func(job.DeadLetter) error) (err error) {
	for err == nil {
		if err = yield(e.letter); err == nil {
			err = ctx.Err()
		}
	}
	e.ended <- err
	return err
}

// The client has a fixed time for reading an answer that is ready at once.
func TestSlow_AReaderOfAnAnswer(t *testing.T) {
	t.Attr("proves", "A16")
	synctest.Test(t, func(t *testing.T) {
		r := newRooms(t)
		big := at(job.Completed, 1)
		big.Result = []byte(`"` + strings.Repeat("x", 60_000) + `"`)
		r.find = func(job.ID) (job.Job, error) { return big, nil }
		begun := time.Now()
		conn := call(t, r)
		if _, err := io.WriteString(conn, "GET "+pollKnown+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		piece := make([]byte, 100)
		for {
			if _, err := conn.Read(piece); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		if took := time.Since(begun); took < 25*time.Second || took > 35*time.Second {
			t.Errorf("it was kept for %s", took)
		}
	})
}
