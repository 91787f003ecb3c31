package job

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNoteOf(t *testing.T) {
	t.Parallel()
	for result, want := range map[string]string{
		`{"note":"rejected by 1 of 2"}`:                           "rejected by 1 of 2",
		`{"endpoints":[{"note":"not this one"}],"note":" this "}`: "this",
		`{"endpoints":[{"note":"not this one"}]}`:                 "",
		`{"note":7}`: "", `{"note":null}`: "", `{"note":{"note":"x"}}`: "", `["note"]`: "", `"note"`: "", `{"note":"cut`: "",
		"": "", "null": "",
		`{"note":"a\r\nb\u0007c\u001b[31m"}`:                    "a  b c [31m",
		`{"note":"` + strings.Repeat("a", 300) + `"}`:           strings.Repeat("a", 200),
		`{"note":"` + strings.Repeat("a", 199) + `\u20ac and"}`: strings.Repeat("a", 199),
	} {
		got := NoteOf([]byte(result))
		if got != want || !utf8.ValidString(got) {
			t.Errorf("%.60s: %q, want %q", result, got, want)
		}
	}
}
