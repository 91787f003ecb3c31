package testkit

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// TCPProxy stands between any client and its server and breaks connections. It knows no protocol.
type TCPProxy struct {
	*gate
	t    testing.TB
	line line

	mu       sync.Mutex
	cutting  bool
	left     int    // bytes that may still go to the server before the cut
	losing   []byte // the text of DropReply; nil: not armed
	cuts     int
	lostNext map[*link]bool // links whose next bytes from the server are lost
}

// NewTCPProxy listens on a free port and dials backend (host:port) for each connection. It closes with the test.
func NewTCPProxy(t testing.TB, backend string) *TCPProxy {
	t.Helper()
	p, err := StartTCPProxy(backend)
	if err != nil {
		t.Fatal(err)
	}
	p.t = t
	t.Cleanup(p.Close)
	return p
}

// StartTCPProxy is NewTCPProxy for a program that is not a test: the caller closes the proxy, and must not call
// Refuse.
func StartTCPProxy(backend string) (*TCPProxy, error) {
	p := &TCPProxy{lostNext: map[*link]bool{}}
	g, err := newGate(backend, p.carry)
	if err != nil {
		return nil, err
	}
	p.gate = g
	return p, nil
}

// Cut closes every open connection, both sides. New connections are accepted.
func (p *TCPProxy) Cut() {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.cutAll()
}

// Reset is Cut, and resets the clients' connections: a client that writes on one next gets an error.
func (p *TCPProxy) Reset() {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	for l := range p.links {
		_ = l.client.(*net.TCPConn).SetLinger(0) // fails if the connection is closed already
	}
	p.cutAll()
}

// Refuse closes the port (true) or opens it again (false). A closed port refuses new connections; open connections
// stay, and Cut closes those.
func (p *TCPProxy) Refuse(on bool) {
	p.t.Helper()
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	if on {
		p.refuse()
		return
	}
	if p.closed || p.listener != nil {
		return
	}
	if err := p.listen(); err != nil {
		p.t.Fatal(err)
	}
}

// CutAfter arms one cut. After n more bytes to the server, counted over all connections from now on, the proxy
// closes the connection that carried the n-th byte. Later bytes of that connection are lost.
func (p *TCPProxy) CutAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutting, p.left = true, n
}

// DropReply arms one loss. The proxy sends on the next bytes to the server that contain text (COMMIT, for
// example), waits for the server's answer, drops the answer and closes that connection. The text must come in one
// write, as a SQL driver sends it.
func (p *TCPProxy) DropReply(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losing = []byte(text)
}

// Disarm removes a CutAfter or DropReply that has not had its effect yet.
func (p *TCPProxy) Disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutting, p.losing = false, nil
}

// Cuts counts the connections that CutAfter and DropReply closed: the evidence that the fault had an effect. A cut
// is counted before the client sees its connection closed.
func (p *TCPProxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

func (p *TCPProxy) carry(l *link) {
	var parts sync.WaitGroup
	parts.Go(func() { p.pump(l, true, p.toServer) })
	parts.Go(func() { p.pump(l, false, p.toClient) })
	parts.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.lostNext, l)
}

// pump copies one direction until one side is closed. judge returns how many bytes of each piece may pass, and
// whether the link ends after them.
func (p *TCPProxy) pump(l *link, out bool, judge func(*link, []byte) (pass int, end bool)) {
	defer l.cut()
	from, to := l.server, l.client
	if out {
		from, to = l.client, l.server
	}
	piece := make([]byte, 64<<10)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			p.line.pass(l, out, n)
			pass, end := judge(l, piece[:n])
			if _, err := to.Write(piece[:pass]); err != nil || end {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *TCPProxy) toServer(l *link, piece []byte) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.losing != nil && bytes.Contains(piece, p.losing) {
		p.losing = nil
		p.lostNext[l] = true
	}
	if !p.cutting {
		return len(piece), false
	}
	if len(piece) < p.left {
		p.left -= len(piece)
		return len(piece), false
	}
	p.cutting = false
	p.cuts++
	return p.left, true
}

func (p *TCPProxy) toClient(l *link, piece []byte) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.lostNext[l] {
		return len(piece), false
	}
	p.cuts++
	return 0, true
}
