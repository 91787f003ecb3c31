package fuzz

import (
	"math/rand/v2"
	"strings"
)

// mutator makes small random changes to texts, without knowing their format.
type mutator struct {
	seeds []string
	rand  *rand.Rand
}

// most is the largest size of a mutation, in bytes.
const most = 16 << 10

// tokens have a meaning in one format or another.
var tokens = []string{
	`"`, `\`, `{`, `}`, `[`, `]`, `:`, `,`, `""`, `{}`, `[]`, `null`, `true`, `\u0000`, `\ud800`, `\uD83D\uDE00`, `\"`,
	"0", "-0", "-1", "1e999", "1e-999", "0x10", "9223372036854775807", "9223372036854775808", "99999999999999999999",
	"NaN", "1_000", "0.1",
	"1e3", "+1",
	"\x00", "\r\n", "\n", "\r", "\t", "\x1b[31m", "\x7f", "\xff", "\xc0\xaf", "\xed\xa0\x80", "\ufeff", "\u202e", "\u2028",
	"\u200b", "İ",
	"ſ", "é", "漢",
	"%00", "%2f", "%2e%2e", "%", "%zz", "../", "/", "//", "?", "#", "&", "=", ";", "+", " ", "  ", "@", "*", "'", "`", "<",
	">", "<script>", "$(id)", "|", "--",
	"PAID", "paid", "SIMULATION", "null\x00", "T", "Z", "+14:00", "2026-02-30T25:61:61Z",
	"019de340-01fe-7a58-be69-567cd7d6b7d4", "00-", "W/", "tq_", "Bearer ",
	"127.0.0.1", "::ffff:127.0.0.1", "[::1]", "fe80::1%lo", "10.0.0.0/8",
}

// mutate makes one to four changes to a text.
func (m *mutator) mutate(text string) string {
	for range 1 + m.rand.IntN(4) {
		text = m.step(text)
	}
	return text[:min(len(text), most)]
}

func (m *mutator) step(text string) string {
	i, j := m.span(text)
	before, middle, after := text[:i], text[i:j], text[j:]
	switch m.rand.IntN(9) {
	case 0: // flip a bit
		if after != "" {
			return before + middle + string([]byte{after[0] ^ 1<<m.rand.IntN(8)}) + after[1:]
		}
	case 1: // insert a byte
		return before + string([]byte{byte(m.rand.IntN(256))}) + middle + after
	case 2, 3: // insert a token
		return before + tokens[m.rand.IntN(len(tokens))] + middle + after
	case 4:
		return before + tokens[m.rand.IntN(len(tokens))] + after
	case 5: // remove a part
		return before + after
	case 6: // repeat a part
		return before + middle + middle + after
	case 7: // repeat a part many times
		return before + strings.Repeat(middle, 1+m.rand.IntN(64)) + after
	case 8: // continue with the end of another text
		if len(m.seeds) > 0 {
			other := m.seeds[m.rand.IntN(len(m.seeds))]
			at, _ := m.span(other)
			return before + other[at:]
		}
	}
	return before + after
}

// span returns a random place in a text and a second one at most 64 bytes behind it.
func (m *mutator) span(text string) (i, j int) {
	i = m.rand.IntN(len(text) + 1)
	return i, min(len(text), i+m.rand.IntN(1+m.rand.IntN(1+min(len(text), 64))))
}
