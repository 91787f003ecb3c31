package admission

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
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

// Stop ends the loop. It returns the error of ctx if a probe has not returned by then. It may be called twice and
// before Start.
func (g *Gate) Stop(ctx context.Context) error {
	g.mu.Lock()
	g.stopped = true
	if g.stop != nil {
		g.stop()
	}
	g.mu.Unlock()
	if err := loop.Waited(ctx, &g.group); err != nil {
		return fmt.Errorf("stop gate: %w", err)
	}
	return nil
}

// runOnce is one check: it closes the open leaves that must close, and probes for the closed ones, all at once.
func (g *Gate) runOnce(ctx context.Context, now time.Time) {
	var ask []*leaf
	g.mu.Lock()
	for i := range 1 + len(g.parts) {
		l := &g.whole
		if i > 0 {
			l = &g.parts[i-1]
		}
		if g.settle(l, now, "") == probe {
			l.facts.nextProbe = now.Add(probeEvery)
			ask = append(ask, l)
		}
	}
	g.mu.Unlock()
	if len(ask) == 1 {
		g.tryOpen(ctx, ask[0])
		return
	}
	var group sync.WaitGroup
	for _, l := range ask {
		group.Go(func() { g.tryOpen(ctx, l) })
	}
	group.Wait()
}

// tryOpen probes for a closed leaf, and opens the leaf if the probe succeeds.
func (g *Gate) tryOpen(ctx context.Context, l *leaf) {
	if err := g.probeOnce(ctx, l.partition); err != nil {
		g.log(l).Debug("gate: probe failed", "err", err)
		return
	}
	g.mu.Lock()
	if l.facts.outboxFull {
		g.mu.Unlock()
		return
	}
	l.facts.open, l.facts.changed, l.facts.failures, l.facts.unkept = true, time.Now(), 0, false
	l.open.Store(true)
	g.look()
	told := g.onOpen
	g.mu.Unlock()
	g.log(l).Info("gate open")
	for _, f := range told {
		f()
	}
}

// probeOnce probes the store. It takes at most 500 ms, even if the probe ignores its deadline.
func (g *Gate) probeOnce(ctx context.Context, partition int) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answer := make(chan error, 1)
	g.group.Go(func() {
		if partition == wholeGate {
			answer <- g.options.Probe(ctx)
			return
		}
		answer <- g.options.ProbePartition(ctx, partition)
	})
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("probe: no answer in %s: %w", probeTimeout, job.ErrAmbiguous)
	}
}
