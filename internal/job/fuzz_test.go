package job

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/fuzz"
)

// An id has one internal spelling, whatever its sender's, and a partition.
func FuzzParseID(f *testing.F) {
	f.Attr("proves", "A58")
	fuzz.Text(f, func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err != nil {
			if id != "" {
				t.Errorf("refused, and read as %q", id)
			}
			return
		}
		again, err := ParseID(string(id))
		if err != nil || again != id || string(id) != strings.ToLower(s) ||
			strings.Trim(string(id), "0123456789abcdef-") != "" {
			t.Errorf("read as %q, which is read as %q, %v", id, again, err)
		}
		if p := id.Partition(); p < 0 || p > 255 {
			t.Errorf("partition %d", p)
		}
	}, "019de340-01fe-7a58-be69-567cd7d6b7d4", "019DE340-01FE-7A58-BE69-567CD7D6B7D4", "019de34001fe7a58be69567cd7d6b7d4",
		"{019de340-01fe-7a58-be69-567cd7d6b7d4}",
		"019de340-01fe-7a58-be69-567cd7d6b7d4\r\n", "019de340-01fe-7a58-be69-567cd7d6b7d}", "")
}

// Options that were read are written as one part of a head, and read back unchanged.
func FuzzReadOptions(f *testing.F) {
	fuzz.Text(f, func(t *testing.T, s string) {
		o, err := ReadOptions(s)
		if err != nil {
			return
		}
		text := o.Text()
		again, err := ReadOptions(text)
		if err != nil || again != o {
			t.Errorf("read as %+v, written as %q, read as %+v, %v", o, text, again, err)
		}
		if strings.ContainsAny(text, "\r\n") || !utf8.ValidString(text) {
			t.Errorf("written as %q", text)
		}
	}, "", "{}", `{"callbackUrl":"https://example.org/x?y=z"}`, `{"spanId":"00f067aa0ba902b7"}`, `{"everybody":true}`,
		`{"callbackUrl":null,"more":[1]}`, `{"callbackUrl":1}`)
}
