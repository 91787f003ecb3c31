package httpapi

import (
	"net"
	"net/netip"
	"slices"
	"time"
)

// sharer counts the connections of one address.
type sharer struct {
	network netip.Prefix
	taken   int
	missed  rows
}

// exempt reports whether an address may have any number of connections: the address of a trusted proxy, whose
// connections are those of all its clients; a loopback address, unless PerAddress is set; and an invalid one, because
// connections without an address cannot be told apart.
func (l Limits) exempt(from netip.Addr) bool {
	if !from.IsValid() || l.PerAddress <= 0 && from.IsLoopback() {
		return true
	}
	return slices.ContainsFunc(l.TrustedProxies, func(network netip.Prefix) bool { return network.Contains(from) })
}

// networkOf returns the network that counts as one address. For IPv6 it is a /64, because one machine can have all
// of it.
func networkOf(from netip.Addr) netip.Prefix {
	bits := from.BitLen()
	if from.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(from, bits).Masked()
}

// welcome reports whether a connection's address has a seat left of its share. If it has none, welcome closes
// another connection of the address that is not busy, and reports whether it could.
func (s *seats) welcome(c *seated) bool {
	addr, _ := c.RemoteAddr().(*net.TCPAddr)
	if addr == nil {
		return true
	}
	from := plainAddr(addr.AddrPort().Addr())
	if s.exempt(from) {
		return true
	}
	s.mu.Lock()
	p := s.sharers[networkOf(from)]
	if p == nil {
		p = &sharer{network: networkOf(from)}
		p.missed.init()
	}
	c.sharer = p
	if p.taken < s.share {
		s.mu.Unlock()
		return true
	}
	if now := time.Now(); now.Sub(s.named) > time.Minute {
		s.named = now
		s.log.Warn("an address uses its whole share of the connections; a new one replaces an idle one, or is closed",
			"from", p.network.String(), "connections", p.taken, "address", s.Addr().String())
	}
	least := p.missed.first()
	s.mu.Unlock()
	return least != nil && least.Close() == nil
}

// rows holds the connections that may be closed: a row per class, the longest there first.
type rows [3]link

func (r *rows) init() {
	for i := range r {
		r[i].prev, r[i].next = &r[i], &r[i]
	}
}

// first returns the connection that is closed first; nil if all are busy.
func (r *rows) first() *seated {
	for i := range r {
		if c := r[i].next.of; c != nil {
			return c
		}
	}
	return nil
}

// link is an element of a row, which is a ring. The ring's head has no connection.
type link struct {
	of         *seated
	prev, next *link
}

func (l *link) enter(head *link) {
	last := head.prev
	l.prev, l.next, last.next, head.prev = last, head, l, l
}

func (l *link) leave() {
	if l.next != nil {
		l.prev.next, l.next.prev = l.next, l.prev
		l.prev, l.next = nil, nil
	}
}
