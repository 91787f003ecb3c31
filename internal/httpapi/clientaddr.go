package httpapi

import (
	"net/http"
	"net/netip"
	"strings"
)

const forwardedFor = "X-Forwarded-For"

// address returns the address that a request comes from. That is the connection's peer, unless the peer is a
// trusted proxy. Then X-Forwarded-For is read from its end: the first address that is not a trusted proxy's is the
// result. If an entry is missing or cannot be parsed, the result is the proxy that sent it. From all other peers
// the header is ignored, because any client can write it, and no other header is read at all. The result is the
// zero Addr if the peer has no address, as on a unix socket.
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

// cutLast cuts the last entry off a comma-separated list. more reports whether there is another entry.
func cutLast(list string) (rest, last string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return "", list, false
	}
	return list[:i], list[i+1:], true
}

// forwardedAddr parses one entry of X-Forwarded-For. Some proxies add the port, and brackets around an IPv6
// address.
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

// plainAddr brings an address into its only spelling: an IPv4 address in IPv6 becomes that IPv4 address, and the
// zone is removed, because it means something on this machine only.
func plainAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
