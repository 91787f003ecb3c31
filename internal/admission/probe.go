package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Start runs the loop that closes, probes and opens the gate. It never fails.
func (g *Gate) Start(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stop != nil || g.stopped {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.stop = cancel
	g.group.Go(func() {
		ticker := time.NewTicker(gateTick)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				g.runOnce(ctx, time.Now())
			}
		}
	})
	return nil
}

// Stop ends the loop. It returns ctx's error if a probe is still out by then. It is safe twice and before Start.
func (g *Gate) Stop(ctx context.Context) error {
	g.mu.Lock()
	g.stopped = true
	if g.stop != nil {
		g.stop()
	}
	g.mu.Unlock()
	done := make(chan struct{})
	go func() { g.group.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop gate: %w", ctx.Err())
	}
}

// runOnce is one look: it closes an open gate whose time has come, or probes for a closed one.
func (g *Gate) runOnce(ctx context.Context, now time.Time) {
	g.mu.Lock()
	v := g.settle(now, "")
	if v != probe {
		g.mu.Unlock()
		return
	}
	g.facts.nextProbe = now.Add(probeEvery)
	g.mu.Unlock()

	err := g.probeOnce(ctx)
	if err != nil {
		g.options.Log.Debug("gate: probe failed", "err", err)
		return
	}
	g.mu.Lock()
	if g.facts.outboxFull {
		g.mu.Unlock()
		return
	}
	g.facts.open, g.facts.changed, g.facts.failures, g.facts.unkept = true, time.Now(), 0, false
	g.open.Store(true)
	told := g.onOpen
	g.mu.Unlock()
	g.options.Log.Info("gate open")
	for _, f := range told {
		f()
	}
}

// probeOnce asks the store, for at most 500 ms even if the probe ignores its deadline.
func (g *Gate) probeOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answer := make(chan error, 1)
	g.group.Go(func() { answer <- g.options.Probe(ctx) })
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("probe: no answer in %s: %w", probeTimeout, job.ErrAmbiguous)
	}
}
