package worker

import "github.com/tierq/tierq/internal/job"

// taken returns how many slots are taken. A stuck handler runs on without its slot, which another handler gets, so
// a handler that never returns costs no throughput. This holds for up to Slots stuck handlers; further ones keep
// their slots, because otherwise goroutines and memory would have no bound. There are never more than 2 * Slots
// handlers, and the count stays right whichever of them returns. Pool.mu is held.
func (p *Pool) taken() int { return p.running - min(p.stuck, p.cfg.Slots) }

// wedged returns how many slots are lost until a stuck handler returns. Pool.mu is held.
func (p *Pool) wedged() int { return max(p.stuck-p.cfg.Slots, 0) }

// claimRoom returns for which jobs slots are free. Pool.mu is held.
func (p *Pool) claimRoom() job.ClaimRoom {
	free := max(p.cfg.Slots-p.taken(), 0)
	own := job.OwnSlots(p.cfg.Plans.All(), p.cfg.Slots)
	if own == nil {
		return job.ClaimRoom{Common: free}
	}
	return job.RoomFor(own, free, p.runningBy())
}

// runningBy counts the handlers that have a slot by the priorities of their tiers. Pool.mu is held.
func (p *Pool) runningBy() map[int]int {
	running := map[int]int{}
	for _, h := range p.held {
		if h.running && !h.stuck {
			running[p.priority(h.lease.Tier)]++
		}
	}
	return running
}

// priority returns the priority whose own slots the jobs of a tier may use; 0 for a tier that is not in the plan book
// yet: its jobs use common slots.
func (p *Pool) priority(t job.Tier) int {
	plan, _ := p.cfg.Plans.Plan(t)
	return plan.Priority
}

// ownRoom returns for which jobs slots are free, or nil if no tier has slots of its own.
func (p *Pool) ownRoom() *job.ClaimRoom {
	p.mu.Lock()
	defer p.mu.Unlock()
	if room := p.claimRoom(); room.Own != nil {
		return &room
	}
	return nil
}

// abandoned says whether the handler's result no longer matters. Pool.mu is held.
func (h *held) abandoned() bool { return h.running && h.stuck && h.ended }

// loss says whether slots are lost, and whether any is left.
type loss int

const (
	noneLost loss = iota
	someLost
	allLost
)

// logWedged logs that slots are lost, that none is left, and that all are back, but not every step in between.
func (p *Pool) logWedged() {
	p.mu.Lock()
	stuck, lost, before := p.stuck, p.wedged(), p.shouted
	switch {
	case lost == 0:
		p.shouted = noneLost
	case lost < p.cfg.Slots:
		p.shouted = someLost
	default:
		p.shouted = allLost
	}
	now := p.shouted
	p.mu.Unlock()
	switch {
	case now == before:
	case now == allLost:
		p.log.Error("every slot is lost to handlers that ignore their context: restart the process, it runs no jobs",
			"stuck", stuck)
	case before == noneLost:
		p.log.Error("slots are lost to handlers that ignore their context: restart the process", "stuck", stuck, "lost", lost)
	case now == noneLost:
		p.log.Info("stuck handlers returned: all slots are usable again", "stuck", stuck)
	}
}
