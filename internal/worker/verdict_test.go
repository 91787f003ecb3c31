package worker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

func TestFailed(t *testing.T) {
	boom := errors.New("boom")
	plain := ending{kind: fail, cause: job.HandlerError, text: "boom", delay: time.Minute}
	cases := []struct {
		name  string
		err   error
		ended error // why the context ended
		want  ending
	}{
		{"an error", boom, nil, plain},
		{"at its maximum time: at once, and it costs a retry", boom, handler.ErrMaxTime,
			ending{kind: fail, cause: job.MaxTimeExceeded, text: "boom"}},
		{"permanent at its maximum time stays permanent", handler.Permanent(boom), handler.ErrMaxTime,
			ending{kind: fail, cause: job.PermanentError, text: "boom", final: true}},
		{"cancelled: the script makes it CANCELLED", boom, handler.ErrCancelled, plain},
		{"draining costs nothing", boom, handler.ErrDraining, ending{kind: release}},
		{"permanent while draining: perhaps it was our doing", handler.Permanent(boom), handler.ErrDraining,
			ending{kind: release}},
		{"an untrusted lease costs nothing", boom, handler.ErrLeaseLost, ending{kind: release}},
		{"later, whatever ended", handler.Later(time.Hour), handler.ErrDraining, ending{kind: release, delay: time.Hour}},
		{"later, for a reason", fmt.Errorf("busy: %w", handler.LaterBecause(time.Hour, "2 of 3 say SUBMITTED")), nil,
			ending{kind: release, delay: time.Hour, text: "2 of 3 say SUBMITTED"}},
		{
			"a reason is cut to size, and made text",
			handler.LaterBecause(time.Hour, strings.Repeat("a", 511)+"\u20ac and more\xff"),
			nil,
			ending{kind: release, delay: time.Hour, text: strings.Repeat("a", 511)},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := failed(ran{err: c.err, verdict: handler.Judge(c.err)}, c.ended, time.Minute)
			if got.kind != c.want.kind || got.cause != c.want.cause || got.text != c.want.text || got.final != c.want.final ||
				got.delay != c.want.delay {
				t.Errorf("ending = %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestClip(t *testing.T) {
	cases := []struct{ name, in, want string }{
		{"short", "abc", "abc"},
		{"exact", "abcdefgh", "abcdefgh"},
		{"long", "abcdefghi", "abcdefgh"},
		{"not inside a character", "abcdef\u20ac\u20ac", "abcdef"},
		{"a character that just fits", "abcde\u20ac\u20ac", "abcde\u20ac"},
		{"no text", "\xff\xff", "\uFFFD"},
		{"no text, and the replacement does not fit", "abcdefg\xff", "abcdefg"},
		{"only continuation bytes", strings.Repeat("\x80", 20), "\uFFFD"},
		{"empty", "", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := clip(c.in, 8); got != c.want || !utf8.ValidString(got) {
				t.Errorf("clip = %q, want %q", got, c.want)
			}
		})
	}
}
