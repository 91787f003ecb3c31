package httpapi

import (
	"net"
	"net/netip"
	"slices"
	"time"
)

// sharer is an address that has connections.
type sharer struct {
	network netip.Prefix
	taken   int
	missed  rows
}

// exempt says whether an address may have any number of connections: a trusted proxy's are everybody's, this machine is
// its owner's unless he said how many, and what has no address cannot be told apart.
func (l Limits) exempt(from netip.Addr) bool {
	if !from.IsValid() || l.PerAddress <= 0 && from.IsLoopback() {
		return true
	}
	return slices.ContainsFunc(l.TrustedProxies, func(network netip.Prefix) bool { return network.Contains(from) })
}

// networkOf is what counts as one address: of IPv6 a /64, which one machine has to itself.
func networkOf(from netip.Addr) netip.Prefix {
	bits := from.BitLen()
	if from.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(from, bits).Masked()
}

// welcome says whether a connection's address has a seat left of its share, or one that another of its connections
// would not be missed on.
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
		s.log.Warn("an address has its share of the connections; its new ones take the place of its idle ones, or are closed",
			"from", p.network.String(), "connections", p.taken, "address", s.Addr().String())
	}
	least := p.missed.first()
	s.mu.Unlock()
	return least != nil && least.Close() == nil
}

// rows are those who may have to go, by class, longest there first.
type rows [3]link

func (r *rows) init() {
	for i := range r {
		r[i].prev, r[i].next = &r[i], &r[i]
	}
}

// first is who goes first; nil = nobody may.
func (r *rows) first() *seated {
	for i := range r {
		if c := r[i].next.of; c != nil {
			return c
		}
	}
	return nil
}

// link is a place in a row: a ring through a head, which is of nobody.
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
