package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// saveBound is the longest that one checkpoint is tried for.
const saveBound = 2 * time.Second

// save stores a handler's checkpoint, by a heartbeat of its own that carries it: now, because nil promises that it is
// stored. save outlasts an outage for up to saveBound, or until ctx ends; the handler judges any other error. Once the
// lease has an ending, or turns out to be lost, save returns handler.ErrLeaseLost. A copy that is late on its way never
// replaces a later checkpoint. The caller does not hold Pool.mu.
func (p *Pool) save(ctx context.Context, h *held, data []byte) error {
	if len(data) == 0 {
		return errors.New("checkpoint: there is nothing to save")
	}
	p.mu.Lock()
	h.saves++
	number := h.saves
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, saveBound)
	defer cancel()
	defer context.AfterFunc(p.io, cancel)()
	slow := growing{base: 50 * time.Millisecond, cap: 500 * time.Millisecond}
	for {
		err := p.saveOnce(ctx, h, number, data)
		if err == nil {
			return nil
		}
		if !outage(err) || !slow.pause(ctx) {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
}

// saveOnce makes one call. One at a time in the process: the connections are the heartbeats' own.
func (p *Pool) saveOnce(ctx context.Context, h *held, number int, data []byte) error {
	select {
	case p.saving <- struct{}{}:
		defer func() { <-p.saving }()
	case <-ctx.Done():
	}
	p.mu.Lock()
	over := h.ended
	p.mu.Unlock()
	switch {
	case over:
		return handler.ErrLeaseLost
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	sent, timeout := time.Now(), p.plan(h.lease.Tier).HeartbeatTimeout
	ctx, cancel := context.WithTimeout(ctx, p.beatLimit())
	defer cancel()
	words, err := p.pulse.Heartbeat(ctx, h.partition,
		[]job.Beat{{LeaseRef: h.lease.Ref(), Timeout: timeout, Save: number, Checkpoint: data}})
	if err == nil && len(words) != 1 {
		err = fmt.Errorf("heartbeat: %d words for one lease", len(words))
	}
	if err != nil {
		return err
	}
	p.heard(h, words[0], sent, timeout)
	switch words[0] {
	case job.OK, job.Cancel:
		return nil
	case job.Lost:
		return handler.ErrLeaseLost
	}
	return errors.New("heartbeat: an unknown answer")
}
