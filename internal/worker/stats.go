package worker

import (
	"sync/atomic"
	"time"
)

// Stats is what a pool is doing now, and what it has done since it started.
type Stats struct {
	Slots       int
	Running     int           // slots taken: handlers that have not returned
	Free        int           // slots
	Stuck       int           // slots whose handler runs on more than 2 s after its context ended
	Undelivered int           // endings that the store has not answered yet
	BeatLag     time.Duration // how late the latest round of heartbeats began

	Claimed   int64 // leases received
	Completed int64 // endings by what the store answered: completed,
	Failed    int64 // failed (retried later, or dead),
	Released  int64 // given back,
	Cancelled int64 // cancelled instead
	Lost      int64 // leases found lost, by a heartbeat or by an ending
}

type counters struct{ claimed, completed, failed, released, cancelled, lost atomic.Int64 }

// Stats returns the pool's numbers. It may be called at any time.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	running, stuck, undelivered := p.running, p.stuck, p.undelivered
	p.mu.Unlock()
	return Stats{
		Slots: p.cfg.Slots, Running: running, Free: max(p.cfg.Slots-running, 0), Stuck: stuck, Undelivered: undelivered,
		BeatLag: time.Duration(p.beatLag.Load()),
		Claimed: p.counters.claimed.Load(), Completed: p.counters.completed.Load(), Failed: p.counters.failed.Load(),
		Released: p.counters.released.Load(), Cancelled: p.counters.cancelled.Load(), Lost: p.counters.lost.Load(),
	}
}
