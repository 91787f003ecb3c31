package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// serveH2C serves a handler also over HTTP/2 without TLS, and returns a client that speaks HTTP/2 only.
func serveH2C(t *testing.T, h http.Handler, change func(*http.Server)) (*Server, *http.Client) {
	t.Helper()
	s := NewServer("TIERQ_ADDR", "127.0.0.1:0", h, Limits{H2C: true}, nil)
	if change != nil {
		change(s.server)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	only := &http.Protocols{}
	only.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: only}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s, &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// peer is a client that writes arbitrary frames. It reads all that arrives, so that the server is never blocked by
// it.
type peer struct {
	t *testing.T
	net.Conn
	*http2.Framer
	text    bytes.Buffer
	headers *hpack.Encoder
	ended   chan struct{} // the server closed the connection
	refused atomic.Int64  // streams that were reset
}

func newPeer(t *testing.T, s *Server) *peer {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	p := &peer{t: t, Conn: c, Framer: http2.NewFramer(c, c), ended: make(chan struct{})}
	p.headers = hpack.NewEncoder(&p.text)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for {
			f, err := p.ReadFrame()
			if err != nil {
				return
			}
			if r, ok := f.(*http2.RSTStreamFrame); ok && r.ErrCode == http2.ErrCodeRefusedStream {
				p.refused.Add(1)
			}
		}
	}()
	t.Cleanup(func() { c.Close(); <-p.ended })
	return p
}

// block returns the compressed headers of a request.
func (p *peer) block(method, path string, more ...string) []byte {
	p.text.Reset()
	all := append([]string{":method", method, ":scheme", "http", ":authority", "localhost", ":path", path}, more...)
	for i := 0; i+1 < len(all); i += 2 {
		if err := p.headers.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]}); err != nil {
			p.t.Fatal(err)
		}
	}
	return p.text.Bytes()
}

func (p *peer) open(stream uint32, block []byte) error {
	return p.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndHeaders: true,
		EndStream: true})
}

// cut waits until the server closes the connection.
func (p *peer) cut() {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		p.t.Error("the connection is still there")
	}
}

// others checks that another client is served, over both protocols.
func others(t *testing.T, s *Server, client *http.Client) {
	t.Helper()
	for _, c := range []*http.Client{client,
		{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}} {
		res, err := c.Get("http://" + s.Addr() + "/livez")
		if err != nil {
			t.Errorf("another client: %v", err)
			continue
		}
		res.Body.Close()
		if res.StatusCode != 200 {
			t.Errorf("another client: %d", res.StatusCode)
		}
	}
}

// The server speaks HTTP/2 without TLS only if H2C is set, and only to clients that begin with it. It ignores the
// header Upgrade.
func TestH2C_OnlyWhereSaid(t *testing.T) {
	t.Attr("proves", "A18 A20")
	plain := serve(t, newRooms(t))
	if line, err := begin(t, plain, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); !strings.HasPrefix(line, "HTTP/1.1 ") ||
		strings.Contains(line, "200") {
		t.Errorf("off: %q %v", line, err)
	}
	s, client := serveH2C(t, newRooms(t), nil)
	for _, one := range []*Server{plain, s} {
		line, err := begin(t, one, "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n"+
			"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
		if err != nil || line != "HTTP/1.1 200 OK\r\n" {
			t.Errorf("Upgrade: %q %v", line, err)
		}
	}
	res, err := client.Get("http://" + s.Addr() + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != 200 || res.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s %d %v", res.Proto, res.StatusCode, res.Header)
	}
	others(t, s, client)
}

func begin(t *testing.T, s *Server, text string) (string, error) {
	t.Helper()
	c := dial(t, s)
	c.send(text)
	return c.answers.ReadString('\n')
}

// Waits and streams may last longer than the server's own limits, and end when a drain begins.
func TestH2C_WaitsAndStreams(t *testing.T) {
	t.Attr("proves", "A16 A24")
	t.Parallel()
	r := newRooms(t)
	draining := make(chan struct{})
	entered := make(chan struct{}, 2)
	r.await = func(ctx context.Context, _ job.ID, _ func(*job.Job) bool) (job.Job, error) {
		entered <- struct{}{}
		select {
		case <-ctx.Done():
		case <-draining:
		}
		return at(job.Processing, 1), nil
	}
	r.messages = make(chan job.Message)
	s, client := serveH2C(t, r, func(s *http.Server) {
		s.ReadTimeout, s.WriteTimeout = 100*time.Millisecond,
			100*time.Millisecond
	})
	s.OnDrain(func() { close(draining); close(r.messages) })
	answers := make(chan string, 2)
	wait := func(query string) {
		res, err := client.Get("http://" + s.Addr() + pollKnown + query)
		if err != nil {
			answers <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		answers <- res.Status + " " + string(body)
	}
	go wait("&wait=1s")
	if got := <-answers; !strings.HasPrefix(got, "200") || !strings.Contains(got, "PROCESSING") {
		t.Errorf("a wait of a second, with limits of 100 ms: %s", got)
	}
	<-entered
	res, err := client.Get("http://" + s.Addr() + "/api/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() || lines.Text() != "retry: 2000" || res.ProtoMajor != 2 {
		t.Errorf("%s: the stream begins with %q", res.Proto, lines.Text())
	}
	<-time.After(300 * time.Millisecond)
	r.messages <- job.Message{ID: "7", Event: job.Event{ID: knownID, Status: job.Pending, At: aMoment}}
	heard := false
	for lines.Scan() && !heard {
		heard = lines.Text() == "id: 7"
	}
	if !heard {
		t.Errorf("the event did not come: %v", lines.Err())
	}
	go wait("&wait=60s")
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	go func() {
		for lines.Scan() { // the events of the drain
		}
	}()
	if err := s.Drain(ctx); err != nil {
		t.Errorf("drain: %v", err)
	}
	if got := <-answers; !strings.HasPrefix(got, "200") {
		t.Errorf("who waited when the drain began: %s", got)
	}
}

// A client resets ten thousand streams as soon as it opens them, and the handlers ignore the resets. Never more
// handlers run than streams may be open, and the server closes the connection.
func TestH2C_RapidReset(t *testing.T) {
	t.Attr("proves", "A18")
	var running, most atomic.Int64
	leave := make(chan struct{})
	api := NewHandler(Deps{Ready: newRooms(t), HealthOnly: true})
	s, client := serveH2C(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/wait" {
			api.ServeHTTP(w, r)
			return
		}
		n := running.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-leave
		running.Add(-1)
	}), nil)
	before := runtime.NumGoroutine()
	p := newPeer(t, s)
	opened := 0
	for n := range uint32(10_000) {
		if p.open(2*n+1, p.block("GET", "/wait")) != nil || p.WriteRSTStream(2*n+1, http2.ErrCodeCancel) != nil {
			break // the server has closed the connection
		}
		opened++
	}
	p.cut()
	others(t, s, client)
	if got := runtime.NumGoroutine() - before; got > 300 {
		t.Errorf("%d goroutines more", got)
	}
	if got := most.Load(); got > 100 {
		t.Errorf("%d handlers at once", got)
	}
	close(leave)
	testkit.Eventually(t, 5*time.Second, "every handler has ended",
		func() (bool, string) { return running.Load() == 0, "" })
	t.Logf("evidence: %d of 10000 streams were written before the server had enough; at most %d handlers at once", opened,
		most.Load())
}

