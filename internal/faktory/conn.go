package faktory

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// conn is a connection of a client.
type conn struct {
	server *Server
	nc     net.Conn
	from   netip.Addr
	in     *bufio.Reader
	out    []byte // the reply that is being written
	long   []byte // a line that is longer than the buffer of in
	// charged is how much of the server's memory for long lines this connection has.
	charged int64

	salt   string
	keyID  string // of the caller; "" = none, on an open server
	caller job.Caller
	looked time.Time // when the caller was last looked up
	worker *worker   // nil before HELLO
	ended  bool      // the client has said END

	mu     sync.Mutex
	until  time.Time // the deadline of reads
	closes bool      // interrupted: no more lines are read
}

func newConn(s *Server, nc net.Conn, from netip.Addr) *conn {
	return &conn{server: s, nc: nc, from: from, in: bufio.NewReaderSize(nc, 4<<10)}
}

// errClosing ends a connection to which a reply was written.
var errClosing = errors.New("closing")

// serve greets the client, and runs its commands until it leaves.
func (c *conn) serve() {
	defer c.leave()
	defer func() {
		if r := recover(); r != nil {
			c.server.Log.Error("a command of a Faktory client failed", "panic", r, "stack", string(debug.Stack()))
			_ = c.fail("internal error")
		}
	}()
	if c.greet() != nil {
		return
	}
	for !c.ended {
		line, err := c.readLine(c.server.PayloadLimit + lineRest)
		if err != nil {
			if errors.Is(err, errTooLong) || errors.Is(err, errNoMemory) {
				_ = c.fail(err.Error())
				c.linger()
			}
			return
		}
		if c.run(line) != nil {
			return
		}
	}
}

// run carries out a command. An error ends the connection.
func (c *conn) run(line []byte) error {
	verb, rest := line, []byte(nil)
	for i, b := range line {
		if b == ' ' {
			verb, rest = line[:i], line[i+1:]
			break
		}
	}
	command, known := commands[string(verb)]
	if !known {
		return c.fail("unknown command " + string(verb))
	}
	c.server.commands.Add(1)
	ctx, cancel := context.WithTimeout(c.server.io, commandTime)
	defer cancel()
	if err := c.lookUp(ctx); err != nil {
		return err
	}
	if !command.free {
		if err := c.spend(ctx, 1); err != nil {
			return c.refuse(err)
		}
	}
	return command.run(c, ctx, rest)
}

// The bounds of linger.
const (
	lingerFor   = 500 * time.Millisecond
	lingerBytes = 1 << 20
)

// linger reads some of what the client still sends: the system would drop the reply if unread bytes were left.
func (c *conn) linger() {
	if tcp, ok := c.nc.(interface{ CloseWrite() error }); ok && tcp.CloseWrite() == nil {
		_ = c.nc.SetReadDeadline(time.Now().Add(lingerFor))
		_, _ = io.CopyN(io.Discard, c.nc, lingerBytes)
	}
}

// leave closes the connection.
func (c *conn) leave() {
	_ = c.nc.Close()
	c.server.memory.Add(-c.charged)
	if c.worker != nil {
		c.server.workers.leave(c.worker, c)
	}
	c.server.gone(c)
}

// readBy sets the deadline of reads; the zero time = none.
func (c *conn) readBy(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until = t; !c.closes {
		_ = c.nc.SetReadDeadline(t)
	}
}

// interrupt ends the connection once the command that runs has its reply.
func (c *conn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closes = true
	_ = c.nc.SetReadDeadline(time.Unix(1, 0))
}

// watch watches for the end of the connection while a command waits, and calls gone then. The function that it returns
// ends the watch; no line may be read before.
func (c *conn) watch(gone func()) (stop func()) {
	if c.in.Buffered() > 0 {
		return func() {} // the client sends already what comes next
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var timeout net.Error
		if _, err := c.in.Peek(1); err != nil && (!errors.As(err, &timeout) || !timeout.Timeout()) {
			gone()
		}
	}()
	return func() {
		c.mu.Lock()
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
		c.mu.Unlock()
		<-ended
		c.mu.Lock()
		if !c.closes {
			_ = c.nc.SetReadDeadline(c.until)
		}
		c.mu.Unlock()
	}
}

// ok writes the reply +OK.
func (c *conn) ok() error { return c.write(append(c.out[:0], "+OK\r\n"...)) }

// result writes a text as the reply.
func (c *conn) result(text []byte) error {
	out := strconv.AppendInt(append(c.out[:0], '$'), int64(len(text)), 10)
	out = append(append(append(out, "\r\n"...), text...), "\r\n"...)
	return c.write(out)
}

// nothing writes the reply of a FETCH that found no job.
func (c *conn) nothing() error { return c.write(append(c.out[:0], "$-1\r\n"...)) }

// mostError is how long the text of an error may be.
const mostError = 512

// fail writes an error. Clients take every other reply than -ERR for something else.
func (c *conn) fail(text string) error {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7F {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), mostError)], ""))
	return c.write(append(append(append(c.out[:0], "-ERR "...), text...), "\r\n"...))
}

// failAndClose writes an error and ends the connection.
func (c *conn) failAndClose(text string) error {
	_ = c.fail(text)
	return errClosing
}

func (c *conn) write(out []byte) error {
	c.out = out
	if cap(out) > freeLine {
		c.out = nil
	}
	_ = c.nc.SetWriteDeadline(time.Now().Add(replyBound))
	_, err := c.nc.Write(out)
	return err
}
