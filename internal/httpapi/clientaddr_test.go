package httpapi

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func TestAddress(t *testing.T) {
	t.Attr("proves", "A42")
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"),
		netip.MustParsePrefix("198.51.100.7/32")}
	for name, c := range map[string]struct {
		peer  string
		lines []string
		want  string
	}{
		"nobody in between":                 {"203.0.113.9:1234", nil, "203.0.113.9"},
		"IPv6":                              {"[2001:db8::1]:1234", nil, "2001:db8::1"},
		"IPv6 with a zone":                  {"[fe80::1%eth0]:1234", nil, "fe80::1"},
		"IPv4 in IPv6":                      {"[::ffff:203.0.113.9]:1234", nil, "203.0.113.9"},
		"an untrusted peer names somebody":  {"203.0.113.9:1", []string{"1.2.3.4"}, "203.0.113.9"},
		"an untrusted peer names a proxy":   {"203.0.113.9:1", []string{"10.0.0.1"}, "203.0.113.9"},
		"an untrusted peer near a network":  {"11.0.0.1:1", []string{"1.2.3.4"}, "11.0.0.1"},
		"a proxy without the header":        {"10.0.0.1:1", nil, "10.0.0.1"},
		"a proxy names a client":            {"10.0.0.1:1", []string{"203.0.113.9"}, "203.0.113.9"},
		"a proxy as IPv4 in IPv6":           {"[::ffff:10.0.0.1]:1", []string{"203.0.113.9"}, "203.0.113.9"},
		"the client spoofed the first ones": {"10.0.0.1:1", []string{"1.1.1.1, 10.9.9.9, 203.0.113.9"}, "203.0.113.9"},
		"two proxies":                       {"10.0.0.1:1", []string{"1.1.1.1, 203.0.113.9, 198.51.100.7"}, "203.0.113.9"},
		"several lines are one list": {"10.0.0.1:1", []string{"1.1.1.1", "203.0.113.9", "10.0.0.2,10.0.0.3"},
			"203.0.113.9"},
		"all of them proxies":              {"10.0.0.1:1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		"with spaces and tabs":             {"10.0.0.1:1", []string{"\t203.0.113.9 ,  10.0.0.2\t"}, "203.0.113.9"},
		"with ports":                       {"10.0.0.1:1", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		"IPv6 in brackets":                 {"10.0.0.1:1", []string{"[2001:db8::1]"}, "2001:db8::1"},
		"IPv6 in brackets with a port":     {"10.0.0.1:1", []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		"IPv6 behind an IPv6 proxy":        {"[fd00::1]:1", []string{"2001:db8::1, fd00::2"}, "2001:db8::1"},
		"IPv4 in IPv6, named":              {"10.0.0.1:1", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		"a proxy in IPv6's clothes, named": {"10.0.0.1:1", []string{"203.0.113.9, ::ffff:10.0.0.9"}, "203.0.113.9"},
		"malformed: the proxy's own":       {"10.0.0.1:1", []string{"203.0.113.9, unknown"}, "10.0.0.1"},
		"malformed behind a good one":      {"10.0.0.1:1", []string{"203.0.113.9, _hidden, 10.0.0.2"}, "10.0.0.2"},
		"empty":                            {"10.0.0.1:1", []string{""}, "10.0.0.1"},
		"an empty entry":                   {"10.0.0.1:1", []string{"203.0.113.9,,10.0.0.2"}, "10.0.0.2"},
		"octal":                            {"10.0.0.1:1", []string{"203.0.113.011"}, "10.0.0.1"},
		"a number":                         {"10.0.0.1:1", []string{"3405803785"}, "10.0.0.1"},
		"an open bracket":                  {"10.0.0.1:1", []string{"[2001:db8::1"}, "10.0.0.1"},
		"RFC 7239's words":                 {"10.0.0.1:1", []string{"for=203.0.113.9"}, "10.0.0.1"},
		"a zone, named":                    {"10.0.0.1:1", []string{"fe80::1%eth0"}, "fe80::1"},
		"very many": {"10.0.0.1:1", []string{"203.0.113.9" + strings.Repeat(",10.0.0.2", 10000)},
			"203.0.113.9"},
		"a unix socket":       {"@", []string{"203.0.113.9"}, ""},
		"a named unix socket": {"/run/x.sock", []string{"203.0.113.9"}, ""},
		"nothing":             {"", []string{"203.0.113.9"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.lines}}
			for _, other := range []string{"X-Real-Ip", "Forwarded", "True-Client-Ip", "Cf-Connecting-Ip", "X-Client-Ip",
				"X-Forwarded-Host"} {
				r.Header.Set(other, "1.2.3.4")
			}
			got := (&api{Deps: Deps{TrustedProxies: proxies}}).address(r)
			if want, _ := netip.ParseAddr(c.want); got != want {
				t.Errorf("it comes from %v, not %v", got, c.want)
			}
			// Without trusted proxies the header is ignored.
			r.Header.Del("X-Forwarded-For")
			peer := (&api{}).address(r)
			r.Header["X-Forwarded-For"] = c.lines
			if got := (&api{}).address(r); got != peer {
				t.Errorf("without proxies it comes from %v, not %v", got, peer)
			}
		})
	}
}
