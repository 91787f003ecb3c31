package worker

import (
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Stats has the present state of a pool, and its counts since it started.
type Stats struct {
	Slots   int
	Running int           // slots taken by handlers that are not stuck, and the wedged slots
	Free    int           // slots that are not taken
	Own     []job.OwnRoom // the slots that only jobs of one priority may use
	Room    job.ClaimRoom // for which jobs slots are free
	// handlers that still run more than 2 s after their context ended, with or without a slot: 2 * Slots at most
	Stuck int
	// slots that stuck handlers keep from others: one for each stuck handler beyond the first Slots; if all slots are
	// wedged, no job can run
	Wedged      int
	Undelivered int           // endings that the store has not answered yet
	BeatLag     time.Duration // how late the latest round of heartbeats began

	Claimed   int64 // leases received
	Completed int64 // endings by the store's answer: completed,
	Failed    int64 // failed (retried later, or dead),
	Released  int64 // released,
	Cancelled int64 // cancelled instead
	Lost      int64 // leases found lost, by a heartbeat or by an ending
}

type counters struct{ claimed, completed, failed, released, cancelled, lost atomic.Int64 }

// Stats returns the pool's numbers. It may be called at any time.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	taken, stuck, wedged, undelivered, room := p.taken(), p.stuck, p.wedged(), p.undelivered, p.claimRoom()
	p.mu.Unlock()
	return Stats{
		Slots: p.cfg.Slots, Running: taken, Free: max(p.cfg.Slots-taken, 0), Stuck: stuck, Wedged: wedged,
		Undelivered: undelivered, Own: job.OwnSlots(p.cfg.Plans.All(), p.cfg.Slots), Room: room,
		BeatLag: time.Duration(p.beatLag.Load()),
		Claimed: p.counters.claimed.Load(), Completed: p.counters.completed.Load(), Failed: p.counters.failed.Load(),
		Released: p.counters.released.Load(), Cancelled: p.counters.cancelled.Load(), Lost: p.counters.lost.Load(),
	}
}
