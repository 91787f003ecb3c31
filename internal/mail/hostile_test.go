package mail

import (
	"bufio"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

// chat is the server's end of a connection.
type chat struct {
	net.Conn
	lines *bufio.Scanner
}

func (c *chat) say(line string) bool { _, err := c.Write([]byte(line + "\r\n")); return err == nil }
func (c *chat) hear() bool           { return c.lines.Scan() }

// talker starts a server that serves one connection by a script.
func talker(t *testing.T, script func(*chat)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		script(&chat{Conn: conn, lines: bufio.NewScanner(conn)})
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

// A53: the client hangs up on a server that sends endless replies, in any step of the session.
func TestEndlessReplies(t *testing.T) {
	t.Attr("proves", "A53")
	for name, script := range map[string]func(*chat){
		"an endless line": func(c *chat) {
			for c.say("220 \x1b" + strings.Repeat("x", 1<<16)); ; {
				if _, err := c.Write([]byte(strings.Repeat("x", 1<<16))); err != nil {
					return
				}
			}
		},
		"a reply of a million lines": func(c *chat) {
			for range 1_000_000 {
				if !c.say("220-x") {
					return
				}
			}
		},
		"an endless EHLO": func(c *chat) {
			c.say("220 hello")
			c.hear()
			for c.say("250-X") {
			}
		},
		"an endless answer to a recipient": func(c *chat) {
			c.say("220 hello")
			for _, answer := range []string{"250 hello", "250 sender", ""} {
				if c.hear(); answer != "" {
					c.say(answer)
				}
			}
			for c.say("250-fine") {
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := parse("smtp://"+talker(t, script)+"?from=a@b&tls=none", nil)
			if err != nil {
				t.Fatal(err)
			}
			s.patience = 20 * time.Second
			_, err = s.Send(t.Context(), greeting)
			if !errors.Is(err, errChatty) || strings.ContainsAny(err.Error(), "\x1b\r\n") || handler.Judge(err).Permanent ||
				len(err.Error()) > 400 {
				t.Errorf("Send = %.500q", err)
			}
		})
	}
}

func TestSilentServer(t *testing.T) {
	for name, script := range map[string]func(*chat){
		"from the start": func(c *chat) { c.hear() },
		"after the message": func(c *chat) {
			c.say("220 hello")
			for _, answer := range []string{"250 hello", "250 sender", "250 one", "250 two", "354 go on"} {
				c.hear()
				c.say(answer)
			}
			for c.hear() {
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := parse("smtp://"+talker(t, script)+"?from=a@b&tls=none", nil)
			if err != nil {
				t.Fatal(err)
			}
			s.patience = 300 * time.Millisecond
			if _, err := s.Send(t.Context(), greeting); err == nil || handler.Judge(err).Permanent ||
				!strings.Contains(err.Error(), "took longer than 300ms") {
				t.Errorf("Send = %v", err)
			}
		})
	}
}

// The client does not send a password to a server that offers TLS and then continues in the clear with text
// injected before TLS.
func TestInjectedBeforeTLS(t *testing.T) {
	t.Attr("proves", "A48")
	heard := make(chan string, 100)
	addr := talker(t, func(c *chat) {
		c.say("220 hello")
		c.hear()
		c.say("250-hello\r\n250-AUTH PLAIN\r\n250 STARTTLS")
		c.hear()
		c.say("220 go on\r\n250-hello\r\n250 AUTH PLAIN\r\n235 welcome\r\n250 sender\r\n250 one\r\n250 two\r\n354 go " +
			"on\r\n250 done")
		for c.hear() {
			heard <- c.lines.Text()
		}
	})
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	s, err := parse("smtp://me:secret@localhost:"+port+"?from=a@b", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.patience = 300 * time.Millisecond
	if _, err := s.Send(t.Context(), greeting); err == nil {
		t.Error("the message was sent")
	}
	for len(heard) > 0 {
		if line := <-heard; strings.Contains(line, "AUTH") || strings.Contains(line, "RCPT") {
			t.Errorf("the server heard %q", line)
		}
	}
}
