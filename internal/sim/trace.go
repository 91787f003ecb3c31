package sim

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// The trace has a line per call and fault. Two runs of a seed are compared by its hash. The text is made only if
// Options.Trace asks for it.

// say adds a call that was let through, with its reply or error.
func (w *World) say(c *call, reply any, err error, how string) {
	w.mark(c.proc.nonce, c.name, how)
	w.mark(c.args...)
	if err != nil {
		w.mark(err.Error())
	} else if c.kind == toRedis {
		w.markReply(reply)
	}
	if !w.Trace {
		return
	}
	line := w.now() + " " + c.proc.nonce + " " + c.name
	for _, a := range c.args[min(c.keys, len(c.args)):] {
		line += " " + word(a)
	}
	if how != "" {
		line += " <" + how + ">"
	}
	if err != nil {
		line += " ! " + err.Error()
	} else if c.kind == toRedis {
		line += fmt.Sprintf(" = %q", reply)
	}
	w.report.Trace = append(w.report.Trace, line)
}

// note adds another event.
func (w *World) note(words ...string) {
	w.mark(words...)
	if w.Trace {
		w.report.Trace = append(w.report.Trace, w.now()+" "+strings.Join(words, " "))
	}
}

func word(text string) string {
	if text == "" || strings.ContainsAny(text, " \n\"") {
		return fmt.Sprintf("%q", text)
	}
	return text
}

func (w *World) now() string { return fmt.Sprintf("%6.1f", time.Since(w.began).Seconds()) }

func (w *World) mark(words ...string) {
	w.line = binary.BigEndian.AppendUint64(w.line[:0], uint64(time.Since(w.began)))
	for _, text := range words {
		w.line = append(append(w.line, text...), 0)
	}
	_, _ = w.hash.Write(w.line) // a hash never returns an error
}

func (w *World) markReply(reply any) {
	switch r := reply.(type) {
	case nil:
		w.mark("-")
	case string:
		w.mark(r)
	case server.Simple:
		w.mark(string(r))
	case []any:
		w.mark("[")
		for i := range r {
			w.markReply(r[i])
		}
		w.mark("]")
	default:
		w.mark(fmt.Sprint(r))
	}
}
