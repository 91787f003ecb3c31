package faktory

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/fuzz"
	"github.com/tierq/tierq/internal/job"
)

// Whatever a client pushes: the job comes to its worker byte for byte, as one line of JSON in which the server's
// members count, or it is refused with a text.
func FuzzJobText(f *testing.F) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	fuzz.Text(f, func(t *testing.T, text string) {
		p, err := readJob([]byte(text))
		if err != nil {
			if err.Error() == "" {
				t.Error("a refusal without a reason")
			}
			return
		}
		if len(p.Jid) < leastJid || !job.IsForeignTypeName(p.Type) || p.reserve() < leastReserve*time.Second ||
			p.reserve() > mostReserve*time.Second {
			t.Errorf("accepted with jid %q, type %q, reserve %s", p.Jid, p.Type, p.reserve())
		}
		if n := p.retries(job.DefaultPlans()[0]); n < 0 || n > 5 {
			t.Errorf("accepted with %d retries", n)
		}
		l := &job.Lease{Job: job.Job{ID: "id", Type: p.Type, ArrivedAt: at, Payload: []byte(text)}}
		jid, bare, again := jidOf(l)
		done := complete(bare, &again, l, &failure{Message: "m"})
		trimmed := bytes.TrimSpace([]byte(text))
		if jid != p.Jid || !bytes.HasPrefix(done, trimmed[:len(trimmed)-1]) {
			t.Errorf("%q comes as %q", text, done)
		}
		var read struct {
			Jid      string `json:"jid"`
			Enqueued string `json:"enqueued_at"`
		}
		if err := json.Unmarshal(done, &read); err != nil || read.Jid != p.Jid || read.Enqueued != "2026-05-01T12:00:00Z" {
			t.Errorf("%q comes as %q: %+v, %v", text, done, read, err)
		}
	}, `{"jid":"12345678","jobtype":"T","args":[]}`,
		`{"jid":"12345678","jobtype":"Foo::Bar","args":[1.0,"x"],"queue":"q","at":"2026-05-01T12:00:00Z","retry":-1}`,
		` {"JID":"12345678","jobtype":"T","args":[],"reserve_for":90,"custom":{"tier":"paid"},"enqueued_at":""} `,
		`{"jid":"\u0000\ud800xxxxxxxx","jobtype":"T","args":[[[]]],"failure":null}`, `[]`, `{`, `null`, `{}`)
}

// Whatever a client sends: each line is one command with one reply, and nothing of a line is left for the next.
func FuzzLines(f *testing.F) {
	fuzz.Text(f, func(t *testing.T, text string) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		go func() {
			_, _ = theirs.Write([]byte(text))
			_ = theirs.Close()
		}()
		s := &Server{}
		c := &conn{server: s, nc: ours, in: bufio.NewReaderSize(ours, 16), worker: &worker{}}
		var want []string
		for line := range strings.SplitAfterSeq(text, "\n") {
			if !strings.HasSuffix(line, "\n") {
				break
			}
			line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
			if len(line) > 40 && !strings.HasPrefix(line, "PUSHB ") {
				break
			}
			want = append(want, line)
		}
		for n := 0; ; n++ {
			line, err := c.readLine(40)
			if err != nil {
				if n < len(want) {
					t.Errorf("line %d of %q: %v", n, text, err)
				}
				break
			}
			if n >= len(want) || string(line) != want[n] {
				t.Errorf("line %d of %q is %q", n, text, line)
				break
			}
		}
		c.release()
		if n := s.memory.Load(); n != 0 {
			t.Errorf("%d bytes are not given back", n)
		}
	}, "PUSH {}\nACK {}\r\n", "a long line that is longer than the buffer and its bound\nx\n", "\n\r\n\r\r\n",
		"PUSHB "+strings.Repeat("x", 100)+"\nEND\n", "no end")
}

// Whatever a pattern is, it is matched in bounded time, and matches as simple ones say.
func FuzzGlob(f *testing.F) {
	fuzz.Text(f, func(t *testing.T, pattern string) {
		_ = glob(pattern, pattern)
		if len(pattern) > mostPattern {
			return
		}
		if !strings.ContainsAny(pattern, `*?[\`) && !glob(pattern, pattern) {
			t.Errorf("%q does not match itself", pattern)
		}
		if !strings.ContainsAny(pattern, `[\`) && !glob("*"+pattern+"*", "x"+pattern+"y") {
			t.Errorf("%q is not found", pattern)
		}
	}, "*", "a?c", "[a-c]", "[^", `\`, "*a*b*", "[]-]", "plain")
}
