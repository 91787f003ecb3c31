package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/tierq/tierq/internal/handler"
)

// denied are the addresses that no call reaches unless an operator allows them. In IPv6 only global unicast
// (2000::/3) is called at all. Outside it lie loopback, link-local, unique local (fd00:ec2::254 is a metadata
// service), multicast, v4-mapped and NAT64 addresses.
var denied = prefixes(
	"0.0.0.0/8",         // this host
	"10.0.0.0/8",        // private
	"100.64.0.0/10",     // shared by a carrier's customers; 100.100.100.200 is a metadata service
	"127.0.0.0/8",       // loopback
	"168.63.129.16/32",  // a cloud's own service on each of its machines
	"169.254.0.0/16",    // link-local; 169.254.169.254 is a metadata service
	"172.16.0.0/12",     // private
	"192.0.0.0/24",      // protocol assignments; 192.0.0.192 is a metadata service
	"192.0.2.0/24",      // documentation
	"192.88.99.0/24",    // 6to4 relays
	"192.168.0.0/16",    // private
	"198.18.0.0/15",     // benchmarks
	"198.51.100.0/24",   // documentation
	"203.0.113.0/24",    // documentation
	"224.0.0.0/4",       // multicast
	"240.0.0.0/4",       // reserved, and broadcast
	"2001::/23",         // protocol assignments: Teredo carries IPv4, ORCHID, benchmarks
	"2001:db8::/32",     // documentation
	"2002::/16",         // 6to4: carries any IPv4 address
	"2620:4f:8000::/48", // AS112: answers for private zones
	"3fff::/20",         // documentation
)

var globalUnicast = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		all[i] = netip.MustParsePrefix(t)
	}
	return all
}

// guard decides which addresses and ports may be called.
type guard struct {
	allow      []netip.Prefix
	interfaces func() ([]net.Addr, error) // this machine's addresses now
}

func newGuard(allow []netip.Prefix) guard {
	g := guard{interfaces: net.InterfaceAddrs}
	for _, p := range allow {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		g.allow = append(g.allow, p.Masked())
	}
	return g
}

var (
	errAddress = errors.New("leads to an address that is not called")
	errOwn     = errors.New("leads to this machine")
	errPort    = errors.New("has a port other than 80 and 443")
	errName    = errors.New("has a host name that is kept for a machine itself, or for a network's own")
)

// ownName reports whether a name can never lead anywhere public. RFC 6761 reserves localhost for that, and ICANN
// internal, which clouds use for their metadata services.
func ownName(host string) bool {
	host = strings.ToLower(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || host == "internal" ||
		strings.HasSuffix(host, ".internal")
}

// allowed reports whether the operator allows an address.
func (g guard) allowed(addr netip.Addr) bool {
	return slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// check returns nil if this address and port may be called.
func (g guard) check(addr netip.Addr, port uint16) error {
	addr = addr.Unmap()
	if g.allowed(addr) {
		return nil
	}
	if addr.Is6() && !globalUnicast.Contains(addr) { // it contains no address with a zone either
		return errAddress
	}
	for _, p := range denied {
		if p.Contains(addr) {
			return errAddress
		}
	}
	if port != 80 && port != 443 {
		return errPort
	}
	return nil
}

// control is called by the dialer immediately before it connects. address is an address that the name resolved to.
func (g guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return errAddress
	}
	if err := g.check(at.Addr(), at.Port()); err != nil || g.allowed(at.Addr().Unmap()) {
		return err
	}
	own, err := g.isOwn(at.Addr())
	if err == nil && own {
		err = errOwn
	}
	return err
}

// isOwn reports whether an address, which may be a public one, is one of this machine's. It asks the system at
// each dial, because the addresses may change while the process runs. It does not know an address that only a
// router in front of this machine has.
func (g guard) isOwn(addr netip.Addr) (bool, error) {
	all, err := g.interfaces()
	if err != nil {
		return false, fmt.Errorf("list this machine's addresses: %w", err)
	}
	for _, a := range all {
		if network, ok := a.(*net.IPNet); ok && network.IP.Equal(net.IP(addr.AsSlice())) {
			return true, nil
		}
	}
	return false, nil
}

// CheckURL returns nil if the URL may be called, as far as that is known without a lookup: the URL is well formed,
// and the guard allows the address and port written in it. The error continues a sentence whose subject is the
// URL. A name's addresses are checked at the call. CheckURL refuses only names that never lead anywhere public,
// and only while the operator allows no addresses to which such a name may lead.
func (c *Client) CheckURL(s string) error {
	_, err := c.read(s)
	return err
}

func (c *Client) read(s string) (*url.URL, error) {
	u, err := handler.ReadURL(s)
	if err != nil {
		return nil, err
	}
	port := uint64(80)
	if u.Scheme == "https" {
		port = 443
	}
	if p := u.Port(); p != "" {
		if port, err = strconv.ParseUint(p, 10, 16); err != nil {
			return nil, fmt.Errorf("has no port: %w", err)
		}
	}
	addr, err := netip.ParseAddr(u.Hostname())
	switch {
	case err == nil:
		if err := c.guard.check(addr, uint16(port)); err != nil {
			return nil, err
		}
	case len(c.guard.allow) > 0: // the name may lead to an allowed address
	case ownName(u.Hostname()):
		return nil, errName
	case port != 80 && port != 443:
		return nil, errPort
	}
	return u, nil
}
