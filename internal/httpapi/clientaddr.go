package httpapi

import (
	"net/http"
	"net/netip"
	"strings"
)

const forwardedFor = "X-Forwarded-For"

// address is where a request comes from: the peer of the connection; or, if that is a trusted proxy, whom
// X-Forwarded-For names last who is none. No other header is read, and from anybody else not that one either: whoever
// may write it can be anybody. The zero Addr is nobody's address, as on a unix socket. What the proxy in front could
// not name is the proxy's own.
func (a *api) address(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	from := plainAddr(peer.Addr())
	lines := r.Header[forwardedFor]
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; {
			if !a.trusts(from) {
				return from
			}
			var last string
			rest, last, more = cutLast(rest)
			named, ok := forwardedAddr(last)
			if !ok {
				return from
			}
			from = named
		}
	}
	return from
}

func (a *api) trusts(from netip.Addr) bool {
	for _, network := range a.TrustedProxies {
		if network.Contains(from) {
			return true
		}
	}
	return false
}

// cutLast takes the last entry off a list with commas; more = there is another one.
func cutLast(list string) (rest, last string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return "", list, false
	}
	return list[:i], list[i+1:], true
}

// forwardedAddr reads one entry: an address, which some proxies write with its port, and IPv6 in brackets.
func forwardedAddr(entry string) (netip.Addr, bool) {
	entry = strings.Trim(entry, " \t")
	if addr, err := netip.ParseAddr(entry); err == nil {
		return plainAddr(addr), true
	}
	if withPort, err := netip.ParseAddrPort(entry); err == nil {
		return plainAddr(withPort.Addr()), true
	}
	if inner, found := strings.CutPrefix(entry, "["); found {
		if addr, err := netip.ParseAddr(strings.TrimSuffix(inner, "]")); err == nil && strings.HasSuffix(inner, "]") {
			return plainAddr(addr), true
		}
	}
	return netip.Addr{}, false
}

// plainAddr has one spelling for an address: an IPv4 address in IPv6 is that IPv4 address, and a zone is this machine's
// own affair.
func plainAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
