package handlers

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// printable is the text as the font can show it: letters composed with their accents, line breaks as \n, other white
// space as blanks, invisible characters gone, and U+FFFD for what the font lacks.
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

// wrap cuts a text into lines no wider than width: at line breaks, else at blanks, inside a word only if the word alone
// is too wide. A line has at least one character, however narrow the width.
func wrap(text string, width float64, advance func(rune) float64) []string {
	var lines []string
	for part := range strings.SplitSeq(text, "\n") {
		lines = append(lines, wrapOne(part, width, advance)...)
	}
	return lines
}

func wrapOne(text string, width float64, advance func(rune) float64) []string {
	var lines []string
	start, blank := 0, -1     // of the line; the last place to cut it
	wide, toBlank := 0.0, 0.0 // from start to here; from start to behind the blank
	for i, r := range text {
		a := advance(r)
		if r == ' ' {
			blank, toBlank = i, wide+a
			wide += a
			continue // a blank may hang over: it is cut off
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
