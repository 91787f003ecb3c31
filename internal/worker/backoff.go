package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// growing is a wait that doubles from base to cap until it is reset. Each wait is shortened by up to a quarter at
// random, so that processes do not act in step.
type growing struct{ base, cap, next time.Duration }

func (g *growing) reset() { g.next = 0 }

// pause waits. It returns false if ctx ended first.
func (g *growing) pause(ctx context.Context) bool {
	g.next = min(max(2*g.next, g.base), g.cap)
	t := time.NewTimer(g.next - time.Duration(rand.Int64N(int64(g.next/4)+1)))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// outage says whether an error means that the store did not answer, rather than that it answered and refused.
func outage(err error) bool {
	return job.Outage(err) || errors.Is(err, context.DeadlineExceeded)
}

// outages has the calls that fail at present, and since when.
type outages struct {
	mu    sync.Mutex
	since map[line]time.Time
}

// line is one kind of call to one partition.
type line struct {
	call      string
	partition int
}

// logOutage logs the first failure of a call and its next success, not every failure in between.
func (p *Pool) logOutage(call string, partition int, err error) {
	if p.io.Err() != nil {
		return // Stop itself cancelled the call
	}
	o, l := &p.outages, line{call, partition}
	o.mu.Lock()
	defer o.mu.Unlock()
	began, down := o.since[l]
	switch {
	case err != nil && !down:
		o.since[l] = time.Now()
		p.log.Warn("a call to Redis fails; it is repeated until it succeeds", "call", call, "partition", partition,
			"err", err)
	case err == nil && down:
		delete(o.since, l)
		p.log.Info("the call to Redis succeeds again", "call", call, "partition", partition, "after", time.Since(began))
	}
}
