// Package server makes a tierq server of your own, with your handlers linked in: they run in the server's process, as
// fast as the built-in job types.
//
//	s := server.New()
//	server.Handle(s, "RESIZE", func(ctx context.Context, in Size) (Size, error) { return in.Half(), nil })
//	err := s.Run(ctx)
//
// The program is the whole server: it reads the settings of the tierq binary from its environment, and serves the same
// addresses. A program that only runs jobs, beside a server that is there already, uses package worker instead.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/tierq/tierq/internal/app"
	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/handler"
)

// Server is a tierq server. Make it with New.
type Server struct {
	settings map[string]string
	version  string
	out      io.Writer
	log      *slog.Logger
	handlers []func(*handler.Registry)
	types    map[string]bool
	wrong    error
}

// Option changes a Server.
type Option func(*Server)

// New returns a server, which does nothing until Run.
func New(opts ...Option) *Server {
	s := &Server{settings: map[string]string{}, version: "own", out: os.Stdout, types: map[string]bool{}}
	for _, o := range opts {
		o(s)
	}
	return s
}

// WithSetting sets one of the settings that docs/SETTINGS.md lists, such as TIERQ_ADDR. It overrides the environment.
func WithSetting(name, value string) Option { return func(s *Server) { s.settings[name] = value } }

// WithVersion says which version of your program this is, for operators.
func WithVersion(version string) Option { return func(s *Server) { s.version = version } }

// WithLog sets the logger. By default the server logs to standard error, as the settings say.
func WithLog(log *slog.Logger) Option { return func(s *Server) { s.log = log } }

// WithOutput sets where the banner goes; the default is standard output.
func WithOutput(w io.Writer) Option { return func(s *Server) { s.out = w } }

// Validator is a payload that checks itself. Validate is called at submit, where its error is the caller's 422, and
// when the job runs.
type Validator interface{ Validate() error }

// Handle makes fn the handler of a job type. In is decoded from the payload; an absent payload is the zero In. A submit
// with unknown fields, or whose *In is a Validator that refuses it, is answered 422. Out is encoded as the result. An
// error fails the attempt, and the tier decides whether there is another; see also Permanent, RetryAfter and Later.
// fn may run more than once for a job, and must return soon after its context ends. Whatever fn does costs at most its
// own attempt, except if it ends the process. Register all handlers before Run.
func Handle[In, Out any](s *Server, typ string, fn func(context.Context, In) (Out, error)) {
	if s.types[typ] || typ == "" {
		s.wrong = errors.Join(s.wrong, fmt.Errorf("server: the type %q has two handlers, or no name", typ))
		return
	}
	s.types[typ] = true
	s.handlers = append(s.handlers, func(r *handler.Registry) { handler.Register(r, typ, fn) })
}

// Run serves until ctx ends, then drains: running jobs may finish, and the rest goes back to the queue. It returns nil
// after such an end. The error lists every setting that is wrong.
func (s *Server) Run(ctx context.Context) error {
	if s.wrong != nil {
		return s.wrong
	}
	c, err := config.Load(os.Environ(), ".env", s.settings)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	log := s.log
	if log == nil {
		log = app.NewLogger(c, os.Stderr)
	} else {
		log = slog.New(handler.ContainLog(log.Handler()))
	}
	return app.Run(ctx, c, app.Options{
		Version: s.version, Out: s.out, Log: log,
		Handlers: func(r *handler.Registry) {
			for _, register := range s.handlers {
				register(r)
			}
		},
	})
}
