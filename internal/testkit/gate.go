package testkit

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// gate is the common part of both proxies: a listener, and one link per connection.
type gate struct {
	addr    string
	backend string
	serve   func(*link) // returns when the link is over

	mu       sync.Mutex
	listener net.Listener // nil while it refuses
	links    map[*link]bool
	closed   bool
	running  sync.WaitGroup
}

// link is a client's connection and the matching connection to the server.
type link struct {
	client, server net.Conn
	over           chan struct{} // closed by cut
	once           sync.Once
}

// cut closes both sides. A second call does nothing.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.over)
		_ = l.client.Close() // the other side may have closed it already
		_ = l.server.Close()
	})
}

func newGate(backend string, serve func(*link)) (*gate, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	g := &gate{addr: local(port), backend: backend, serve: serve, links: map[*link]bool{}}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.listen(); err != nil {
		return nil, err
	}
	return g, nil
}

// listen opens the port again. The caller holds mu.
func (g *gate) listen() error {
	l, err := listen(g.addr, 5*time.Second)
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	g.listener = l
	g.running.Add(1)
	go g.accept(l)
	return nil
}

// listen waits while the address is in use. A child that this process is just starting may still hold a copy of
// the listener that was closed.
func listen(addr string, patience time.Duration) (l net.Listener, err error) {
	every(patience, func() bool {
		l, err = net.Listen("tcp", addr)
		return !errors.Is(err, syscall.EADDRINUSE)
	})
	return l, err
}

func (g *gate) accept(l net.Listener) {
	defer g.running.Done()
	for {
		client, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the client was gone before it was accepted
		}
		g.running.Add(1)
		go g.handle(client)
	}
}

func (g *gate) handle(client net.Conn) {
	defer g.running.Done()
	server, err := net.DialTimeout("tcp", g.backend, 5*time.Second)
	if err != nil {
		_ = client.Close() // the client gets EOF, as it would from a load balancer
		return
	}
	l := &link{client: client, server: server, over: make(chan struct{})}
	defer l.cut()
	g.mu.Lock()
	g.links[l] = true
	closed := g.closed
	g.mu.Unlock()
	if !closed {
		g.serve(l)
	}
	g.mu.Lock()
	delete(g.links, l)
	g.mu.Unlock()
}

// Addr is host:port.
func (g *gate) Addr() string { return g.addr }

// Close closes the listener and every connection, and returns when all links are over. A second call does nothing.
func (g *gate) Close() {
	g.mu.Lock()
	g.closed = true
	g.refuse()
	g.cutAll()
	g.mu.Unlock()
	g.running.Wait()
}

// refuse closes the port. The caller holds mu.
func (g *gate) refuse() {
	if g.listener != nil {
		_ = g.listener.Close() // a connection that it has not accepted yet is lost, which no test notices
		g.listener = nil
	}
}

// cutAll closes every open connection. The caller holds mu.
func (g *gate) cutAll() {
	for l := range g.links {
		l.cut()
	}
}
