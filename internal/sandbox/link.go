package sandbox

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is a connection to the box's Redis that can be cut. While it is cut, a new connection is opened and its first
// write fails. Refused connections would make go-redis wait before it dials again, also after the link is whole. Both
// errors mean the same to the caller: nothing was sent.
type link struct {
	dial func() (net.Conn, error)

	mu    sync.Mutex
	away  bool
	conns map[*linked]struct{}
}

func newLink(dial func() (net.Conn, error)) *link {
	return &link{dial: dial, conns: map[*linked]struct{}{}}
}

// errRefused is what a dial says. It is wrapped: go-redis takes a layer off what fails before a connection is set up.
var errRefused = fmt.Errorf("away: %w", &net.OpError{Op: "dial", Net: "memory", Err: errors.New("connection refused")})

// Dial is what a client connects with.
func (l *link) Dial() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &linked{link: l}
	if l.away {
		ours, theirs := net.Pipe()
		_ = theirs.Close()
		c.Conn = ours
		c.broken.Store(true)
		return c, nil
	}
	conn, err := l.dial()
	if err != nil {
		return nil, err
	}
	c.Conn = conn
	l.conns[c] = struct{}{}
	return c, nil
}

// cut breaks every connection, and new ones until heal.
func (l *link) cut() {
	l.mu.Lock()
	l.away = true
	conns := l.conns
	l.conns = map[*linked]struct{}{}
	l.mu.Unlock()
	for c := range conns {
		c.broken.Store(true)
		_ = c.Conn.Close()
	}
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = false
}

// linked is one of a link's connections.
type linked struct {
	net.Conn
	link   *link
	broken atomic.Bool
}

// Write fails on a broken connection as a dial would: nothing was sent.
func (c *linked) Write(b []byte) (int, error) {
	if c.broken.Load() {
		return 0, errRefused
	}
	return c.Conn.Write(b)
}

// SetWriteDeadline fails on a broken connection as Write does.
func (c *linked) SetWriteDeadline(t time.Time) error {
	if c.broken.Load() {
		return errRefused
	}
	return c.Conn.SetWriteDeadline(t)
}

// Close closes it.
func (c *linked) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}
