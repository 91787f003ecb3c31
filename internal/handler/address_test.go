package handler

import (
	"strings"
	"testing"
)

// A55: ReadAddress refuses texts that could end a command or a header, or that programs read in different ways.
func TestReadAddress(t *testing.T) {
	t.Attr("proves", "A55")
	for s, want := range map[string]string{
		"a@b":                             "",
		"first.last+tag@example.org":      "",
		"o'neil@xn--mller-kva.de":         "",
		"x/y=z@mail.example.org":          "",
		"!#$%&'*+-/=?^_`{|}~@h":           "",
		strings.Repeat("x", 64) + "@h":    "",
		strings.Repeat("x", 65) + "@h":    "not a mail address",
		strings.Repeat("x.", 126) + "x@h": "the most is",
		"":                                "missing",
		"a":                               "not a mail address",
		"@b":                              "not a mail address",
		"a@":                              "not a mail address",
		"a@b@c":                           "not a mail address",
		"a..b@c":                          "not a mail address",
		".a@c":                            "not a mail address",
		"a@c.":                            "not a mail address",
		"a@-c":                            "not a mail address",
		"a@127.0.0.1":                     "not a mail address",
		"a@[127.0.0.1]":                   "does not belong",
		"a@b\r\nBcc: c@d":                 "does not belong",
		"a@b\n":                           "does not belong",
		"a@b\x00":                         "does not belong",
		" a@b":                            "does not belong",
		"a@b, c@d":                        "does not belong",
		"<a@b>":                           "does not belong",
		"Name <a@b>":                      "does not belong",
		"a@b (comment)":                   "does not belong",
		`"x> RCPT TO:<y"@z`:               "does not belong",
		`"a"@b`:                           "does not belong",
		`a\@b@c`:                          "does not belong",
		"ä@b":                             "not ASCII",
		"a@bücher.de":                     "not ASCII",
		"a@b\u2028c":                      "not ASCII",
	} {
		err := ReadAddress(s)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", s, err, want)
		}
		if err != nil && len(s) > 4 && strings.Contains(err.Error(), s) {
			t.Errorf("%q is repeated", s)
		}
	}
}
