package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func serve(t *testing.T, h http.Handler) *Server {
	t.Helper()
	s := NewServer("TIERQ_ADDR", "127.0.0.1:0", h, Limits{}, nil)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := s.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// raw sends the bytes of a request as they are, and returns the first answer.
func raw(t *testing.T, s *Server, request string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	go io.WriteString(conn, request) //nolint:errcheck // the server may close first
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%.60q: %v", request, err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return res, string(body)
}

func TestServer_RawRequests(t *testing.T) {
	t.Attr("proves", "A10 A12 A13 A19 A20 A27")
	t.Parallel()
	r := newRooms(t)
	s := serve(t, r)
	chunks := strings.Repeat("1000\r\n"+strings.Repeat(" ", 4096)+"\r\n", 10000) // does not end within the limit
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"A10 dots": {"POST /../paid/submit HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 404},
		"A10 NUL":  {"POST /paid%00/submit HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 404},
		"A12 endless chunks": {"POST /paid/submit HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n" + chunks, 413},
		"A12 too long, said": {"POST /paid/submit HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
			"Content-Length: 99999999\r\n\r\n", 413},
		"A19 large headers": {"POST /paid/submit HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 32<<10) + "\r\n\r\n",
			431},
		"A20 two lengths": {"POST /paid/submit HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
			400},
		"A20 no host":          {"POST /paid/submit HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 400},
		"A20 two lengths, one": {"POST /paid/submit HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 6\r\n\r\n{}", 400},
		"A20 signed length":    {"POST /paid/submit HTTP/1.1\r\nHost: x\r\nContent-Length: +2\r\n\r\n{}", 400},
		"A20 other coding":     {"POST /paid/submit HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 501},
		"A20 hidden coding": {"POST /paid/submit HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\nContent-Length: " +
			"2\r\n\r\n{}", 501},
		"A20 two codings": {"POST /paid/submit HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501},
		"A20 a chunk's size": {"POST /paid/submit HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n", 400},
		"A20 space in a name": {"POST /paid/submit HTTP/1.1\r\nHost: x\r\nContent-Length : 0\r\n\r\n", 400},
		"A20 no name":         {"POST /paid/submit HTTP/1.1\r\nHost: x\r\n: x\r\n\r\n", 400},
		"A20 two hosts":       {"POST /paid/submit HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
		"A20 a bare CR":       {"POST /paid/submit HTTP/1.1\r\nHost: x\r\nX-A: a\rHost: y\r\n\r\n", 400},
		"A20 NUL in a header": {"POST /paid/submit HTTP/1.1\r\nHost: x\r\nX-A: a\x00b\r\n\r\n", 400},
		"A20 version":         {"POST /paid/submit HTTP/3.7\r\nHost: x\r\n\r\n", 505},
		"A20 a space more":    {"POST  /paid/submit HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		"A19 many headers": {"POST /paid/submit HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 6000) + "\r\n",
			431},
		"A27 CONNECT":   {"CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere:443\r\n\r\n", 404},
		"A27 OPTIONS *": {"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 404},
		"A20 bad host":  {"POST /paid/submit HTTP/1.1\r\nHost: a/b\r\nContent-Length: 0\r\n\r\n", 400},
	} {
		t.Run(name, func(t *testing.T) {
			res, body := raw(t, s, c.request)
			if res.StatusCode != c.status {
				t.Errorf("%d %s", res.StatusCode, body)
			}
			if len(r.submitted) != 0 {
				t.Errorf("submitted %+v", r.submitted)
			}
		})
	}
}

func TestServer_RawRequestsThatAreFine(t *testing.T) {
	t.Attr("proves", "A20")
	t.Parallel()
	r := newRooms(t)
	s := serve(t, r)
	for name, request := range map[string]string{
		"absolute address": "POST http://elsewhere/paid/submit HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"empty chunks": "POST /paid/submit HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n0\r\n\r\n",
		"chunks": "POST /paid/submit HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
	} {
		if res, body := raw(t, s, request); res.StatusCode != 202 {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
		}
	}
	if res, body := raw(t, s, "HEAD /result/poll HTTP/1.1\r\nHost: x\r\nConnection: "+
		"close\r\n\r\n"); res.StatusCode != 400 || body != "" {
		t.Errorf("HEAD: %d %q", res.StatusCode, body)
	}
}

func TestServer_LimitsAreSet(t *testing.T) {
	t.Attr("proves", "A14 A15 A16")
	s := NewServer("TIERQ_ADDR", "", nil, Limits{}, nil).server
	if s.ReadHeaderTimeout != 5*time.Second || s.ReadTimeout != 15*time.Second || s.WriteTimeout != 30*time.Second ||
		s.IdleTimeout != time.Minute || s.MaxHeaderBytes != 16<<10 {
		t.Errorf("%+v", s)
	}
}

func TestServer_AnAddressThatIsTaken(t *testing.T) {
	first := serve(t, newRooms(t))
	second := NewServer("TIERQ_ADDR", first.Addr(), nil, Limits{}, nil)
	if err := second.Start(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "TIERQ_ADDR "+first.Addr()+" is taken") {
		t.Errorf("start: %v", err)
	}
	if err := NewServer("TIERQ_ADDR", "nonsense", nil, Limits{}, nil).Start(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "TIERQ_ADDR nonsense") {
		t.Errorf("start: %v", err)
	}
	if err := second.Stop(t.Context()); err != nil {
		t.Errorf("stop before start: %v", err)
	}
}

func TestServer_DrainLetsARequestEnd(t *testing.T) {
	r := newRooms(t)
	in, out := make(chan struct{}), make(chan struct{})
	r.submit = func(context.Context, job.Submission) (job.Accepted, error) {
		close(in)
		<-out
		return job.Accepted{ID: knownID}, nil
	}
	s := serve(t, r)
	answered := make(chan string, 1)
	go func() {
		res, err := http.Post("http://"+s.Addr()+"/paid/submit", "", nil)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer res.Body.Close()
		answered <- fmt.Sprint(res.StatusCode)
	}()
	<-in
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(context.Background()) }()
	for { // ends when the listener is closed
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			break
		}
		conn.Close()
	}
	select {
	case err := <-drained:
		t.Fatalf("drained with a request under way: %v", err)
	default:
	}
	close(out)
	if got := <-answered; got != "202" {
		t.Errorf("the request under way: %s", got)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// A body that arrives too slowly gets an error in the error shape, and the connection ends.
func TestServer_ASlowBody(t *testing.T) {
	t.Attr("proves", "A15")
	t.Parallel()
	r := newRooms(t)
	s := NewServer("TIERQ_ADDR", "127.0.0.1:0", r, Limits{}, nil)
	s.server.ReadTimeout = 200 * time.Millisecond
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	const half = "POST /paid/submit HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{}"
	if _, err := io.WriteString(conn, half); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") ||
		!strings.Contains(string(answer), `"the body did not arrive in time"`) {
		t.Errorf("%v: %s", err, answer)
	}
}

// Pipelined requests are answered in their order, and the bytes after a body are the next request. If a request has
// both a Content-Length and a Transfer-Encoding, the Transfer-Encoding counts.
func TestServer_Pipelined(t *testing.T) {
	t.Attr("proves", "A20")
	r := newRooms(t)
	s := serve(t, r)
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"three": {
			"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nPOST /paid/submit HTTP/1.1\r\nHost: x\r\nContent-Type: " +
				"application/json\r\nContent-Length: 2\r\n\r\n{}GET /nope HTTP/1.1\r\nHost: x\r\n\r\n",
			[]string{"200", "202", "404"},
		},
		"behind a bad one": {
			"POST /paid/submit HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{GET /livez " +
				"HTTP/1.1\r\nHost: x\r\n\r\n",
			[]string{"400", "200"},
		},
		"behind one that was not read": {
			"POST /paid/submit HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n12345POST " +
				"/paid/submit HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
			[]string{"415"},
		},
		"a length and a coding": {
			"POST /paid/submit HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 6\r\n" +
				"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nGET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
			[]string{"202", "200"},
		},
		"a folded header": {"GET /livez HTTP/1.1\r\nHost: x\r\nX-A: a\r\n\tb\r\n\r\n", []string{"200"}},
	} {
		conn := dial(t, s)
		conn.send(c.text)
		if err := conn.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for {
			res, err := http.ReadResponse(conn.answers, nil)
			if err != nil {
				break
			}
			_, _ = io.Copy(io.Discard, res.Body)
			got = append(got, fmt.Sprint(res.StatusCode))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
