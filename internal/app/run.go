// Package app is the only package that knows all the others: it opens the stores, wires the packages, starts the
// parts in order and stops them in reverse. external.go and embedded.go know the two kinds of stores, server.go
// what is built on them.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/queue"
)

// Options are what Run needs besides the settings.
type Options struct {
	Version string
	Out     io.Writer // for the banner
	Log     *slog.Logger
	// Handlers registers job types besides the built-in ones; it may be nil.
	Handlers func(r *handler.Registry)
	// Quiet, when closed, makes the pool claim no more jobs, until the process ends; nil = never.
	Quiet <-chan struct{}
}

// notice is how long a stopping server still answers while its readiness is already negative, so that load
// balancers notice and send requests elsewhere.
const notice = time.Second

// Run serves until ctx ends, then drains: running jobs may finish, and the rest is released to the queue. A nil
// error means that everything stopped as it should.
func Run(ctx context.Context, c config.Config, o Options) error {
	began := time.Now()
	queue.LogTo(o.Log)
	if c.Exposed != "" {
		o.Log.Warn("every user of this machine can read these secret files: chmod 600 them", "files", c.Exposed)
	}
	stores, err := openStores(c, o.Log)
	if err != nil {
		return err
	}
	out, err := openOutgoing(ctx, c, c.Embedded(), o.Version, o.Log)
	if err != nil {
		return errors.Join(err, stores.close())
	}
	err = serve(ctx, c, o, stores, out, began)
	err = errors.Join(err, out.close())
	if err == nil && stores.embedded != nil { // else something was left undone: the rows are the truth
		stores.embedded.save()
	}
	return errors.Join(err, stores.close())
}

func serve(ctx context.Context, c config.Config, o Options, s *stores, out *outgoing, began time.Time) error {
	server, err := newServer(c, s, out, o)
	if err != nil {
		return err
	}
	if err := server.prepare(ctx); err != nil {
		return err
	}
	if err := start(ctx, server.parts, o.Log); err != nil {
		return err
	}
	o.Log.Info("started", "mode", s.mode, "seconds", fmt.Sprintf("%.2f", time.Since(began).Seconds()), "version",
		o.Version, "worker", server.nonce)
	if text := server.typesWarning(); text != "" {
		o.Log.Warn(text)
	}
	if c.Roles.Worker {
		o.Log.Info("starting workers", "slots", c.Workers)
	}
	first := server.firstKey(ctx)
	callers, key := server.callers()
	writeBanner(
		o.Out,
		c,
		s,
		out,
		callers,
		key,
		first,
		addresses{address(server.http), address(server.ops), address(server.health), server.faktoryURL()},
		o.Version,
	)

	var broken error
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-o.Quiet:
			server.quiet()
		case <-over:
		}
	}()
	select {
	case <-ctx.Done():
	case <-server.terminated:
		o.Log.Info("an operator ends this process")
	case broken = <-failed(server.http):
	case broken = <-failed(server.ops):
	case broken = <-failed(server.health):
	case broken = <-server.faktoryFailed():
	}
	if broken != nil {
		o.Log.Error("a listener stopped without being told to", "err", broken)
	}
	o.Log.Info("draining", "for", c.DrainTimeout.String())
	server.ready.drain()
	server.drainStreams() // waiting callers are answered now, and ask another server next
	// an embedded server has no other server that takes over: it stops at once
	if c.Roles.API && broken == nil && !c.Embedded() {
		<-time.After(notice)
	}
	err = errors.Join(broken, stop(server.parts, o.Log))
	o.Log.Info("stopped", "worker", server.nonce)
	return err
}