// Of a thousand open streams on one connection, a hundred are served and the others refused. Another connection is
// served as usual.
func TestH2C_ManyStreams(t *testing.T) {
	t.Attr("proves", "A18")
	r := newRooms(t)
	entered := make(chan struct{}, 1000)
	r.await = func(ctx context.Context, _ job.ID, _ func(*job.Job) bool) (job.Job, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return at(job.Processing, 1), ctx.Err()
	}
	s, client := serveH2C(t, r, nil)
	p := newPeer(t, s)
	for n := range uint32(1000) {
		if p.open(2*n+1, p.block("GET", pollKnown+"&wait=60s")) != nil {
			break
		}
	}
	testkit.Eventually(t, 5*time.Second, "a hundred wait", func() (bool, string) { return len(entered) == 100, "" })
	others(t, s, client)
	if len(entered) > 100 {
		t.Errorf("%d wait on one connection", len(entered))
	}
	p.Close()
}

// Endless headers, headers that unpack to megabytes, and control frames whose answers the client does not read end
// their own connection and no other. The test measures the heap, so it does not run in parallel.
func TestH2C_Floods(t *testing.T) {
	t.Attr("proves", "A18 A19")
	s, client := serveH2C(t, newRooms(t), nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)

	endless := newPeer(t, s)
	_ = endless.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: endless.block("GET", "/livez"),
		EndStream: true})
	sent := 0
	for range 10_000 {
		if endless.WriteContinuation(1, false,
			endless.block("GET", "/", "x-a", fmt.Sprint(sent)+strings.Repeat("a", 4000))) != nil {
			break
		}
		sent++
	}
	endless.cut()

	bomb := newPeer(t, s)
	_ = bomb.open(1, bomb.block("GET", "/livez", "x-a", strings.Repeat("a", 4000))) // the compression table has it now
	block := bytes.Clone(bomb.block("GET", "/livez", "x-a", strings.Repeat("a", 4000)))
	for n := range uint32(50) {
		// Each byte stands for 4 KB of headers.
		_ = bomb.open(2*n+3, append(block[:len(block):len(block)], bytes.Repeat(block[len(block)-1:], 15_000)...))
	}
	others(t, s, client)

	pings := newPeer(t, s)
	for range 20_000 {
		if pings.WritePing(false, [8]byte{}) != nil || pings.WriteSettings() != nil {
			break
		}
	}
	others(t, s, client)
	runtime.ReadMemStats(&after)
	grown := int64(after.HeapInuse) - int64(before.HeapInuse)
	if grown > 64<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	t.Logf("evidence: cut off after %d frames of an endless header; the heap grew by %d KiB", sent, grown>>10)
}

// If a client opens no window for the answers to its requests, the server gives them up after the write timeout,
// and the handlers end.
func TestH2C_NoWindow(t *testing.T) {
	t.Attr("proves", "A16")
	var running atomic.Int64
	s, client := serveH2C(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/livez" {
			return
		}
		running.Add(1)
		defer running.Add(-1)
		_, _ = w.Write(make([]byte, 1<<20))
	}), func(s *http.Server) { s.WriteTimeout = 500 * time.Millisecond })
	p := newPeer(t, s)
	for n := range uint32(50) {
		if err := p.open(2*n+1, p.block("GET", "/large")); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, 5*time.Second, "the answers are begun", func() (bool, string) { return running.Load() > 0, "" })
	others(t, s, client)
	testkit.Eventually(t, 10*time.Second, "every handler has ended",
		func() (bool, string) { return running.Load() == 0, "" })
}
