package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// sequences matches a terminal's control sequences: CSI and OSC with their parameters, in both the 7-bit and the
// 8-bit form, and ESC with one more character.
var sequences = regexp.MustCompile(
	`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]` + `|(?:\x1b\]|\x{9d})[^\x07\x1b\x{9c}]*(?:\x07|\x1b\\|\x{9c})` +
		`|\x1b[ -/]*[0-~]?`)

// clean makes a text from a user or a server safe for a terminal: one line, without control characters and without
// characters that reorder or hide text.
func clean(text string) string {
	text = sequences.ReplaceAllString(strings.ToValidUTF8(text, "\uFFFD"), "")
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return -1
	}, text)
}

// cut shortens a text to at most n characters.
func cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// escape makes JSON safe for a terminal. The value stays the same; characters that clean would drop become \u
// escapes.
func escape(text []byte) []byte {
	harmless := func(r rune) bool {
		return r == '\n' || r == '\t' || r == '\r' || r != utf8.RuneError && unicode.IsPrint(r)
	}
	if bytes.IndexFunc(text, func(r rune) bool { return !harmless(r) }) < 0 {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		switch {
		case harmless(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}
