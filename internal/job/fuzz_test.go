package job

import (
	"net"
	"net/mail"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/fuzz"
)

// Whatever is taken is one plain address to every program, and ends no command and no header.
func FuzzReadAddress(f *testing.F) {
	f.Attr("proves", "A55")
	fuzz.Text(f, func(t *testing.T, s string) {
		if err := ReadAddress(s); err != nil {
			sentence(t, s, err)
			return
		}
		a, err := mail.ParseAddress(s)
		if err != nil || a.Address != s || a.Name != "" {
			t.Errorf("it is taken, but is read as %v, %v", a, err)
		}
		if strings.Count(s, "@") != 1 || strings.ContainsAny(s, "<>\"\\(),:;[] \t\r\n\x00\x7f") || len(s) > MaxAddress {
			t.Error("it is taken")
		}
	}, "a@b", `"x> RCPT TO:<y"@z`, "a@b\r\nBcc: c@d", "a@[::1]", "=?utf-8?q?x?=@y", "first.last+tag@example.org", "o'neil@xn--mller-kva.de",
		"a@b, c@d", "A <a@b>")
}

// Whatever is taken has a host that every program reads alike, and nothing that breaks a header line.
func FuzzReadURL(f *testing.F) {
	f.Attr("proves", "A33 A34 A38 A39")
	fuzz.Text(f, func(t *testing.T, s string) {
		u, err := ReadURL(s)
		if err != nil {
			sentence(t, s, err)
			return
		}
		if strings.ContainsAny(s, "\r\n\t #\\\x00") || len(s) > MaxURL || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
			t.Error("it was taken")
		}
		again, err := ReadURL(u.String())
		if err != nil || again.Host != u.Host {
			t.Errorf("it reads as %q, which reads as %v, %v", u, again, err)
		}
		host := u.Hostname()
		if ip := net.ParseIP(host); ip != nil {
			if a, err := netip.ParseAddr(host); err != nil || a.Is4In6() || a.Zone() != "" {
				t.Errorf("the host %q is an address in a strange spelling", host)
			}
			return
		}
		last := host[strings.LastIndex(host, ".")+1:]
		if last == "" || strings.Trim(last, "0123456789") == "" || strings.ContainsAny(host, "%:@/?") {
			t.Errorf("the host %q is no plain name", host)
		}
	}, "http://example.com:80/a?b=c", "https://[2001:db8::1]/", "http://127.0.0.1", "http://0x7f.1", "http://a@b", "http://2130706433/",
		"http://0177.1/",
		"http://[::ffff:127.0.0.1]/", "http://[fe80::1%25lo]/", "gopher://x", "http://evil#@good", "http://exa\tmple.com",
		"http://xn--bcher-kva.example/")
}

// sentence holds an error to what the functions promise: it does not say again what was sent.
func sentence(t *testing.T, sent string, err error) {
	if len(sent) > 12 && strings.Contains(err.Error(), sent) || len(err.Error()) > 200 {
		t.Errorf("the error is %q", err)
	}
}

// An id has one spelling inside, whichever its sender has, and a partition.
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
		if err != nil || again != id || string(id) != strings.ToLower(s) || strings.Trim(string(id), "0123456789abcdef-") != "" {
			t.Errorf("read as %q, which is read as %q, %v", id, again, err)
		}
		if p := id.Partition(); p < 0 || p > 255 {
			t.Errorf("partition %d", p)
		}
	}, "019de340-01fe-7a58-be69-567cd7d6b7d4", "019DE340-01FE-7A58-BE69-567CD7D6B7D4", "019de34001fe7a58be69567cd7d6b7d4",
		"{019de340-01fe-7a58-be69-567cd7d6b7d4}",
		"019de340-01fe-7a58-be69-567cd7d6b7d4\r\n", "019de340-01fe-7a58-be69-567cd7d6b7d}", "")
}

// Options that were read are written as one part of a head, and read again as the same.
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
