package job

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestDecide(t *testing.T) {
	fails := func(change func(*Report)) Report {
		r := Report{Kind: DidFail, Error: "boom", RetryAfter: -1}
		change(&r)
		return r
	}
	plain := End{Verb: Fails, Cause: HandlerError, Text: "boom", Delay: time.Minute}
	for name, c := range map[string]struct {
		report Report
		want   End
	}{
		"a success":             {Report{Result: []byte("{}")}, End{Verb: Completes, Result: []byte("{}")}},
		"without a result":      {Report{}, End{Verb: Completes}},
		"a result at the limit": {Report{Result: []byte("1234")}, End{Verb: Completes, Result: []byte("1234")}},
		"a result above the limit": {Report{Result: []byte("12345")}, End{
			Verb: Fails, Cause: ResultTooLarge, Final: true, Text: "the result has 5 bytes, the limit is 4",
		}},
		"a failure": {fails(func(*Report) {}), plain},
		"its own wait": {fails(func(r *Report) { r.RetryAfter = time.Second }),
			End{Verb: Fails, Cause: HandlerError, Text: "boom", Delay: time.Second}},
		"no wait": {fails(func(r *Report) { r.RetryAfter = 0 }), End{Verb: Fails, Cause: HandlerError, Text: "boom"}},
		"permanent": {fails(func(r *Report) { r.Permanent, r.RetryAfter = true, time.Second }),
			End{Verb: Fails, Cause: PermanentError, Text: "boom", Final: true}},
		"at its maximum time: at once, and it costs a retry": {
			fails(func(r *Report) { r.Overdue, r.MaxRun = true, 90*time.Second }),
			End{Verb: Fails, Cause: MaxTimeExceeded, Text: "the attempt reached its maximum processing time of 90 s: " +
				"maxProcessingSeconds of the queue or maxProcessingTimeMs of the tier allow more; boom"},
		},
		"permanent at its maximum time stays permanent": {fails(func(r *Report) { r.Permanent, r.Overdue = true, true }),
			End{Verb: Fails, Cause: PermanentError, Text: "boom", Final: true}},
		"an unknown type": {fails(func(r *Report) { r.UnknownType = true }),
			End{Verb: Fails, Cause: UnknownJobType, Text: "no worker knows this type"}},
		"given back": {Report{Kind: GaveBack, Reason: "none"}, End{Verb: Releases}},
		"later, for a reason": {Report{Kind: GaveBack, Delay: time.Hour, Reason: "2 of 3 say SUBMITTED"},
			End{Verb: Releases, Delay: time.Hour, Text: "2 of 3 say SUBMITTED"}},
		"a reason is cut to size, and made text": {
			Report{Kind: GaveBack, Delay: time.Hour, Reason: strings.Repeat("a", 511) + "\u20ac and more\xff"},
			End{Verb: Releases, Delay: time.Hour, Text: strings.Repeat("a", 511)},
		},
		"an error is cut to size": {fails(func(r *Report) { r.Error = strings.Repeat("e", 3000) }),
			End{Verb: Fails, Cause: HandlerError, Text: strings.Repeat("e", 2048), Delay: time.Minute}},
	} {
		if got := Decide(c.report, 4, time.Minute); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestEnd_Answered(t *testing.T) {
	fail, unknown := End{Verb: Fails, Cause: HandlerError}, End{Verb: Fails, Cause: UnknownJobType}
	for _, c := range []struct {
		end   End
		word  Word
		how   Ending
		cause Cause
	}{
		{End{Verb: Completes}, OK, EndCompleted, ""},
		{End{Verb: Completes}, WasCancelled, EndCancelled, ""},
		{End{Verb: Completes}, Lost, EndLost, ""},
		{fail, OK, EndRetried, HandlerError},
		{fail, Discarded, EndFailed, HandlerError},
		{unknown, OK, EndReleased, UnknownJobType},
		{unknown, Discarded, EndFailed, UnknownJobType},
		{End{Verb: Releases}, OK, EndReleased, ""},
		{End{Verb: Releases}, Discarded, EndFailed, LaterLimit},
		{End{Verb: Releases}, WasCancelled, EndCancelled, ""},
		{End{Verb: Releases}, "NEW", "", ""},
	} {
		if how, cause := c.end.Answered(c.word); how != c.how || cause != c.cause {
			t.Errorf("%+v answered with %s: %s %s, want %s %s", c.end, c.word, how, cause, c.how, c.cause)
		}
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
