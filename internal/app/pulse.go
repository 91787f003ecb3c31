package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/recovery"
)

// pulse reads once a second what every process must know of the whole: the plans, Redis' time, and how full the outbox is.
type pulse struct {
	*recovery.Loop
	queue  *queue.Queue
	outbox func(count, bytes int64) // hears how much waits for SQL
	log    *slog.Logger
	failed bool
}

const pulseEvery = time.Second

func newPulse(q *queue.Queue, outbox func(count, bytes int64), log *slog.Logger) *pulse {
	p := &pulse{queue: q, outbox: outbox, log: log}
	p.Loop = recovery.NewLoop(p.runOnce)
	return p
}

// runOnce logs a failure once, when it begins: the gate and the watches speak of the rest.
func (p *pulse) runOnce(ctx context.Context) time.Duration {
	call, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := p.read(call)
	if err != nil && !p.failed && ctx.Err() == nil {
		p.log.Warn("cannot read plans and levels; going on with the last known", "err", err)
	}
	p.failed = err != nil
	return pulseEvery
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
