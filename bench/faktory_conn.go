package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// fakConn is a connection of a Faktory client. It writes lines that are ready, and reads no more of a reply than it
// must.
type fakConn struct {
	nc  net.Conn
	in  *bufio.Reader
	out []byte
	got []string // the jids of the jobs that it fetched
}

// dialFaktory connects and says HELLO; wid "" = the client only pushes.
func dialFaktory(ctx context.Context, addr, wid string) (*fakConn, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	c := &fakConn{nc: nc, in: bufio.NewReaderSize(nc, 8<<10)}
	line, err := c.in.ReadSlice('\n')
	if err == nil && !bytes.HasPrefix(line, []byte("+HI ")) {
		err = fmt.Errorf("the server said %q", line)
	}
	if err == nil {
		hello := `HELLO {"v":2,"hostname":"bench","pid":1,"labels":["golang"]`
		if wid != "" {
			hello += `,"wid":"` + wid + `"`
		}
		err = c.ok([]byte(hello + "}\r\n"))
	}
	if err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return c, nil
}

// ok sends a line whose reply must be +OK.
func (c *fakConn) ok(line []byte) error {
	if _, err := c.nc.Write(line); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	answer, err := c.in.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if string(answer) != "+OK\r\n" {
		return fmt.Errorf("the server answered %q to %.60q", answer, line)
	}
	return nil
}

// push sends a job as clients for Go make them.
func (c *fakConn) push(jid string) error {
	c.out = append(append(c.out[:0], `PUSH {"jid":"`...), jid...)
	c.out = append(c.out, `","queue":"default","jobtype":"Bench","args":[`...)
	c.out = append(append(c.out, payload()...),
		`],"created_at":"2026-01-02T03:04:05.678901234Z","retry":25}`+"\r\n"...)
	return c.ok(c.out)
}

// work fetches a job and ends it.
func (c *fakConn) work() error {
	for {
		if _, err := io.WriteString(c.nc, "FETCH default\r\n"); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		text, err := c.bulk()
		if err != nil {
			return err
		}
		if text == nil {
			continue // the server had nothing within the time that a FETCH waits
		}
		_, rest, _ := bytes.Cut(text, []byte(`"jid":"`))
		jid, _, found := bytes.Cut(rest, []byte(`"`))
		if !found {
			return fmt.Errorf("a job without a jid: %.200q", text)
		}
		c.got = append(c.got, string(jid))
		c.out = append(append(append(c.out[:0], `ACK {"jid":"`...), jid...), "\"}\r\n"...)
		return c.ok(c.out)
	}
}

// bulk reads a text; nil = none. It is valid until the next call.
func (c *fakConn) bulk() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	if string(line) == "$-1\r\n" {
		return nil, nil
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(bytes.TrimPrefix(line, []byte("$")))))
	if err != nil || n < 0 || n > 64<<10 {
		return nil, fmt.Errorf("the server answered %q to a FETCH", line)
	}
	text := make([]byte, n+2)
	if _, err := io.ReadFull(c.in, text); err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	return text[:n], nil
}

// dialFaktories opens connections, which belong to so many workers in turn; 0 = they only push. The function closes
// them.
func dialFaktories(ctx context.Context, addr string, connections, workers int) (all []*fakConn, end func(), err error) {
	end = func() {
		for _, c := range all {
			_ = c.nc.Close()
		}
	}
	for i := range connections {
		wid := ""
		if workers > 0 {
			wid = fmt.Sprintf("worker-%d-of-%d", i%workers, workers)
		}
		c, err := dialFaktory(ctx, addr, wid)
		if err != nil {
			end()
			return nil, nil, err
		}
		all = append(all, c)
	}
	return all, end, nil
}
