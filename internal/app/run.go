// Package app is the only room that knows all the others: it opens the stores, wires the rooms, starts them in order
// and stops them in reverse. external.go and embedded.go know the two kinds of stores, server.go what is made of them.
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

// Options is what Run needs besides the settings.
type Options struct {
	Version string
	Out     io.Writer // for the banner
	Log     *slog.Logger
	// Handlers registers job types besides the built-in ones; may be nil.
	Handlers func(r *handler.Registry)
}

// notice is how long a stopping server still answers while its readiness already says no, so that whoever sends it
// requests can hear of it.
const notice = time.Second

// Run serves until ctx ends, then drains: what runs may finish, what is left goes back to the queue unharmed. A nil
// error means that everything stopped as it should.
func Run(ctx context.Context, c config.Config, o Options) error {
	began := time.Now()
	queue.LogTo(o.Log)
	if c.Exposed != "" {
		o.Log.Warn("every user of this machine may read a file with a secret: chmod 600 it", "files", c.Exposed)
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
	return errors.Join(err, out.close(), stores.close())
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
		addresses{address(server.http), address(server.ops), address(server.health)},
		o.Version,
	)

	var broken error
	select {
	case <-ctx.Done():
	case broken = <-failed(server.http):
	case broken = <-failed(server.ops):
	case broken = <-failed(server.health):
	}
	if broken != nil {
		o.Log.Error("an HTTP server ended by itself", "err", broken)
	}
	o.Log.Info("draining", "for", c.DrainTimeout.String())
	server.ready.drain()
	server.drainStreams() // who waits is answered now, and comes again elsewhere
	// an embedded server has nobody who takes over: it takes no more at once
	if c.Roles.API && broken == nil && !c.Embedded() {
		<-time.After(notice)
	}
	err = errors.Join(broken, stop(server.parts, o.Log))
	o.Log.Info("stopped", "worker", server.nonce)
	return err
}
