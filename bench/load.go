package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// caller is one keep-alive connection that sends bytes prepared before and parses no more of an answer than it must.
type caller struct {
	conn   net.Conn
	reader *bufio.Reader
}

func dial(ctx context.Context, addr string) (*caller, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	return &caller{conn: conn, reader: bufio.NewReader(conn)}, nil
}

// request is a submit of PAID with a body, as bytes on the wire.
func request(addr, body string) []byte {
	return fmt.Appendf(nil, "POST /paid/submit HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", addr, len(body), body)
}

var lengthHeader = []byte("Content-Length: ")

// call sends a request and returns when its whole answer was read. Any answer but 202 is an error.
func (c *caller) call(request []byte) error {
	status, body, err := c.ask(request)
	if err == nil && status != http.StatusAccepted {
		err = fmt.Errorf("answered %d: %s", status, body)
	}
	return err
}

// ask is call for any answer; it returns the body of one that is not 202, as far as it is there.
func (c *caller) ask(request []byte) (status int, body string, err error) {
	if _, err := c.conn.Write(request); err != nil {
		return 0, "", fmt.Errorf("send: %w", err)
	}
	length := -1
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return 0, "", fmt.Errorf("read: %w", err)
		}
		if len(line) == 2 {
			break
		}
		switch text, isLength := bytes.CutPrefix(line, lengthHeader); {
		case status == 0 && len(line) > 12:
			status, err = strconv.Atoi(string(line[9:12])) // HTTP/1.1 202 Accepted
		case isLength:
			length, err = strconv.Atoi(string(bytes.TrimSpace(text)))
		}
		if err != nil {
			return 0, "", fmt.Errorf("read: %w", err)
		}
	}
	if length < 0 {
		return 0, "", errors.New("the answer has no Content-Length")
	}
	if status != http.StatusAccepted {
		peeked, _ := c.reader.Peek(min(length, c.reader.Buffered()))
		body = string(peeked)
	}
	if _, err := c.reader.Discard(length); err != nil {
		return 0, "", fmt.Errorf("read: %w", err)
	}
	return status, body, nil
}

// load sends n requests over a number of connections, each with one under way at a time, and returns how long it took
// in all and each.
func load(ctx context.Context, addr string, connections, n int, request []byte) (time.Duration, []time.Duration,
	error) {
	callers := make([]*caller, connections)
	for i := range callers {
		c, err := dial(ctx, addr)
		if err != nil {
			return 0, nil, err
		}
		defer c.conn.Close()
		callers[i] = c
	}
	defer context.AfterFunc(ctx, func() {
		for _, c := range callers {
			_ = c.conn.Close() // whoever waits for an answer stops waiting
		}
	})()
	var left atomic.Int64
	left.Store(int64(n))
	times := make([][]time.Duration, connections)
	errs := make([]error, connections)
	var group sync.WaitGroup
	began := time.Now()
	for i, c := range callers {
		group.Go(func() {
			own := make([]time.Duration, 0, n/connections*2)
			for left.Add(-1) >= 0 {
				sent := time.Now()
				if errs[i] = c.call(request); errs[i] != nil {
					return
				}
				own = append(own, time.Since(sent))
			}
			times[i] = own
		})
	}
	group.Wait()
	took := time.Since(began)
	all := make([]time.Duration, 0, n)
	for _, own := range times {
		all = append(all, own...)
	}
	return took, all, errors.Join(errs...)
}
