package sim

import "time"

func (w *World) fault(name string) { w.report.Faults[name]++ }

func (w *World) healed() bool { return time.Since(w.began) >= w.plan.heal }

// weather begins the storms that are due and restarts dead processes whose time has come. It says whether anything
// happened.
func (w *World) weather() (stirred bool) {
	now := time.Now()
	for len(w.storms) > 0 && now.Sub(w.began) >= w.storms[0].at {
		s := w.storms[0]
		w.storms = w.storms[1:]
		w.strike(s, now)
		stirred = true
	}
	if w.healed() {
		w.stalled, w.sqlDown = time.Time{}, time.Time{}
	}
	for slot := range w.processes {
		p := w.processes[slot]
		if w.healed() {
			p.cutOff = time.Time{}
		}
		at, waits := w.restarts[slot]
		if waits && (w.healed() || !at.After(now)) {
			delete(w.restarts, slot)
			w.dying = append(w.dying, p)
			w.processes[slot] = newProcess(w, slot)
			w.note("start", w.processes[slot].nonce)
			stirred = true
		}
	}
	return stirred
}

func (w *World) strike(s storm, now time.Time) {
	if s.what == "Redis forgets" && !w.healed() {
		w.note("storm", s.what)
		w.fault(s.what)
		w.forgetAll()
		return
	}
	p, until := w.processes[s.process], now.Add(s.length)
	if !p.alive() || p.draining || w.healed() {
		return
	}
	for _, other := range w.processes {
		if other.cutOff.After(now) || w.stalled.After(now) {
			return // one at a time: together they would last longer than a caller waits
		}
	}
	w.note("storm", s.what, p.nonce, s.length.String())
	switch s.what {
	case "crash":
		w.crash(p, "crash")
		return
	case "drain":
		p.drained = now
		p.stop()
	case "partition":
		p.cutOff = until
	case "stall":
		w.stalled = until
	case "SQL outage":
		if until.After(w.sqlDown) {
			w.sqlDown = until
		}
	}
	w.fault(s.what)
}

// crash kills a process. Calls that it had sent may still reach Redis.
func (w *World) crash(p *process, why string, taken ...*call) {
	if !p.alive() {
		return
	}
	w.fault(why)
	w.note(why, p.nonce)
	for _, c := range p.kill(taken...) {
		if (c.script() || c.ofJournal()) && w.rng.IntN(2) == 0 {
			w.linger(c, 0, 30)
		}
	}
	w.restarts[p.slot] = time.Now().Add(ticks(w.rng, 1, 60))
}

// retire ends the drain of a process.
func (w *World) retire(p *process) {
	w.note("stopped", p.nonce)
	p.retired = true
	p.kill()
	w.restarts[p.slot] = time.Now().Add(ticks(w.rng, 1, 20))
}
