package sandbox

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link makes connections to the box's Redis that can be cut. While the link is cut, a new connection opens and its
// first write fails. If the dial itself failed, go-redis would wait before the next dial, even after the link is
// healed. To the caller both errors mean that nothing was sent.
type link struct {
	dial func() (net.Conn, error)

	mu    sync.Mutex
	away  bool
	conns map[*linked]struct{}
}

func newLink(dial func() (net.Conn, error)) *link {
	return &link{dial: dial, conns: map[*linked]struct{}{}}
}

// errRefused is the error of a failed dial. It is wrapped because go-redis unwraps one layer of an error before a
// connection is set up.
var errRefused = fmt.Errorf("away: %w", &net.OpError{Op: "dial", Net: "memory", Err: errors.New("connection refused")})

// Dial makes a connection for a client.
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

// cut breaks all connections, and new ones until heal.
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

// linked is a connection of a link.
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

// Close closes the connection and removes it from its link.
func (c *linked) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}
