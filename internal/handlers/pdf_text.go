package handlers

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// printable returns the text as the font can show it: letters composed with their accents, line breaks as \n,
// other white space as blanks, no invisible characters, and U+FFFD for characters that the font lacks.
func printable(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n").Replace(text)
	has := goLetters()
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case unicode.IsSpace(r) && r != '\u00a0':
			return ' '
		case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Variation_Selector, r):
			return -1
		}
		if !has[r] || r < ' ' {
			return utf8.RuneError
		}
		return r
	}, norm.NFC.String(text))
}

// wrap cuts a text into lines no wider than width: at line breaks, otherwise at blanks, and inside a word only if
// the word alone is too wide. A line has at least one character, however narrow the width.
func wrap(text string, width float64, advance func(rune) float64) []string {
	var lines []string
	for part := range strings.SplitSeq(text, "\n") {
		lines = append(lines, wrapOne(part, width, advance)...)
	}
	return lines
}

func wrapOne(text string, width float64, advance func(rune) float64) []string {
	var lines []string
	start, blank := 0, -1     // the line's start; the last blank in it
	wide, toBlank := 0.0, 0.0 // width from start to here; to behind the blank
	for i, r := range text {
		a := advance(r)
		if r == ' ' {
			blank, toBlank = i, wide+a
			wide += a
			continue // a blank at the line's end is cut off, so it may stand out
		}
		for wide+a > width && i > start {
			if blank >= start {
				if line := strings.TrimRight(text[start:blank], " "); line != "" {
					lines = append(lines, line)
				}
				start, wide = blank+1, wide-toBlank
			} else {
				lines = append(lines, text[start:i])
				start, wide = i, 0
			}
		}
		wide += a
	}
	return append(lines, strings.TrimRight(text[start:], " "))
}
