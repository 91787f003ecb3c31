package outbound

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

var errReached = errors.New("the guard let it through")

func TestGuardAddresses(t *testing.T) {
	t.Attr("proves", "A32 A34 A35 A40")
	g := newGuard(nil)
	for what, addresses := range map[string]string{
		"open": "1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 172.15.255.255 " +
			"172.32.0.0 192.0.1.0 223.255.255.255 " +
			"168.63.129.15 2606:4700:4700::1111 2001:200::1 2a00::1 ::ffff:1.1.1.1",
		"loopback":       "127.0.0.1 127.255.255.255 ::1 ::ffff:127.0.0.1",
		"this host":      "0.0.0.0 0.1.2.3 ::",
		"private":        "10.0.0.1 172.16.0.1 172.31.255.255 192.168.255.255 fc00::1 fd00:ec2::254 ::ffff:10.0.0.1",
		"link-local":     "169.254.169.254 169.254.0.0 fe80::1 fe80::1%lo febf::1",
		"carrier":        "100.64.0.1 100.100.100.200 100.127.255.255",
		"clouds' own":    "168.63.129.16 192.0.0.192",
		"multicast":      "224.0.0.1 239.255.255.255 ff02::1",
		"broadcast":      "255.255.255.255 240.0.0.1",
		"documentation":  "192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1 3fff::1",
		"benchmarks":     "198.18.0.1 198.19.255.255 2001:2::1",
		"carrying IPv4":  "64:ff9b::7f00:1 64:ff9b:1::1 2002:7f00:1::1 2001::1 2001:0:1:2::3 ::127.0.0.1 192.88.99.1",
		"of other kinds": "fec0::1 5f00::1 100::1 2001:20::1 2620:4f:8000::1 4000::1 2606:4700::1%lo",
	} {
		for _, a := range strings.Fields(addresses) {
			addr := netip.MustParseAddr(a)
			err := g.check(addr, 443)
			if open := what == "open"; (err == nil) != open || err != nil && !errors.Is(err, errAddress) {
				t.Errorf("%s, %s: %v", a, what, err)
			}
			if what == "open" && (g.check(addr, 80) != nil || !errors.Is(g.check(addr, 6379), errPort) ||
				!errors.Is(g.check(addr, 0), errPort)) {
				t.Errorf("%s: its ports", a)
			}
			everything := newGuard([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")})
			if err := everything.check(addr, 6379); err != nil && addr.Zone() == "" {
				t.Errorf("%s is allowed, but: %v", a, err)
			}
		}
	}
}

func TestGuardAllow(t *testing.T) {
	g := newGuard([]netip.Prefix{netip.MustParsePrefix("10.1.2.3/16"), netip.MustParsePrefix("::ffff:192.168.7.0/120")})
	for at, want := range map[string]error{
		"10.1.255.255:9000": nil, "10.2.0.0:80": errAddress, "192.168.7.9:1": nil, "192.168.8.9:80": errAddress,
		"1.1.1.1:80":             nil,
		"1.1.1.1:81":             errPort,
		"[::ffff:10.1.0.1]:9000": nil,
	} {
		a := netip.MustParseAddrPort(at)
		if err := g.check(a.Addr(), a.Port()); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", at, err, want)
		}
	}
}

func TestCheckURL(t *testing.T) {
	t.Attr("proves", "A32 A33 A34 A38 A39 A40")
	for _, opt := range []Options{{}, {Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}} {
		c := client(t, opt)
		for _, u := range []string{
			"http://127.0.0.1", "http://127.0.0.1:80/", "https://[::1]/", "http://2130706433/", "http://0177.1", "http://0x7f.1",
			"http://127.1", "http://[::ffff:127.0.0.1]/",
			"http://[64:ff9b::7f00:1]/", "http://[fe80::1%25lo]/", "http://169.254.169.254/latest/meta-data/",
			"http://1.1.1.1:6379/",
			"gopher://1.1.1.1:80/", "file:///etc/passwd",
			"http://good@1.1.1.1/", "http://evil.example#@1.1.1.1", "http://1.1.1.1\t/", "http://1.1.1.1/\r\nX: y",
			"http://localho\u017Ft/", "",
		} {
			if err := c.CheckURL(u); err == nil {
				t.Errorf("%q was taken", u)
			}
			_, err := get(t, c, u)
			refused(t, u, err)
		}
		for _, u := range []string{
			"http://1.1.1.1/", "https://example.com/hook?a=b", "http://example.com:443", "http://[2606:4700::1]/",
			"http://mylocalhost/", "http://localhost.example/", "http://internal.example/",
		} {
			if err := c.CheckURL(u); err != nil {
				t.Errorf("%q: %v", u, err)
			}
		}
		opened := len(opt.Allow) > 0
		for _, u := range []string{ // a name may lead to an allowed address
			"http://10.0.0.1:9000/", "http://hooks.example:9000/", "http://localhost/", "http://LocalHost/",
			"http://a.localhost/",
			"http://metadata.google.internal/", "http://Billing.Internal/", "http://internal/",
		} {
			if err := c.CheckURL(u); (err == nil) != opened {
				t.Errorf("%q with %v allowed: %v", u, opt.Allow, err)
			}
		}
	}
}

// Each address that a name resolves to is checked at the call, not before.
func TestNames(t *testing.T) {
	t.Attr("proves", "A35 A36")
	dns := &names{answers: map[string][]string{
		"private.example":          {"10.0.0.7"},
		"metadata.google.internal": {"169.254.169.254"},
		"all.example":              {"127.0.0.1 192.168.0.1 0.0.0.0"},
		"mixed.example":            {"127.0.0.1 93.184.216.34"},
	}}
	c := client(t, Options{Allow: elsewhere})
	dns.serve(t, c)
	for _, host := range []string{"private.example", "metadata.google.internal", "all.example", "localhost"} {
		_, err := get(t, c, "http://"+host+"/")
		notCalled(t, host, err)
		if err != nil && (!strings.Contains(err.Error(), host) || strings.ContainsAny(err.Error(), "0123456789")) {
			t.Errorf("%s: the error %q should name the host, not its address", host, err)
		}
	}
	reached := c.watchDials()
	if _, err := get(t, c, "http://mixed.example/"); handler.Judge(err).Permanent && len(reached()) == 0 {
		t.Errorf("mixed.example: %v", err)
	}
	if got := reached(); len(got) != 1 || got[0] != "93.184.216.34:80" {
		t.Errorf("of a name with a private and a public address %v were called", got)
	}
	_, err := get(t, c, "http://nobody.example/")
	notCalled(t, "a name that is not there", err)
}

// watchDials prevents connections, and returns a function that lists the addresses that the guard let through.
func (c *Client) watchDials() func() []string {
	var mu sync.Mutex
	var reached []string
	judge := c.dialer.ControlContext
	c.dialer.ControlContext = func(ctx context.Context, network, address string, raw syscall.RawConn) error {
		if err := judge(ctx, network, address, raw); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		reached = append(reached, address)
		return errReached
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), reached...)
	}
}

