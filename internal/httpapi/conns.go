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

// seats is a listener that bounds the number of open connections. A new connection above the bound replaces an open
// one, in this order: a connection that is idle between two requests, the longest idle first; a connection that has
// not sent a byte yet; a connection that has begun a request and not sent all its headers, which takes an honest
// client one round trip. While every connection has a request under way, the new connection waits until one of them
// ends: each request has its own deadlines.
//
// Each address has a share of the seats. Above the share, a new connection replaces another one of its address, or
// is closed.
type seats struct {
	net.Listener
	limit  int
	share  int                   // connections of one address, at most
	exempt func(netip.Addr) bool // reports whether an address has no share
	log    *slog.Logger

	mu      sync.Mutex
	taken   int
	missed  rows // the connections that may be closed for a new one
	sharers map[netip.Prefix]*sharer
	said    time.Time   // when the warning was logged that every seat is taken
	named   time.Time   // when the warning was logged that an address has its share
	freed   loop.Signal // a seat became free, or a connection may be closed
	closing chan struct{}
	once    sync.Once
}

// class says which connections are closed first: those of the lowest class.
type class int

const (
	silent class = iota // idle between two requests
	fresh               // has not sent a byte yet
	// has begun a request and not sent all its headers; or has its answer ready, which waits for the rest of the body
	begun
	busy // has a request under way, and is not closed
)

// seated is a connection that has a seat, or is about to get one.
type seated struct {
	net.Conn
	seats *seats
	quiet atomic.Bool // the next byte begins a request

	class  class // seats.mu guards this field and those that follow
	gone   bool
	sharer *sharer // nil = its address has no share
	among  link    // place among all connections of its class
	own    link    // place among those of its address
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

// Accept returns the next connection once it has a seat. If the process has no file descriptor left, Accept closes
// a connection for the sake of the next call, and returns the error.
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

// Close closes the listener and ends the wait for a seat.
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

// sendAway closes the connection that is first in the order of seats. It returns false if all connections are busy.
func (s *seats) sendAway() bool {
	s.mu.Lock()
	least := s.missed.first()
	if now := time.Now(); now.Sub(s.said) > time.Minute {
		s.said = now
		s.log.Warn("all connections are in use; a new one replaces an idle one, or waits", "connections", s.taken,
			"address", s.Addr().String())
	}
	s.mu.Unlock()
	return least != nil && least.Close() == nil
}

// put gives a connection its class. s.mu must be held.
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

// linger with true marks a connection whose answer is ready and waits for the rest of the request's body: the
// connection may be closed meanwhile. linger with false ends that. A nil connection is ignored.
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

// state is http.Server's ConnState hook. An HTTP/2 connection is busy while it has streams.
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

// Read puts the connection into the class begun at the first byte of a request.
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

// Close closes the connection and frees its seat. It may be called twice.
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

// scarce reports whether the process may open too few files for this number of connections, and how many it may
// open. The stores, the listeners and the files of jobs need otherFiles besides; net/http needs none of its own.
func scarce(connections int) (files uint64, tooFew bool) {
	files, known := fileLimit()
	if !known {
		return 0, false
	}
	return files, files < uint64(connections)+otherFiles
}

// otherFiles is the number of files that a process may open besides its connections.
const otherFiles = 512
