package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/queue"
)

// pulse reads once a second what every process must know of the whole: the plans, Redis' time, and how full the outbox is.
type pulse struct {
	queue  *queue.Queue
	outbox func(count, bytes int64) // hears how many outcomes wait for SQL
	log    *slog.Logger

	failed atomic.Bool

	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
}

const pulseEvery = time.Second

func (p *pulse) Start(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.done = cancel, make(chan struct{})
	go func() {
		defer close(p.done)
		ticker := time.NewTicker(pulseEvery)
		defer ticker.Stop()
		for {
			p.runOnce(ctx)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return nil
}

func (p *pulse) Stop(ctx context.Context) error {
	p.mu.Lock()
	cancel, done := p.cancel, p.done
	p.mu.Unlock()
	if done == nil {
		return nil
	}
	cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runOnce logs a failure once, when it begins: the gate and the watches speak of the rest.
func (p *pulse) runOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := p.read(ctx)
	if err == nil {
		p.failed.Store(false)
	} else if ctx.Err() == nil && !p.failed.Swap(true) {
		p.log.Warn("cannot read plans and levels; going on with the last known", "err", err)
	}
}

func (p *pulse) read(ctx context.Context) error {
	if _, err := p.queue.ReadClock(ctx); err != nil {
		return err
	}
	// The set-up is looked at each time: a Redis that lost everything must not take another one from whoever starts next.
	trouble := errors.Join(p.queue.CheckSetup(ctx), p.queue.LoadPlans(ctx))
	levels, err := p.queue.Levels(ctx)
	if err == nil {
		p.outbox(levels.Outbox, levels.OutboxBytes)
	}
	return errors.Join(trouble, err)
}
