package queue

import (
	"bytes"
	"context"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// ConnectInMemory opens the clients of a server inside this process: dial returns a connection to it.
func ConnectInMemory(dial func() (net.Conn, error)) Clients {
	return ConnectWith(redis.UniversalOptions{
		Addrs: []string{"memory"},
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			c, err := dial()
			if err != nil {
				return nil, err
			}
			return &memoryConn{Conn: c}, nil
		},
	})
}

// memoryConn is the client's end of a net.Pipe, which has no buffer. A client writes a whole pipeline of commands
// before it reads the first reply, and the server answers each command before it reads on. With more commands than
// the server reads at once, each side would wait for the other. A goroutine therefore makes long writes, in order.
type memoryConn struct {
	net.Conn

	mu       sync.Mutex
	deadline time.Time     // the write deadline of the next short write
	written  chan struct{} // closed when the last long write is done; nil = there was none
}

// readAtOnce is the size of the server's read buffer: so many bytes the server takes without answering.
const readAtOnce = 4096

// Write returns when the server has read b or, for a long b, at once. It fails at once on a connection that is
// known to be broken. A long write that fails later closes the connection.
func (c *memoryConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	before := c.written
	if before != nil {
		select {
		case <-before:
			before = nil
		default:
		}
	}
	short := before == nil && len(b) <= readAtOnce
	deadline := c.deadline
	if !short {
		deadline = time.Time{} // from now on the client relies on its read deadline
	}
	if err := c.Conn.SetWriteDeadline(deadline); err != nil {
		c.mu.Unlock()
		return 0, err
	}
	if short {
		c.written = nil
		c.mu.Unlock()
		return c.Conn.Write(b)
	}
	written := make(chan struct{})
	c.written = written
	c.mu.Unlock()
	rest := bytes.Clone(b) // the client reuses b
	go func() {
		defer close(written)
		if before != nil {
			<-before
		}
		if _, err := c.Conn.Write(rest); err != nil {
			_ = c.Close() // the client's next read fails
		}
	}()
	return len(b), nil
}

// SetWriteDeadline sets the deadline of the next short write. It never fails.
func (c *memoryConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

// SetDeadline sets the read and the write deadline.
func (c *memoryConn) SetDeadline(t time.Time) error {
	_ = c.SetWriteDeadline(t) // never fails
	return c.SetReadDeadline(t)
}
