package main

import (
	"encoding/json"
	"reflect"
	"regexp"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/fuzz"
)

func TestClean(t *testing.T) {
	t.Attr("proves", "A54")
	for text, want := range map[string]string{
		"plain, ünï 漢字 ✓": "plain, ünï 漢字 ✓",
		"a\x1b[1;31mb\x1b[0m\x1b]8;;http://x\x1b\\c\x1b]0;t\x07d\x1bcE": "abcdE",
		"\u009b2J\u009d0;t\u009cx":                                      "x",
		"a\r\nb\tc\x00\x7f\b":                                           "a  b c",
		"\u202eevil\u2066\u200b":                                        "evil",
		"\xff":                                                          "\uFFFD",
		"\x1b":                                                          "",
		"\x1b]never ended":                                              "never ended",
	} {
		if got := clean(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// For every text, clean and escape leave no control sequence, and escape keeps the JSON value.
func FuzzClean(f *testing.F) {
	f.Attr("proves", "A54")
	fuzz.Text(f, func(t *testing.T, text string) {
		for _, r := range clean(text) {
			if r < ' ' || r != ' ' && !unicode.IsPrint(r) {
				t.Fatalf("%q: %q is left", text, r)
			}
		}
		doc, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		safe := escape(doc)
		if regexp.MustCompile(`[\x00-\x1f\x7f-\x{9f}\x{202a}-\x{202e}]`).Match(safe) || !utf8.Valid(safe) {
			t.Fatalf("%q", safe)
		}
		var before, after any
		if json.Unmarshal(doc, &before) != nil || json.Unmarshal(safe, &after) != nil || !reflect.DeepEqual(before, after) {
			t.Fatalf("%q is not %q", safe, doc)
		}
		if short := cut(clean(text), 10); utf8.RuneCountInString(short) > 10 || clean(clean(text)) != clean(text) {
			t.Fatalf("%q, and cleaned again %q", short, clean(clean(text)))
		}
	}, hostile, "\x1b\x1b[[31m", "\U000e0041\u2028\xff\x9b", "\x1b]0;title\x07", "\u009b31m", "a\r\nb\tc",
		"\u202eevil\u2066")
}
