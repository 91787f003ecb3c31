package job

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Progress is how far an attempt is, in its handler's own units.
type Progress struct {
	At    time.Time // when Redis was told, by its clock; the zero time before
	Done  int64
	Total int64 // 0 = the handler does not know
	Note  string
}

// MaxProgressNote is how many bytes the note of a progress has at most.
const MaxProgressNote = 200

// NewProgress returns a progress that fits its bounds: no number is below zero or above 2^53 - 1, and the note is UTF-8
// and is cut after MaxProgressNote bytes.
func NewProgress(done, total int64, note string) *Progress {
	const most = 1<<53 - 1 // the greatest number that every JSON reader takes exactly
	return &Progress{Done: min(max(done, 0), most), Total: min(max(total, 0), most), Note: CutText(note, MaxProgressNote)}
}

// CutText returns the beginning of a text, as valid UTF-8 of at most so many bytes.
func CutText(text string, bytes int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= bytes {
		return text
	}
	for bytes > 0 && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes]
}

// Text returns "done:total:note" without blanks, as the scripts and SQL have it.
func (p *Progress) Text() string {
	return strconv.FormatInt(p.Done, 10) + ":" + strconv.FormatInt(p.Total, 10) + ":" + escape(p.Note)
}

// StoredText returns "at:done:total:note", at in ms.
func (p *Progress) StoredText() string {
	return strconv.FormatInt(p.At.UnixMilli(), 10) + ":" + p.Text()
}

// ReadProgress reads what StoredText returned; nil for another text.
func ReadProgress(text string) *Progress {
	f := strings.SplitN(text, ":", 4)
	if len(f) != 4 {
		return nil
	}
	var n [3]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(f[i], 10, 64); err != nil || n[i] < 0 {
			return nil
		}
	}
	note, ok := unescape(f[3])
	if !ok {
		return nil
	}
	return &Progress{At: time.UnixMilli(n[0]).UTC(), Done: n[1], Total: n[2], Note: note}
}

const hexDigits = "0123456789ABCDEF"

// escape makes one word of a text: a blank becomes '+'; another control character, '+' and '%' become %XX.
func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c == ' ':
			b.WriteByte('+')
		case c < ' ', c == '+', c == '%', c == 0x7f:
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unescape is the reverse of escape; false for another text.
func unescape(text string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '+':
			b.WriteByte(' ')
		case '%':
			if i+2 >= len(text) {
				return "", false
			}
			n, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
			if err != nil {
				return "", false
			}
			b.WriteByte(byte(n))
			i += 2
		default:
			b.WriteByte(text[i])
		}
	}
	return b.String(), true
}
