package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// service is a part of the server that runs: Start begins, Stop ends it and waits. Stop may be called twice and
// before Start.
type service interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
}

// part is a service with its name in the log and the longest time for its Stop.
type part struct {
	name string
	service
	within time.Duration
}

// together is several independent services: they stop at the same time.
type together []service

func (t together) Start(ctx context.Context) error {
	for _, s := range t {
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (t together) Stop(ctx context.Context) error {
	problems := make([]error, len(t))
	var group sync.WaitGroup
	for i, s := range t {
		group.Go(func() { problems[i] = s.Stop(ctx) })
	}
	group.Wait()
	return errors.Join(problems...)
}

// start starts the parts in order. If one cannot start, the parts before it are stopped.
func start(ctx context.Context, parts []part, log *slog.Logger) error {
	for i, p := range parts {
		if err := p.Start(ctx); err != nil {
			return errors.Join(fmt.Errorf("start %s: %w", p.name, err), stop(parts[:i], log))
		}
	}
	return nil
}

// stop stops the parts in reverse order, each within its own time: a part depends on the parts before it in the
// list.
func stop(parts []part, log *slog.Logger) error {
	var problems []error
	for i := len(parts) - 1; i >= 0; i-- {
		p := parts[i]
		ctx, cancel := context.WithTimeout(context.Background(), p.within)
		began := time.Now()
		if err := p.Stop(ctx); err != nil {
			problems = append(problems, fmt.Errorf("stop %s: %w", p.name, err))
		}
		cancel()
		log.Debug("stopped", "part", p.name, "after", time.Since(began).Round(time.Millisecond))
	}
	return errors.Join(problems...)
}
