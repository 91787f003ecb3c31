package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// bean is a connection. Its protocol is lines, and bodies of a length that their line tells.
type bean struct {
	conn   net.Conn
	reader *bufio.Reader
	cancel func() bool
}

// dial returns a connection that ends with ctx, so that nobody waits longer.
func (b *beanstalkdPeer) dial(ctx context.Context) (*bean, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", b.addr)
	if err != nil {
		return nil, fmt.Errorf("dial beanstalkd: %w", err)
	}
	return &bean{conn: conn, reader: bufio.NewReader(conn), cancel: context.AfterFunc(ctx, func() { _ = conn.Close() })},
		nil
}

func (c *bean) close() {
	c.cancel()
	_ = c.conn.Close()
}

func (c *bean) send(text string) error {
	if _, err := c.conn.Write([]byte(text)); err != nil {
		return fmt.Errorf("beanstalkd: %w", err)
	}
	return nil
}

// expect reads a line that begins with a word and returns what follows it.
func (c *bean) expect(word string) ([]string, error) {
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("beanstalkd: %w", err)
	}
	fields := strings.Fields(line)
	if len(fields) == 0 || fields[0] != word {
		return fields, fmt.Errorf("beanstalkd answered %q, not %s", strings.TrimSpace(line), word)
	}
	return fields[1:], nil
}

func (c *bean) put(body string) error {
	if err := c.send(fmt.Sprintf("put 0 0 %d %d\r\n%s\r\n", beanstalkdTTR, len(body), body)); err != nil {
		return err
	}
	_, err := c.expect("INSERTED")
	return err
}

// body reads what a line of this length announced.
func (c *bean) body(length string) ([]byte, error) {
	n, err := strconv.Atoi(length)
	if err != nil {
		return nil, fmt.Errorf("beanstalkd: length %q: %w", length, err)
	}
	b := make([]byte, n+2) // and \r\n
	if _, err := io.ReadFull(c.reader, b); err != nil {
		return nil, fmt.Errorf("beanstalkd: %w", err)
	}
	return b[:n], nil
}

func (c *bean) stats() (map[string]string, error) {
	if err := c.send("stats\r\n"); err != nil {
		return nil, err
	}
	answer, err := c.expect("OK")
	if err != nil {
		return nil, err
	}
	text, err := c.body(answer[0])
	stats := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			stats[name] = strings.Trim(value, `"`)
		}
	}
	return stats, err
}

// work reserves, hands over the body, and deletes, until the connection ends. One write carries a delete and the next
// reserve, and the server answers in that order.
func (c *bean) work(handle func(body []byte), deleted func()) error {
	request := "reserve\r\n"
	for {
		if err := c.send(request); err != nil {
			return err
		}
		if request != "reserve\r\n" {
			if _, err := c.expect("DELETED"); err != nil {
				return err
			}
			deleted()
		}
		job, err := c.expect("RESERVED")
		if err != nil {
			return err
		}
		body, err := c.body(job[1])
		if err != nil {
			return err
		}
		handle(body)
		request = "delete " + job[0] + "\r\nreserve\r\n"
	}
}

// holds fails unless n jobs wait and none is reserved.
func (c *bean) holds(n int) error {
	stats, err := c.stats()
	if ready, reserved := stats["current-jobs-ready"], stats["current-jobs-reserved"]; err == nil &&
		(ready != strconv.Itoa(n) || reserved != "0") {
		err = fmt.Errorf("%s jobs wait and %s are reserved, not %d and 0", ready, reserved, n)
	}
	return err
}
