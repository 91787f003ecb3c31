package testkit

import (
	"bufio"
	"slices"
	"strings"
	"testing"
)

func TestReadFrame(t *testing.T) {
	t.Parallel()
	for _, frame := range []string{
		"+OK\r\n", "-ERR no\r\n", ":1\r\n", "$3\r\nabc\r\n", "$0\r\n\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "_\r\n", "#t\r\n",
		",1.5\r\n", "(123\r\n",
		"*2\r\n$1\r\na\r\n*1\r\n:2\r\n", "%1\r\n+a\r\n*1\r\n+b\r\n", "~2\r\n:1\r\n:2\r\n", ">2\r\n+message\r\n+x\r\n",
		"=7\r\ntxt:abc\r\n", "!3\r\nERR\r\n",
		"|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n", "PING\r\n",
	} {
		r := bufio.NewReader(strings.NewReader(frame + "+next\r\n"))
		got, err := readFrame(r)
		if err != nil || string(got) != frame {
			t.Errorf("%q: got %q, %v", frame, got, err)
		}
		if next, err := readFrame(r); err != nil || string(next) != "+next\r\n" {
			t.Errorf("after %q: got %q, %v", frame, next, err)
		}
		if got, err := readFrame(bufio.NewReader(strings.NewReader(frame[:len(frame)-1]))); err == nil {
			t.Errorf("%q cut off was read as %q", frame, got)
		}
	}
	if got := words([]byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n")); !slices.Equal(got,
		[]string{"SET", "k", "a\r\nb"}) {
		t.Errorf("words: %q", got)
	}
}
