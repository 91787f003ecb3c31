package mail

import (
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"strings"
	"unicode"

	"github.com/tierq/tierq/internal/handler"
)

// maxReplies limits what a server may send in one session, in bytes, TLS included.
const maxReplies = 256 << 10

var errChatty = errors.New("the server says too much")

// capped is a connection that reads at most left bytes.
type capped struct {
	net.Conn
	left int
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errChatty
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// replyCode returns the code of a server's refusal; 0 for any other error.
func replyCode(err error) int {
	var reply *textproto.Error
	if errors.As(err, &reply) {
		return reply.Code
	}
	return 0
}

// failure is an error whose text may be shown in logs and to users. It wraps the cause.
type failure struct {
	text string
	err  error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.err }

// said returns an error with what failed and the server's answer, or the cause if there was no answer. It keeps at
// most 200 characters of either, and only printable ones, because the server may have chosen them.
func said(what string, err error) error {
	text := err.Error()
	if reply := (*textproto.Error)(nil); errors.As(err, &reply) {
		text = fmt.Sprintf("the server answers %d %s", reply.Code, reply.Msg)
	}
	runes := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, text))
	return &failure{what + ": " + string(runes[:min(len(runes), 200)]), err}
}

// refused returns the error of said. A code of 500 and above makes the error permanent.
func refused(what string, err error) error {
	if replyCode(err) >= 500 {
		return handler.Permanent(said(what, err))
	}
	return said(what, err)
}
