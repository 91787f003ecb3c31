package faktory

import (
	"bufio"
	"bytes"
	"errors"
	"time"
)

// The bounds of a line. A job may be as long as a payload; what its client adds must fit into lineRest.
const (
	lineRest    = 16 << 10
	bulkLine    = 16 << 20 // of PUSHB
	freeLine    = 64 << 10 // the part of a line that does not count as shared memory
	lineMemory  = 128 << 20
	helloLine   = 8 << 10
	lineBound   = 15 * time.Second // from the first byte of a line to its end
	replyBound  = 10 * time.Second
	commandTime = 4500 * time.Millisecond // clients wait for 5 s
)

var (
	errTooLong  = errors.New("too long")
	errNoMemory = errors.New("too many long lines are being read, try again")
)

// readLine reads the next line, without its end: LF, or CRLF. The line is valid until the next call. most is how long
// the line may be; a PUSHB may be longer. After errTooLong and errNoMemory the rest of the line is unread.
func (c *conn) readLine(most int) (line []byte, err error) {
	c.release()
	if line, err = c.whole(); line == nil && err == nil {
		line, err = c.rest(most)
	}
	if err != nil {
		return nil, err
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) > c.mostOf(line, most) {
		return nil, errTooLong
	}
	return line, nil
}

// whole waits for the first byte of a line, for any time. It returns the line if all of it has arrived, as it mostly
// has, else nil.
func (c *conn) whole() ([]byte, error) {
	if _, err := c.in.Peek(1); err != nil {
		return nil, err
	}
	there, _ := c.in.Peek(c.in.Buffered())
	if bytes.IndexByte(there, '\n') < 0 {
		return nil, nil
	}
	return c.in.ReadSlice('\n')
}

// rest reads a line of which a part has arrived. It waits for lineBound at most.
func (c *conn) rest(most int) ([]byte, error) {
	if c.worker != nil { // HELLO has a deadline of its own
		c.readBy(time.Now().Add(lineBound))
		defer c.readBy(time.Time{})
	}
	for c.long = c.long[:0]; ; {
		piece, err := c.in.ReadSlice('\n')
		c.long = append(c.long, piece...)
		if full := c.charge(most); full != nil {
			return nil, full
		}
		if err == nil {
			return c.long, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

// charge takes shared memory for the line that is being read.
func (c *conn) charge(most int) error {
	if len(c.long) > c.mostOf(c.long, most)+2 {
		return errTooLong
	}
	if more := int64(cap(c.long)-freeLine) - c.charged; more > 0 {
		c.charged += more
		if c.server.memory.Add(more) > lineMemory {
			return errNoMemory
		}
	}
	return nil
}

// release gives back the memory of the line before.
func (c *conn) release() {
	if c.charged > 0 {
		c.server.memory.Add(-c.charged)
		c.charged, c.long = 0, nil
	}
}

// mostOf returns how long a line may be that begins so.
func (c *conn) mostOf(line []byte, most int) int {
	if c.worker != nil && bytes.HasPrefix(line, []byte("PUSHB ")) {
		return max(most, bulkLine)
	}
	return most
}
