package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

const (
	drainGrace    = time.Second     // for handlers to return after the server told them to stop
	deliveryBound = 2 * time.Second // for the last endings
)

// Stop drains the pool. It claims no more jobs, keeps sending heartbeats, lets running jobs finish for up to
// DrainTimeout (or until ctx ends), then cancels the contexts of the others, releases the jobs whose handlers do
// not return within a second, and delivers the last endings. It does not wait for a stuck handler whose job has
// its ending. Stop returns within DrainTimeout + 4 s, or + 7 s if a call to a store that hangs has to time out
// first. It returns an error if handlers still run or endings were not delivered; those jobs come back through the
// watches. Stop may be called twice, and before Start.
func (p *Pool) Stop(ctx context.Context) error {
	p.mu.Lock()
	before := p.state
	p.state = ended
	p.mu.Unlock()
	switch before {
	case fresh:
		close(p.stopped)
		return nil
	case started:
		p.drain(ctx)
		p.stopErr = p.leftOver()
		close(p.stopped)
		return p.stopErr
	}
	select {
	case <-p.stopped:
		return p.stopErr
	case <-ctx.Done():
		return fmt.Errorf("wait for the drain: %w", context.Cause(ctx))
	}
}

func (p *Pool) drain(ctx context.Context) {
	close(p.stopping)
	p.stopClaiming()
	idle := func() bool {
		for _, h := range p.held {
			if h.running && !h.abandoned() {
				return false
			}
		}
		return true
	}
	if !p.await(ctx, p.cfg.DrainTimeout, idle) {
		p.tellToStop()
		p.await(p.io, drainGrace, idle)
		p.giveBack()
	}
	p.await(p.io, deliveryBound, func() bool { return !p.claiming && p.undelivered == 0 })
	p.shut()
	for i := range p.batchers {
		p.batchers[i].close()
	}
	p.wg.Wait()
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.woke.Broadcast()
}

// await waits until done returns true; done is called with Pool.mu held. await returns false if that took longer
// than most or until ctx ended.
func (p *Pool) await(ctx context.Context, most time.Duration, done func() bool) bool {
	t := time.NewTimer(most)
	defer t.Stop()
	for {
		p.mu.Lock()
		ok := done()
		p.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-p.changed:
		case <-t.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// tellToStop cancels the contexts of all running handlers.
func (p *Pool) tellToStop() {
	p.mu.Lock()
	var running []*held
	for _, h := range p.held {
		if h.running {
			running = append(running, h)
		}
	}
	p.mu.Unlock()
	for _, h := range running {
		h.ctx.cancel(handler.ErrDraining)
	}
}

// giveBack releases all jobs that still run. The results of their handlers are dropped.
func (p *Pool) giveBack() {
	p.mu.Lock()
	var back []*held
	for _, h := range p.held {
		if p.end(h, job.End{Verb: job.Releases}) {
			back = append(back, h)
		}
	}
	p.mu.Unlock()
	p.deliver(back...)
	if len(back) > 0 {
		p.log.Warn("jobs did not finish in time and were released", "jobs", len(back))
	}
}

func (p *Pool) leftOver() error {
	p.mu.Lock()
	running, undelivered := p.running, p.undelivered
	p.mu.Unlock()
	if running > 0 || undelivered > 0 {
		return fmt.Errorf("stop the pool: %d handlers still run, %d endings are undelivered", running, undelivered)
	}
	return nil
}
