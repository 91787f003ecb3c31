package outbound

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/handler"
)

// A server with a public address does not call itself there, under any name or spelling: its API and other
// listeners would take the call for one from outside. The addresses are read at each call. An operator may allow
// them.
func TestOwnAddresses(t *testing.T) {
	t.Attr("proves", "A32 A36")
	t.Parallel()
	has := []string{"127.0.0.1/8", "93.184.216.34/24", "2606:4700::1/64", "fe80::1%lo/64"}
	interfaces := func() ([]net.Addr, error) {
		if len(has) == 0 {
			return nil, errors.New("no netlink here")
		}
		var all []net.Addr
		for _, a := range has {
			host, bits, _ := strings.Cut(a, "/")
			host, _, _ = strings.Cut(host, "%")
			_, mask, err := net.ParseCIDR(host + "/" + bits)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, &net.IPNet{IP: net.ParseIP(host), Mask: mask.Mask})
		}
		return append(all, &net.UnixAddr{}), nil
	}
	dns := &names{answers: map[string][]string{"me.example": {"93.184.216.34"}, "me6.example": {"2606:4700::1"},
		"next.example": {"93.184.216.35"}}}
	c := client(t, Options{Interfaces: interfaces})
	dns.serve(t, c)
	reached := c.watchDials()
	for _, url := range []string{"http://93.184.216.34/", "https://93.184.216.34/", "http://[2606:4700::1]/",
		"http://[2606:4700:0::1]/"} {
		if c.CheckURL(url) != nil {
			continue // another spelling, refused as written
		}
		_, err := get(t, c, url)
		refused(t, url, err)
	}
	for _, url := range []string{"http://me.example/", "https://me.example/", "http://me6.example/"} {
		_, err := get(t, c, url)
		notCalled(t, url, err)
	}
	if got := reached(); len(got) > 0 {
		t.Fatalf("reached %v", got)
	}
	_, _ = get(t, c, "http://next.example/") // the next address belongs to another machine
	if got := reached(); len(got) != 1 || got[0] != "93.184.216.35:80" {
		t.Errorf("a neighbour: reached %v", got)
	}

	has = []string{"127.0.0.1/8"} // the address moved to another machine
	if _, _ = get(t, c, "http://me.example/"); len(reached()) != 2 {
		t.Errorf("it is not this machine's any more: reached %v", reached())
	}
	has = nil // the system does not list its addresses
	_, err := get(t, c, "http://me.example/")
	var failed *CallError
	if !errors.As(err, &failed) || handler.Judge(err).Permanent || len(reached()) != 2 {
		t.Errorf("the system does not list its addresses: %v, reached %v", err, reached())
	}

	has = []string{"93.184.216.34/24"}
	allowed := client(t, Options{Interfaces: interfaces,
		Allow: []netip.Prefix{netip.MustParsePrefix("93.184.216.34/32")}})
	dns.serve(t, allowed)
	reached = allowed.watchDials()
	_, _ = get(t, allowed, "http://me.example:9000/")
	if got := reached(); len(got) != 1 || got[0] != "93.184.216.34:9000" {
		t.Errorf("allowed: reached %v", got)
	}
}

// Without Options.Interfaces the guard asks the system, whose list has this machine's addresses.
func TestOwnAddressesOfThisMachine(t *testing.T) {
	t.Parallel()
	own := netip.MustParseAddr(ownAddress(t))
	g := client(t, Options{}).guard
	if is, err := g.isOwn(own); !is || err != nil {
		t.Errorf("%v: %v, %v", own, is, err)
	}
	if is, err := g.isOwn(netip.MustParseAddr("192.0.2.77")); is || err != nil {
		t.Errorf("somebody else's: %v, %v", is, err)
	}
}

// A submitter cannot find out which names exist in an internal network. A name that exists and one that does not
// give the same text after the same number of tries.
func TestScannersLearnNothing(t *testing.T) {
	t.Attr("proves", "A36 A47")
	t.Parallel()
	dns := &names{answers: map[string][]string{
		"db.corp.example": {"10.0.0.7"}, "meta.corp.example": {"169.254.169.254"}, "six.corp.example": {"fd00::7"},
		"empty.corp.example": {""},
	}}
	for what, allow := range map[string][]netip.Prefix{"nothing allowed": nil, "something else allowed": elsewhere} {
		c := client(t, Options{Allow: allow})
		dns.serve(t, c)
		reached := c.watchDials()
		for _, scheme := range []string{"http", "https"} {
			for _, host := range []string{"db.corp.example", "meta.corp.example", "six.corp.example",
				"empty.corp.example", "nobody.corp.example"} {
				_, err := get(t, c, scheme+"://"+host+"/")
				if err == nil || err.Error() != "call "+host+": it has no address that is called" ||
					handler.Judge(err) != (handler.Verdict{RetryAfter: -1}) {
					t.Errorf("%s, %s: %v, %+v", what, host, err, handler.Judge(err))
				}
			}
		}
		if got := reached(); len(got) > 0 {
			t.Errorf("reached %v", got)
		}
	}
}
