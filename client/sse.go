package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// frame is one Server-Sent Event.
type frame struct {
	name, id string
	data     []byte
}

// frames reads a stream of Server-Sent Events.
type frames struct {
	lines *bufio.Scanner
	id    string        // the last id read
	retry time.Duration // the server's pause between two connections; 0 = not set
}

func newFrames(r io.Reader) *frames {
	f := &frames{lines: bufio.NewScanner(r)}
	f.lines.Buffer(nil, maxAnswer)
	return f
}

// next returns the next frame that has data or a name. A frame that was cut off does not count: the error is then
// io.ErrUnexpectedEOF, or the error that broke the stream.
func (f *frames) next() (frame, error) {
	var fr frame
	var data [][]byte
	size := 0
	for f.lines.Scan() {
		line := f.lines.Bytes()
		if len(line) == 0 {
			if data == nil && fr.name == "" {
				continue
			}
			fr.id, fr.data = f.id, bytes.Join(data, []byte{'\n'})
			return fr, nil
		}
		name, value, _ := strings.Cut(string(line), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			fr.name = value
		case "id":
			if !strings.ContainsRune(value, 0) {
				f.id = value
			}
		case "data":
			if size += len(value) + 1; size > maxAnswer {
				return frame{}, errors.New("an event is too large")
			}
			data = append(data, []byte(value))
		case "retry":
			if ms, err := strconv.ParseUint(value, 10, 31); err == nil {
				f.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
	if err := f.lines.Err(); err != nil {
		return frame{}, err
	}
	return frame{}, io.ErrUnexpectedEOF
}

// follow reads a stream, and connects again whenever it ends, to continue after the last event. It returns nil as
// soon as heard returns true. It returns an error when the context ends, when the server refuses for good, or
// after as many failures in a row as a call has tries.
func (c *Client) follow(ctx context.Context, k call, lastID string, heard func(frame) (enough bool)) error {
	if c.wrong != nil {
		return c.wrong
	}
	retry := time.Duration(0)
	for failed := 1; ; failed++ {
		k.header = http.Header{"Accept": {"text/event-stream"}}
		if lastID != "" {
			k.header.Set("Last-Event-ID", lastID)
		}
		enough, some, err := c.listen(ctx, &k, &lastID, &retry, heard)
		if enough {
			return nil
		}
		if some {
			failed = 1
		}
		e, refused := errors.AsType[*Error](err)
		if ctx.Err() != nil || refused && !passing(e) || failed >= c.policy.tries {
			return fmt.Errorf("%s: %w", k.verb, err)
		}
		wait := max(min(retry, c.policy.most), c.policy.base)
		if refused {
			wait = max(wait, min(e.RetryAfter, c.policy.most))
		}
		if err := sleep(ctx, wait+c.draw(c.policy.bound(failed))); err != nil {
			return fmt.Errorf("%s: %w", k.verb, err)
		}
	}
}

// listen reads one connection to its end. some means that a frame arrived.
func (c *Client) listen(ctx context.Context, k *call, lastID *string, retry *time.Duration,
	heard func(frame) bool) (enough, some bool, err error) {
	resp, e := c.try(ctx, k)
	if e != nil {
		return false, false, e
	}
	defer resp.Body.Close()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return false, false, &Error{Status: resp.StatusCode, Err: errors.New("the answer is not a stream of events")}
	}
	f := newFrames(resp.Body)
	for {
		fr, err := f.next()
		if f.retry > 0 {
			*retry = f.retry
		}
		if err != nil {
			return false, some, &Error{Err: fmt.Errorf("the stream ended: %w", err)}
		}
		some = true
		if f.id != "" {
			*lastID = f.id
		}
		if heard(fr) {
			return true, true, nil
		}
	}
}
