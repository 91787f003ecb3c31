package mail

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenURL(t *testing.T) {
	for text, want := range map[string]string{
		"smtp://mail.example.org?from=a@b": "sent through mail.example.org:587 (STARTTLS) from a@b",
		"smtp://me:secret@mail.example.org:25/?from=a%2Bb@c" +
			"&tls=starttls": "sent through mail.example.org:25 (STARTTLS) from a+b@c",
		"smtps://me:se%40cret@mail.example.org?from=Me+%3Ca@b%3E": "sent through mail.example.org:465 (TLS) from a@b",
		"smtp://127.0.0.1:1025?from=a@b&tls=none":                 "sent through 127.0.0.1:1025 (no TLS) from a@b",
		"smtp://[::1]?from=a@b&tls=none":                          "sent through [::1]:587 (no TLS) from a@b",
	} {
		s, err := Open(text, "", nil)
		if err != nil || s.Describe() != want {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
	if s, err := parse("smtps://me:se%40cret@h?from=Me+%3Ca@b%3E", nil); err != nil || s.user != "me" ||
		s.password != "se@cret" || s.from.Name != "Me" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"mail.example.org":                        "must look like",
		"http://me:secret@h?from=a@b":             "must begin with",
		"smtp://?from=a@b":                        "must look like",
		"smtp://me:secret@h/x?from=a@b":           "must look like",
		"smtp://me:secret@h:port?from=a@b":        "must look like",
		"smtp://me:secret@h":                      "from must be",
		"smtp://me:secret@h?from=nobody":          "from must be",
		"smtp://h?from=%22x%20y%22@b":             "from must be",
		"smtp://h?from=a@b%0d%0aBcc:%20c@d":       "from must be",
		"smtp://h?from=a@b&from=c@d":              "each once",
		"smtp://h?from=a@b&insecure=1":            "nothing else",
		"smtp://h?from=a@b;tls=none":              "well-formed",
		"smtp://h?from=a@b&tls=maybe":             "starttls or none",
		"smtps://h?from=a@b&tls=none":             "with smtp:// only",
		"smtp://me:secret@h?from=a@b&tls=none":    "do not go together",
		"smtp://h?from=a@b&tls=none&ca=x":         "do not go together",
		"smtp://me@h?from=a@b":                    "not both",
		"smtp://:secret@h?from=a@b":               "not both",
		"smtp://me:sec%00ret@h?from=a@b":          "not both",
		"smtp://me:secret@h?from=a@b&ca=/no/such": "ca:",
		"smtp://me:secret@h?from=a@b&ca=" + empty: "no certificate",
		"smtp://me:secret%zz@h?from=a@b":          "must look like",
	} {
		s, err := Open(text, "", nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %v, want %q", text, s, err, want)
		}
	}
}
