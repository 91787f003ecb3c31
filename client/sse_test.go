package client

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func TestFrames(t *testing.T) {
	for text, want := range map[string]string{
		"data: a\n\n":                             "[:a:]",
		"data:a\n\n":                              "[:a:]",
		"data:  a\n\n":                            "[: a:]",
		"data: a\r\ndata:\r\ndata: b\r\n\r\n":     "[:a\n\nb:]",
		"event: bye\n\n":                          "[bye::]",
		"event: x\ndata: a\nid: 1\n\ndata: b\n\n": "[x:a:1] [:b:1]",
		"id: 1\n\ndata: a\n\n":                    "[:a:1]",
		"id: 1\ndata: a\n\nid\ndata: b\n\n":       "[:a:1] [:b:]",
		"id: 1\x002\ndata: a\n\n":                 "[:a:]",
		": ping\n\n:\n\ndata: a\n\n":              "[:a:]",
		"retry: 1500\n\nother: x\nnothing\n\n":    "",
		"data: whole\n\ndata: cut":                "[:whole:]",
		"data: cut off before the empty line\n":   "",
		"":                                        "",
	} {
		f := newFrames(strings.NewReader(text))
		var got []string
		fr, err := f.next()
		for ; err == nil; fr, err = f.next() {
			got = append(got, fmt.Sprintf("[%s:%s:%s]", fr.name, fr.data, fr.id))
		}
		if strings.Join(got, " ") != want || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
		if strings.HasPrefix(text, "retry") != (f.retry == 1500*time.Millisecond) {
			t.Errorf("%q: retry %v", text, f.retry)
		}
	}
}

// A frame is limited to the size of one answer.
func TestFrames_AreBounded(t *testing.T) {
	if _, err := newFrames(strings.NewReader("data: " + strings.Repeat("x", maxAnswer) + "\n\n")).next(); !errors.Is(err,
		bufio.ErrTooLong) {
		t.Errorf("one line: %v", err)
	}
	line := "data: " + strings.Repeat("x", maxAnswer/4) + "\n"
	if _, err := newFrames(strings.NewReader(strings.Repeat(line, 5) + "\n")).next(); err == nil ||
		errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("many lines: %v", err)
	}
}
