package handler

import (
	"strings"
	"testing"
)

// ReadURL refuses some URLs whatever address they lead to: other schemes (A38), other spellings of addresses (A33,
// A34), other tricks (A39).
func TestReadURL(t *testing.T) {
	t.Attr("proves", "A33 A34 A38 A39")
	for name, urls := range map[string][]string{
		"taken": {
			"http://example.com", "https://example.com/a/b?c=d&e=%20", "HTTPS://EXAMPLE.com:443/",
			"http://a_b.example-1.com:65535",
			"http://localhost",
			"http://93.184.216.34/", "http://[2606:2800:220:1:248:1893:25c8:1946]:80/", "http://xn--bcher-kva.example/",
			"http://1.example", "http://0x.example",
			"https://example.com/" + strings.Repeat("a", maxURL-20),
		},
		"is missing": {""},
		"bytes":      {"https://example.com/" + strings.Repeat("a", maxURL-19)},
		"fragment":   {"http://evil.example#@good.example", "http://example.com/#", "#"},
		"must be escaped": {
			"http://exa\tmple.com", "http://example.com/a\nb", "http://example.com/\r", "http://example .com",
			" http://example.com",
			"http://bücher.example", "http://ⓛocalhost", "http://example.com/ä", "http://example.com\\@good.example",
			"http://example.com/{id}", "http://example.com/\x00", "http://example.com/\x7f",
		},
		"neither http nor": {
			"gopher://example.com:11211/_stats", "file:///etc/passwd", "unix:/run/docker.sock", "data:text/plain,hi",
			"ftp://example.com", "//example.com", "example.com", "javascript:alert(1)",
		},
		"has no host": {"http:", "http://", "http:///path", "http:example.com", "https:/example.com", "http://?a"},
		"user name":   {"http://good.example@evil.example/", "http://user:pass@example.com", "http://@example.com"},
		"neither a name nor an address": {
			"http://2130706433/", "http://0177.1/", "http://0177.0.0.1/", "http://0x7f.1/", "http://0x7f000001/",
			"http://0x7f.0x0.0x0.0x1/", "http://127.1/", "http://127.0.1/",
			"http://127.0.0.1.:80/", "http://127.0.0.256/", "http://1.2.3.4.5/", "http://0/", "http://0x/",
			"http://example.0x1F/",
			"http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[fe80::1%25lo]/",
			"http://.example.com", "http://example..com", "http://example.com./", "http://-example.com", "http://example-.com",
			"http://exa%c3%a4mple.com",
			"http://" + strings.Repeat("a", 64) + ".com", "http://" + strings.Repeat("a.", 127) + "com", "http://exa,mple.com",
			"http://exa*mple.com", "http://:80",
		},
		"port": {
			"http://example.com:", "http://example.com:0", "http://example.com:65536", "http://example.com:080",
			"http://[2606:2800::1]:",
		},
		"is not a URL": {
			"http://[127.0.0.1]/", "http://[example.com]/", "http://exa%6dple.com", "http://example.com:80a", "http://[::1",
			"http://example.com/%zz", "http://example.com:-1", "http://::1/",
		},
	} {
		for _, u := range urls {
			_, err := ReadURL(u)
			switch {
			case name == "taken" && err != nil:
				t.Errorf("%q: %v, want taken", u, err)
			case name != "taken" && (err == nil || !strings.Contains(err.Error(), name)):
				t.Errorf("%q: %v, want %q", u, err, name)
			}
		}
	}
}
