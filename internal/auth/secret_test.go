package auth

import (
	"regexp"
	"strings"
	"testing"
)

var form = regexp.MustCompile(`^tq_[a-z2-7]{16}_[A-Za-z0-9_-]{43}$`)

func TestMint(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id, secret, text := Mint()
		if !form.MatchString(text) || text != "tq_"+id+"_"+secret || seen[id] || seen[secret] {
			t.Fatalf("%s, of %s and %s", text, id, secret)
		}
		seen[id], seen[secret] = true, true
		gotID, gotSecret, ok := Parse(text)
		if gotID != id || gotSecret != secret || !ok {
			t.Errorf("%s is read as %s, %s, %v", text, gotID, gotSecret, ok)
		}
	}
	id, before, _ := Mint()
	secret, text := mintSecret(id)
	if gotID, gotSecret, ok := Parse(text); gotID != id || gotSecret != secret || secret == before || !ok {
		t.Errorf("another secret of %s: %s", id, text)
	}
}

const aText = "tq_abcdefghijklmn27_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_A"

// A text with one bit more, less or changed is not a key.
func TestParseTakesNothingElse(t *testing.T) {
	if id, secret, ok := Parse(aText); !ok || id != "abcdefghijklmn27" || len(secret) != secretLen {
		t.Errorf("%s, %s, %v", id, secret, ok)
	}
	for _, text := range []string{
		"", "tq_", "tq__", aText[1:], aText[:len(aText)-1], aText + "A", " " + aText, aText + "\n", "TQ" + aText[2:],
		"tq-" + aText[3:],
		strings.Replace(aText, "27_", "27-", 1), strings.Replace(aText, "abc", "ABC", 1),
		strings.Replace(aText, "27", "18", 1),
		aText[:len(aText)-1] + "B", // bits that are never set in a secret
		aText[:len(aText)-1] + "=", aText[:len(aText)-2] + "\n=", aText[:len(aText)-2] + "\r\n",
		strings.Replace(aText, "AAA", "A A", 1),
		strings.Replace(aText, "AAA", "A+A", 1), strings.Replace(aText, "abc", "a\x00c", 1),
		strings.Replace(aText, "abc", "a\xffc", 1),
		strings.Replace(aText, "ab", "á", 1), strings.Repeat("a", 1<<20), "tq_" + strings.Repeat("_", 60),
	} {
		if id, secret, ok := Parse(text); ok || id != "" || secret != "" {
			t.Errorf("%.80q is read as %q, %q", text, id, secret)
		}
	}
}

func TestBearer(t *testing.T) {
	for _, tc := range []struct {
		header []string
		want   string
		ok     bool
	}{
		{[]string{"Bearer x"}, "x", true},
		{[]string{"bearer x"}, "x", true},
		{[]string{"BEARER  x"}, " x", true}, // which is not a key
		{[]string{"Bearer "}, "", true},
		{nil, "", false},
		{[]string{""}, "", false},
		{[]string{"Bearer"}, "", false},
		{[]string{"Basic eDp5"}, "", false},
		{[]string{"Bearer x", "Bearer x"}, "", false},
		{[]string{"x Bearer x"}, "", false},
	} {
		if got, ok := bearer(tc.header); got != tc.want || ok != tc.ok {
			t.Errorf("%q: %q, %v", tc.header, got, ok)
		}
	}
}

// A name that looks like another one, or like nothing, is refused.
func TestNames(t *testing.T) {
	t.Attr("proves", "A62")
	for _, name := range []string{"ci", "CI of team Z\u00fcrich", "\u6771\u4eac \u30ad\u30fc", "a-b_c.d:e/f@g (h)",
		strings.Repeat("x", 100), "\u043f\u0443\u0431\u043b\u0438\u043a\u0430"} {
		if !plain(name) {
			t.Errorf("%q is refused", name)
		}
	}
	for what, name := range map[string]string{
		"nothing": "", "too long": strings.Repeat("x", 101), "space before": " ci", "space after": "ci ",
		"two spaces": "a  b", "only space": " ",
		"line break": "a\nb", "tab": "a\tb", "NUL": "a\x00b", "escape": "\x1b[31mred", "delete": "a\x7fb",
		"not UTF-8":        "a\xffb",
		"zero width space": "c\u200bi", "joiner": "c\u200di", "byte order mark": "\ufeffci", "soft hyphen": "c\u00adi",
		"right to left": "\u202eic", "isolate": "\u2066ci\u2069",
		"no-break space": "a\u00a0b", "wide space": "a\u3000b", "line separator": "a\u2028b", "decomposed": "Zu\u0308rich",
		"full width": "\uff30\uff21\uff29\uff24", "ligature": "\ufb01le",
		"Kelvin": "\u212a", "mathematical": "\U0001d41a", "private": "\ue000", "tag": "a\U000e0041",
		"Hangul filler": "a\u3164b", "variation selector": "a\ufe0f", "unassigned": "\U000e1000",
		"superscript": "a\u00b2", "combining joiner": "a\u034fb",
	} {
		if plain(name) {
			t.Errorf("%s: %q is taken", what, name)
		}
	}
}
