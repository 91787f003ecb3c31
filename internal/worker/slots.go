package worker

// taken is how many slots are taken. A stuck handler runs on without its slot, which goes to others; so a handler that
// never returns costs no work. That holds for as many stuck handlers as there are slots: the next ones keep theirs, or
// goroutines and memory would have no bound. So there are never more than 2 * Slots handlers, and whichever of them
// returns, the count is right again. Pool.mu is held.
func (p *Pool) taken() int { return p.running - min(p.stuck, p.cfg.Slots) }

// wedged is how many slots are lost until a stuck handler returns. Pool.mu is held.
func (p *Pool) wedged() int { return max(p.stuck-p.cfg.Slots, 0) }

// abandoned: nobody waits for what this handler may still return. Pool.mu is held.
func (h *held) abandoned() bool { return h.running && h.stuck && h.ended }

// loss is how bad it is: whether slots are lost, and whether any is left.
type loss int

const (
	noneLost loss = iota
	someLost
	allLost
)

// logWedged says that slots are lost, that none is left, and that all are back; not every step in between.
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
		p.log.Error("every slot is lost to handlers that ignore their context: this process runs no jobs until it is restarted", "stuck", stuck)
	case before == noneLost:
		p.log.Error("slots are lost to handlers that ignore their context: restart the process", "stuck", stuck, "lost", lost)
	case now == noneLost:
		p.log.Info("enough of the stuck handlers returned: all slots are there again", "stuck", stuck)
	}
}
