package httpapi

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// seats is a listener that holds so many connections at once. One more takes the seat of one that nobody would miss: of those that have a
// request behind them and are silent, the one that is silent longest; then of those that have not sent a byte; then of those that have begun a
// request and not come to the end of its headers, which a client that means well does within a round trip. While every seat has a request
// under way, a new connection waits for the first that ends: each of them has its own deadlines.
type seats struct {
	net.Listener
	limit int
	log   *slog.Logger

	mu      sync.Mutex
	taken   int
	missed  [3]row // those who may have to go, by class, longest there first
	said    time.Time
	freed   chan struct{} // a seat was left, or somebody may be sent away
	closing chan struct{}
	once    sync.Once
}

// class says who goes first.
type class int

const (
	silent class = iota // between two requests
	fresh               // has not sent a byte yet
	begun               // has begun a request, whose headers are not all here
	busy                // its request is under way: it stays
)

// seated is one connection.
type seated struct {
	net.Conn
	seats *seats
	quiet atomic.Bool // the next byte begins a request

	class      class // this and what follows: below seats.mu
	gone       bool
	prev, next *seated // in its row
}

// row is a line of connections: a ring through its own head.
type row struct{ head seated }

func (r *row) push(c *seated) {
	last := r.head.prev
	c.prev, c.next, last.next, r.head.prev = last, &r.head, c, c
}

func (c *seated) leaveRow() {
	if c.next != nil {
		c.prev.next, c.next.prev = c.next, c.prev
		c.prev, c.next = nil, nil
	}
}

func newSeats(l net.Listener, limit int, log *slog.Logger) *seats {
	s := &seats{Listener: l, limit: limit, log: log, freed: make(chan struct{}, 1), closing: make(chan struct{})}
	for i := range s.missed {
		head := &s.missed[i].head
		head.prev, head.next = head, head
	}
	return s
}

// Accept returns the next connection when it has a seat. Where the process has no descriptor left, somebody is sent away for the next try.
func (s *seats) Accept() (net.Conn, error) {
	nc, err := s.Listener.Accept()
	if err != nil {
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			s.sendAway()
		}
		return nil, err
	}
	c := &seated{Conn: nc, seats: s, class: busy}
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
	s.put(c, fresh)
	return true
}

// sendAway ends the connection that would be missed least; false if all are busy.
func (s *seats) sendAway() bool {
	s.mu.Lock()
	var least *seated
	for i := range s.missed {
		if first := s.missed[i].head.next; first.seats != nil {
			least = first
			break
		}
	}
	if now := time.Now(); now.Sub(s.said) > time.Minute {
		s.said = now
		s.log.Warn("every connection is taken; new ones take the place of idle ones, or wait", "connections", s.taken, "address", s.Addr().String())
	}
	s.mu.Unlock()
	return least != nil && least.Close() == nil
}

// put gives a connection its class. It is called with mu held.
func (s *seats) put(c *seated, to class) {
	if c.gone || c.class == to {
		return
	}
	c.leaveRow()
	c.class = to
	c.quiet.Store(to == silent || to == fresh)
	if to != busy {
		s.missed[to].push(c)
		s.wake()
	}
}

func (s *seats) wake() {
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

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
		c.leaveRow()
		c.gone = true
		s.taken--
		s.wake()
	}
	s.mu.Unlock()
	return c.Conn.Close()
}

// scarce says whether the process may open too few files for so many connections, and how many it may. net/http needs none of its own; the
// stores, the listeners and the files of jobs do.
func scarce(connections int) (files uint64, tooFew bool) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, false
	}
	return l.Max, l.Max < uint64(connections)+otherFiles
}

// otherFiles are what a process opens beside its connections.
const otherFiles = 512
