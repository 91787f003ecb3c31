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

// maxReplies bounds what a server may say in one session, in bytes, TLS included.
const maxReplies = 256 << 10

var errChatty = errors.New("the server says too much")

// capped is a connection that reads no more than left bytes.
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

// replyCode is the code of a server's refusal, 0 for any other error.
func replyCode(err error) int {
	var reply *textproto.Error
	if errors.As(err, &reply) {
		return reply.Code
	}
	return 0
}

// failure is what failed and why, in words that are fit for a log line and a user's eyes; the reason is behind it.
type failure struct {
	text string
	err  error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.err }

// said says what failed: with the server's answer, if that was the reason. Of either at most 200 characters are kept,
// and only those that can be printed: they may be the server's own.
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

// refused is said; a code of 500 and above is the server's last word.
func refused(what string, err error) error {
	if replyCode(err) >= 500 {
		return handler.Permanent(said(what, err))
	}
	return said(what, err)
}
