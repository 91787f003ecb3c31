// Package faktory serves the protocol of Faktory, so that its clients and workers use tierq without a change.
//
//	faktory.go   the server: its listener, its start and its end; seats.go bounds the connections
//	conn.go      one connection: it reads a line, runs the command, and writes the reply; line.go reads the lines
//	hello.go     who calls: the password, the worker; rights.go what the caller may do
//	commands.go  the table of commands; refuse.go what a refused command is told
//	push.go      PUSH and PUSHB; jobtext.go reads and completes the JSON of a job; tiers.go chooses the tier
//	fetch.go     FETCH: those of one worker share a claim; turns.go how many workers claim at once
//	end.go       ACK and FAIL
//	workers.go   the workers that have connections here, and the leases that they hold; life.go extends these
//	beat.go      BEAT; info.go INFO; queues.go QUEUE; flush.go FLUSH; mutate.go MUTATE
//
// A Faktory worker names a job by an id of its client, and knows no lease. The gateway keeps each lease for it, in
// memory and in the book in Redis. ACK and FAIL look into their own worker's book alone, and show the lease that they
// find there: a worker that was taken for dead ends no other worker's attempt.
package faktory

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/loop"
)

// Version is the version of Faktory whose behaviour the gateway shows. Clients check it.
const Version = "1.9.4"

// Config configures a Server. Deps and Log are required.
type Config struct {
	Deps
	Addr         string
	TLS          *tls.Config           // nil = connections are not encrypted
	PayloadLimit int                   // bytes of a job; 64 KiB if not positive
	Connections  int                   // at once; 8192 if not positive
	PerAddress   int                   // of one address; if not positive a quarter
	Exempt       func(netip.Addr) bool // says whether an address has no bound of its own; nil = none is exempt
	Tiers        []Route               // the tiers of queues, the first that fits counts
	DefaultKey   string                // the id of the key of a HELLO without a user name; "" = none
	FlushWithKey bool                  // FLUSH is allowed also where there are keys
	Log          *slog.Logger
}

// Server serves Faktory's protocol. Make it with New.
type Server struct {
	Config
	listener net.Listener
	failed   chan error
	began    time.Time

	seats    seats
	memory   atomic.Int64 // of long lines that are being read
	commands atomic.Uint64
	lost     atomic.Uint64 // reports of leases that were not held any more
	workers  workers
	fetchers fetchers
	turns    chan struct{} // holds one for each claim that has a turn
	drops    drops
	dead     deadCount

	life     *loop.Loop
	mu       sync.Mutex
	conns    map[*conn]struct{}
	stopping bool
	quit     chan struct{} // closed by Stop: commands that wait end
	drain    sync.Once
	group    sync.WaitGroup // the connections, and the calls that outlive theirs
	io       context.Context
	shut     context.CancelFunc
}

// New makes a server that listens from Bind on, and serves from Start on.
func New(c Config) *Server {
	if c.PayloadLimit <= 0 {
		c.PayloadLimit = 64 << 10
	}
	if c.Connections <= 0 {
		c.Connections = 8192
	}
	if c.PerAddress <= 0 {
		c.PerAddress = max(c.Connections/4, 1)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		Config: c, failed: make(chan error, 1), conns: map[*conn]struct{}{}, quit: make(chan struct{}), began: time.Now(),
		seats: seats{most: c.Connections, share: c.PerAddress, exempt: c.Exempt, of: map[netip.Prefix]int{}},
	}
	s.io, s.shut = context.WithCancel(context.Background())
	s.workers.all = map[workerKey]*worker{}
	s.fetchers.all = map[fetchKey]*fetcher{}
	s.turns = make(chan struct{}, mostTurns)
	s.drops.server, s.drops.hurry = s, make(chan struct{}, 1)
	s.life = loop.New(s.extendAll)
	return s
}

// Bind binds the address.
func (s *Server) Bind(ctx context.Context) error {
	listen := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: keepAlive, Interval: keepAlive, Count: 3,
	}}
	l, err := listen.Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return fmt.Errorf("TIERQ_FAKTORY_ADDR: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener = l
	return nil
}

// keepAlive is how often the system asks whether a silent client is still there.
const keepAlive = 15 * time.Second

// Bound returns the bound address, "" before Bind. With port 0 in the setting it has the real port.
func (s *Server) Bound() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Failed returns a channel that gets an error if the server stops by itself.
func (s *Server) Failed() <-chan error { return s.failed }

// Start begins to accept connections, and binds the address if Bind has not.
func (s *Server) Start(ctx context.Context) error {
	if s.Bound() == "" {
		if err := s.Bind(ctx); err != nil {
			return err
		}
	}
	if err := s.life.Start(ctx); err != nil {
		return err
	}
	s.group.Go(s.accept)
	return nil
}

func (s *Server) accept() {
	for {
		nc, err := s.listener.Accept()
		if err != nil {
			select {
			case <-s.quit:
			default:
				if temporary(err) {
					select {
					case <-s.quit:
					case <-time.After(50 * time.Millisecond):
					}
					continue
				}
				s.failed <- fmt.Errorf("serve %s: %w", s.Addr, err)
			}
			return
		}
		from := addressOf(nc)
		if !s.seats.take(from) {
			_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = nc.Write([]byte("-ERR too many connections\r\n"))
			_ = nc.Close()
			continue
		}
		if s.TLS != nil {
			nc = tls.Server(nc, s.TLS)
		}
		c := newConn(s, nc, from)
		s.mu.Lock()
		if s.stopping {
			s.mu.Unlock()
			s.seats.give(from)
			_ = nc.Close()
			return
		}
		s.conns[c] = struct{}{}
		s.group.Go(c.serve)
		s.mu.Unlock()
	}
}

// gone forgets a connection that was closed.
func (s *Server) gone(c *conn) {
	s.seats.give(c.from)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Drain answers the FETCHes that wait: with no job.
func (s *Server) Drain() { s.drain.Do(func() { close(s.quit) }) }

// Stop accepts no more connections, lets the commands that run end until ctx ends, and closes all connections. The
// leases are the workers': another process extends them once the workers are connected there.
func (s *Server) Stop(ctx context.Context) error {
	s.Drain()
	s.mu.Lock()
	s.stopping = true
	if s.listener != nil {
		_ = s.listener.Close()
	}
	for c := range s.conns {
		c.interrupt()
	}
	s.mu.Unlock()
	err := s.life.Stop(ctx)
	if waited := loop.Waited(ctx, &s.group); err == nil {
		err = waited
	}
	s.shut()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.nc.Close()
	}
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("stop faktory: %w", err)
	}
	return nil
}
