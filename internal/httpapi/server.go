package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// Server is the HTTP listener with its limits.
type Server struct {
	setting string // name of the setting that has the address
	addr    string
	log     *slog.Logger
	server  *http.Server
	failed  chan error

	onDrain func()
	drained sync.Once

	limits Limits

	mu       sync.Mutex
	listener *seats
	serving  bool
	stopped  bool
	group    sync.WaitGroup
}

// Limits are the limits that differ between servers.
type Limits struct {
	Connections int  // at once; 8192 if not positive
	PerAddress  int  // of one address; if not positive a quarter, and no bound for this machine
	H2C         bool // also HTTP/2 without TLS, for clients that begin with it; the header Upgrade is ignored

	TrustedProxies []netip.Prefix // have no bound of their own: their connections are those of all their clients
}

// NewServer prepares a server for the address host:port, which the named setting has. It does not bind the address.
func NewServer(setting, addr string, h http.Handler, l Limits, log *slog.Logger) *Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if l.Connections <= 0 {
		l.Connections = 8192
	}
	s := &Server{setting: setting, addr: addr, log: log, limits: l, failed: make(chan error, 1), server: &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Protocols:         &http.Protocols{},

		DisableGeneralOptionsHandler: true, // OPTIONS * is refused like every other method that is not served
	}}
	s.server.Protocols.SetHTTP1(true)
	if l.H2C {
		s.server.Protocols.SetUnencryptedHTTP2(true)
		s.server.HTTP2 = &frames
	}
	return s
}

// frames bounds the memory and time that one HTTP/2 connection may take: for data that no handler has read yet, and
// without progress. net/http itself bounds headers, control frames, and streams that are opened only to be reset.
var frames = http.HTTP2Config{
	MaxConcurrentStreams:          100,
	MaxReadFrameSize:              16 << 10,
	MaxReceiveBufferPerConnection: 128 << 10,
	MaxReceiveBufferPerStream:     64 << 10,
	SendPingTimeout:               30 * time.Second,
	PingTimeout:                   15 * time.Second,
	WriteByteTimeout:              30 * time.Second,
}

// Bind binds the address. A process calls it first of all, so that it does nothing else if the address is taken.
// The error names the setting.
func (s *Server) Bind(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bind(ctx)
}

func (s *Server) bind(ctx context.Context) error {
	if s.stopped || s.listener != nil {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s %s is taken by another program: stop that one, or set %s to a free address: %w", s.setting,
			s.addr, s.setting, err)
	case err != nil:
		return fmt.Errorf("%s %s: %w", s.setting, s.addr, err)
	}
	s.listener = newSeats(l, s.limits, s.log)
	s.server.ConnState, s.server.ConnContext = s.listener.state, withSeat
	return nil
}

// Start serves requests in the background. It binds the address if Bind has not.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.serving {
		return nil
	}
	if err := s.bind(ctx); err != nil {
		return err
	}
	s.serving = true
	if files, tooFew := scarce(s.limits.Connections); tooFew {
		s.log.Warn("the limit of open files is too low for this process' connections: raise its limit (ulimit -n), or lower "+
			"TIERQ_CONNECTIONS",
			"files", files, "connections", s.limits.Connections, "setting", s.setting)
	}
	l := s.listener
	s.group.Go(func() {
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serve %s: %w", s.addr, err)
		}
	})
	return nil
}

// Addr returns the bound address, "" before Bind and Start. With port 0 in the setting, it has the real port.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Failed returns a channel that gets an error if the server stops by itself.
func (s *Server) Failed() <-chan error { return s.failed }

// OnDrain sets the function that is called once when a drain begins. It must end the requests that wait, or they
// delay the drain. OnDrain must be called before Start.
func (s *Server) OnDrain(f func()) { s.onDrain = f }

// Drain accepts no more connections, and waits for the requests under way until ctx ends. It may be called twice,
// and before Start.
func (s *Server) Drain(ctx context.Context) error {
	s.drained.Do(func() {
		if s.onDrain != nil {
			s.onDrain()
		}
	})
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	if err := s.server.Shutdown(ctx); err != nil {
		return fmt.Errorf("drain HTTP: %w", err)
	}
	return nil
}

// Stop drains until ctx ends, then closes the remaining connections. It may be called twice, and before Start.
func (s *Server) Stop(ctx context.Context) error {
	err := s.Drain(ctx)
	s.mu.Lock()
	if s.listener != nil && !s.serving {
		_ = s.listener.Close() // bound, and never served
	}
	s.mu.Unlock()
	if closing := s.server.Close(); err == nil && closing != nil {
		err = fmt.Errorf("close HTTP: %w", closing)
	}
	s.group.Wait()
	return err
}
