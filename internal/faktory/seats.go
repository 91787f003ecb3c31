package faktory

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// seats counts the connections, and those of each address.
type seats struct {
	most, share int
	exempt      func(netip.Addr) bool

	mu    sync.Mutex
	taken int
	of    map[netip.Prefix]int
}

// take says whether one more connection of an address may come; give must follow then.
func (s *seats) take(from netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.most {
		return false
	}
	if s.shares(from) {
		if s.of[network(from)] >= s.share {
			return false
		}
		s.of[network(from)]++
	}
	s.taken++
	return true
}

func (s *seats) give(from netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.shares(from) {
		if s.of[network(from)]--; s.of[network(from)] <= 0 {
			delete(s.of, network(from))
		}
	}
}

func (s *seats) shares(from netip.Addr) bool {
	return from.IsValid() && (s.exempt == nil || !s.exempt(from))
}

// count returns how many connections there are.
func (s *seats) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

// network returns what counts as one address: for IPv6 a /64, because one machine can have all of it.
func network(from netip.Addr) netip.Prefix {
	bits := from.BitLen()
	if from.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(from, bits).Masked()
}

// addressOf returns the address of a connection's other end; the zero value if it has none.
func addressOf(nc net.Conn) netip.Addr {
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// temporary says whether a later Accept may succeed: the process has no file descriptor left now.
func temporary(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
