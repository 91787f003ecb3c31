package handler

import (
	"net"
	"net/mail"
	"net/netip"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/fuzz"
)

// An accepted address is one plain address to every program, and ends no command and no header.
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
		if strings.Count(s, "@") != 1 || strings.ContainsAny(s, "<>\"\\(),:;[] \t\r\n\x00\x7f") || len(s) > maxAddress {
			t.Error("it is taken")
		}
	}, "a@b", `"x> RCPT TO:<y"@z`, "a@b\r\nBcc: c@d", "a@[::1]", "=?utf-8?q?x?=@y", "first.last+tag@example.org",
		"o'neil@xn--mller-kva.de",
		"a@b, c@d", "A <a@b>")
}

// An accepted URL has a host that every program reads in the same way, and nothing that breaks a header line.
func FuzzReadURL(f *testing.F) {
	f.Attr("proves", "A33 A34 A38 A39")
	fuzz.Text(f, func(t *testing.T, s string) {
		u, err := ReadURL(s)
		if err != nil {
			sentence(t, s, err)
			return
		}
		if strings.ContainsAny(s, "\r\n\t #\\\x00") || len(s) > maxURL || u.User != nil || u.Scheme != "http" &&
			u.Scheme != "https" {
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
	}, "http://example.com:80/a?b=c", "https://[2001:db8::1]/", "http://127.0.0.1", "http://0x7f.1", "http://a@b",
		"http://2130706433/",
		"http://0177.1/",
		"http://[::ffff:127.0.0.1]/", "http://[fe80::1%25lo]/", "gopher://x", "http://evil#@good", "http://exa\tmple.com",
		"http://xn--bcher-kva.example/")
}

// sentence checks that an error does not repeat the text that was sent.
func sentence(t *testing.T, sent string, err error) {
	if len(sent) > 12 && strings.Contains(err.Error(), sent) || len(err.Error()) > 200 {
		t.Errorf("the error is %q", err)
	}
}