// The client ignores a proxy in the environment (see TestMain). Through a proxy, the guard would see only the
// proxy's address, which is allowed here.
func TestNoProxy(t *testing.T) {
	t.Attr("proves", "A41")
	dns := &names{answers: map[string][]string{"private.example": {"10.0.0.7"}}}
	c := client(t, Options{Allow: loopback, Timeout: 10 * time.Second})
	dns.serve(t, c)
	for _, scheme := range []string{"http", "https"} {
		_, err := get(t, c, scheme+"://private.example/")
		notCalled(t, "by way of a proxy, "+scheme, err)
	}
}

// A listener on this host is reachable only if its address is allowed; then its port is allowed too.
func TestLoopback(t *testing.T) {
	t.Attr("proves", "A32 A40")
	r := receive(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hi")) })
	_, err := get(t, client(t, Options{}), r.URL)
	refused(t, "nothing allowed", err)
	_, err = get(t, client(t, Options{Allow: elsewhere}), strings.Replace(r.URL, "127.0.0.1", "localhost", 1))
	notCalled(t, "another net allowed", err)
	if n := r.hits.Load(); n > 0 {
		t.Fatalf("called %d times", n)
	}
	answer, err := get(t, client(t, Options{Allow: loopback}), r.URL)
	if err != nil || answer.Status != 200 || string(answer.Body) != "hi" || r.hits.Load() != 1 {
		t.Errorf("allowed: %+v, %v", answer, err)
	}
}
