package httpapi

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tierq/tierq/internal/loop"
)

// seats is a listener that holds so many connections at once. One more takes the seat of one that nobody would miss: of
// those that have a request behind them and are silent, the one that is silent longest; then of those that have not
// sent a byte; then of those that have begun a request and not come to the end of its headers, which a client that
// means well does within a round trip. While every seat has a request under way, a new connection waits for the first
// that ends: each of them has its own deadlines. An address has its share of the seats: one more of its connections
// takes the place of another of its own, or is closed.
type seats struct {
	net.Listener
	limit  int
	share  int                   // of one address
	exempt func(netip.Addr) bool // who may have all seats
	log    *slog.Logger

	mu      sync.Mutex
	taken   int
	missed  rows // those who may have to go
	sharers map[netip.Prefix]*sharer
	said    time.Time   // that every seat is taken
	named   time.Time   // an address that had its share
	freed   loop.Signal // a seat was left, or somebody may be sent away
	closing chan struct{}
	once    sync.Once
}

// class says who goes first.
type class int

const (
	silent class = iota // between two requests
	fresh               // has not sent a byte yet
	// has begun a request, whose headers are not all here; or has its answer to come when the rest of its body is here
	begun
	busy // its request is under way: it stays
)

// seated is one connection.
type seated struct {
	net.Conn
	seats *seats
	quiet atomic.Bool // the next byte begins a request

	class  class // this and what follows: below seats.mu
	gone   bool
	sharer *sharer // nil = its address has no share
	among  link    // all connections of its class
	own    link    // its address's
}

func (s *seats) newSeated(nc net.Conn) *seated {
	c := &seated{Conn: nc, seats: s, class: busy}
	c.among.of, c.own.of = c, c
	return c
}

func newSeats(l net.Listener, limits Limits, log *slog.Logger) *seats {
	s := &seats{
		Listener: l, limit: limits.Connections, share: limits.PerAddress, exempt: limits.exempt, log: log,
		sharers: map[netip.Prefix]*sharer{},
		freed:   loop.NewSignal(), closing: make(chan struct{}),
	}
	if s.share <= 0 {
		s.share = max(1, s.limit/4)
	}
	s.missed.init()
	return s
}

// Accept returns the next connection when it has a seat. Where the process has no descriptor left, somebody is sent
// away for the next try.
func (s *seats) Accept() (net.Conn, error) {
	for {
		nc, err := s.Listener.Accept()
		if err != nil {
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
				s.sendAway()
			}
			return nil, err
		}
		c := s.newSeated(nc)
		if !s.welcome(c) {
			_ = nc.Close()
			continue
		}
		for !s.seat(c) {
			if s.sendAway() {
				continue
			}
			select {
			case <-s.freed:
			case <-s.closing:
				_ = nc.Close()
				return nil, net.ErrClosed
			}
		}
		return c, nil
	}
}

// Close ends the listener, and the wait for a seat.
func (s *seats) Close() error {
	s.once.Do(func() { close(s.closing) })
	return s.Listener.Close()
}

func (s *seats) seat(c *seated) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.limit {
		return false
	}
	s.taken++
	if p := c.sharer; p != nil {
		p.taken++
		s.sharers[p.network] = p
	}
	s.put(c, fresh)
	return true
}

// sendAway ends the connection that would be missed least; false if all are busy.
func (s *seats) sendAway() bool {
	s.mu.Lock()
	least := s.missed.first()
	if now := time.Now(); now.Sub(s.said) > time.Minute {
		s.said = now
		s.log.Warn("every connection is taken; new ones take the place of idle ones, or wait", "connections", s.taken,
			"address", s.Addr().String())
	}
	s.mu.Unlock()
	return least != nil && least.Close() == nil
}

// put gives a connection its class. It is called with mu held.
func (s *seats) put(c *seated, to class) {
	if c.gone || c.class == to {
		return
	}
	c.leaveRows()
	c.class = to
	c.quiet.Store(to == silent || to == fresh)
	if to != busy {
		c.among.enter(&s.missed[to])
		if c.sharer != nil {
			c.own.enter(&c.sharer.missed[to])
		}
		s.wake()
	}
}

func (c *seated) leaveRows() {
	c.among.leave()
	c.own.leave()
}

// linger says that a connection's request is answered but for the rest of its body, which is waited for: it may go, or,
// when that is over, stays. Where there is no seat nothing happens.
func (c *seated) linger(waits bool) {
	if c == nil {
		return
	}
	to := busy
	if waits {
		to = begun
	}
	c.seats.mu.Lock()
	c.seats.put(c, to)
	c.seats.mu.Unlock()
}

func (s *seats) wake() { s.freed.Set() }

// state is http.Server's ConnState. HTTP/2 is busy while it has streams.
func (s *seats) state(nc net.Conn, state http.ConnState) {
	c, ok := nc.(*seated)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateActive:
		s.put(c, busy)
	case http.StateIdle:
		s.put(c, silent)
	}
}

// Read notices the first byte of a request.
func (c *seated) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.quiet.Load() {
		c.seats.mu.Lock()
		if c.class == silent || c.class == fresh {
			c.seats.put(c, begun)
		}
		c.seats.mu.Unlock()
	}
	return n, err
}

// Close ends the connection and leaves its seat. It is safe twice.
func (c *seated) Close() error {
	s := c.seats
	s.mu.Lock()
	if !c.gone {
		c.leaveRows()
		c.gone = true
		s.taken--
		if p := c.sharer; p != nil {
			if p.taken--; p.taken == 0 {
				delete(s.sharers, p.network)
			}
		}
		s.wake()
	}
	s.mu.Unlock()
	return c.Conn.Close()
}

// scarce says whether the process may open too few files for so many connections, and how many it may. net/http needs
// none of its own; the stores, the listeners and the files of jobs do.
func scarce(connections int) (files uint64, tooFew bool) {
	files, known := fileLimit()
	if !known {
		return 0, false
	}
	return files, files < uint64(connections)+otherFiles
}

// otherFiles are what a process opens beside its connections.
const otherFiles = 512
