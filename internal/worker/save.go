package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// saveBound is the time limit for storing one checkpoint.
const saveBound = 2 * time.Second

// save stores a handler's checkpoint with a heartbeat of its own, at once, because nil promises that the
// checkpoint is stored. It repeats calls that fail with an outage for up to saveBound, or until ctx ends, and
// returns any other error. If the lease has an ending, or turns out to be lost, the error is handler.ErrLeaseLost.
// A late copy of a call never replaces a later checkpoint. The caller does not hold Pool.mu.
func (p *Pool) save(ctx context.Context, h *held, data []byte) error {
	if len(data) == 0 {
		return errors.New("checkpoint: the data is empty")
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

// saveOnce makes one call. The process sends one checkpoint at a time, because it uses the heartbeats'
// connections.
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
	sent, beat := time.Now(), p.beatOf(h)
	beat.Save, beat.Checkpoint = number, data
	ctx, cancel := context.WithTimeout(ctx, p.beatLimit())
	defer cancel()
	words, err := p.pulse.Heartbeat(ctx, h.partition, []job.Beat{beat})
	if err == nil && len(words) != 1 {
		err = fmt.Errorf("heartbeat: %d words for one lease", len(words))
	}
	if err != nil {
		return err
	}
	p.heard(h, words[0], sent, &beat)
	switch words[0] {
	case job.OK, job.Cancel:
		return nil
	case job.Lost:
		return handler.ErrLeaseLost
	}
	return errors.New("heartbeat: an unknown answer")
}
