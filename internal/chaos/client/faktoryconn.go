package client

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// faktoryConn is a connection that speaks Faktory's protocol.
type faktoryConn struct {
	nc    net.Conn
	in    *bufio.Reader
	bound time.Duration // of each command
	stop  func() bool
}

// faktoryReply is a reply of the protocol. Its kind is + or - or $; a $ without a text found nothing.
type faktoryReply struct {
	kind byte
	text string
}

var errFaktory = errors.New("no reply of Faktory's protocol")

// dialFaktory connects and says HELLO. A wid of "" is a producer's. The connection closes when ctx ends.
func dialFaktory(ctx context.Context, addr string, key Key, wid string, bound time.Duration) (*faktoryConn, error) {
	dialer := net.Dialer{Timeout: bound}
	nc, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &faktoryConn{nc: nc, in: bufio.NewReader(nc), bound: bound}
	c.stop = context.AfterFunc(ctx, func() { _ = nc.Close() })
	if err := c.greet(key, wid); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *faktoryConn) greet(key Key, wid string) error {
	_ = c.nc.SetDeadline(time.Now().Add(c.bound))
	hi, err := c.hear()
	if err != nil {
		return err
	}
	var asks struct {
		Times int    `json:"i"`
		Salt  string `json:"s"`
	}
	if json.Unmarshal([]byte(strings.TrimPrefix(hi.text, "HI ")), &asks) != nil || asks.Salt == "" {
		return fmt.Errorf("%w: %q", errFaktory, hi.text)
	}
	sum := sha256.Sum256([]byte(key.Text + asks.Salt))
	for range asks.Times - 1 {
		sum = sha256.Sum256(sum[:])
	}
	hello := map[string]any{"v": 2, "hostname": "chaos", "username": key.ID, "pwdhash": hex.EncodeToString(sum[:])}
	if wid != "" {
		hello["wid"], hello["pid"], hello["labels"] = wid, 1, []string{"chaos"}
	}
	r, err := c.ask("HELLO", hello)
	if err == nil && r.kind != '+' {
		err = fmt.Errorf("%w: %q", errFaktory, r.text)
	}
	return err
}

// say sends a command. What follows its verb is a text, or a value that is sent as JSON.
func (c *faktoryConn) say(verb string, rest any) error {
	text, ok := rest.(string)
	if !ok {
		encoded, err := json.Marshal(rest)
		if err != nil {
			return fmt.Errorf("%s: %w", verb, err)
		}
		text = string(encoded)
	}
	_ = c.nc.SetDeadline(time.Now().Add(c.bound))
	_, err := io.WriteString(c.nc, verb+" "+text+"\r\n")
	return err
}

// hear reads a reply. An error ends the connection.
func (c *faktoryConn) hear() (r faktoryReply, err error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return r, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return r, errFaktory
	}
	r = faktoryReply{line[0], line[1:]}
	if r.kind != '$' {
		return r, nil
	}
	n, err := strconv.Atoi(r.text)
	if r.text = ""; err != nil || n < 0 {
		return r, err
	}
	text := make([]byte, n+2)
	_, err = io.ReadFull(c.in, text)
	r.text = string(text[:n])
	return r, err
}

func (c *faktoryConn) ask(verb string, rest any) (faktoryReply, error) {
	if err := c.say(verb, rest); err != nil {
		return faktoryReply{}, err
	}
	return c.hear()
}

func (c *faktoryConn) close() {
	c.stop()
	_ = c.nc.Close()
}
