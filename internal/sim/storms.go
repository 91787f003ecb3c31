package sim

import (
	"slices"
	"sync"
	"time"

	"github.com/tierq/tierq/lua"
)

// ghost is a call whose caller has given up, or died, and which the store carries out all the same.
type ghost struct {
	*call
	at time.Time
}

// haunt carries out a ghost that is due.
func (w *World) haunt(now time.Time) bool {
	for i, g := range w.ghosts {
		if g.at.After(now) || w.stalled.After(now) {
			continue
		}
		w.ghosts = slices.Delete(w.ghosts, i, i+1)
		g.proc.trouble = now
		reply, err := w.execute(g.call)
		w.say(g.call, reply, err, "late")
		return true
	}
	return false
}

func (w *World) fault(name string) { w.report.Faults[name]++ }

func (w *World) healed() bool { return time.Since(w.began) >= w.plan.heal }

// weather lets the storms begin whose time has come, and dead processes come back. It says whether anybody is awake now.
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
	p, until := w.processes[s.process], now.Add(s.length)
	if !p.alive() || p.draining || w.healed() {
		return
	}
	for _, other := range w.processes {
		if other.cutOff.After(now) || w.stalled.After(now) {
			return // one at a time: together they would outlast what a caller waits for
		}
	}
	w.note("storm", s.what, p.nonce, s.length.String())
	switch s.what {
	case "crash":
		w.crash(p, "crash")
		return
	case "drain":
		p.stop()
	case "partition":
		p.cutOff, p.trouble = until, now
	case "stall":
		w.stalled = until
		for _, all := range w.processes {
			all.trouble = now
		}
	case "SQL outage":
		w.sqlDown = until
	}
	w.fault(s.what)
}

// crash kills a process. What it had sent may still reach Redis.
func (w *World) crash(p *process, why string) {
	if !p.alive() {
		return
	}
	w.fault(why)
	w.note(why, p.nonce)
	for _, c := range p.kill() {
		if c.script() && w.rng.IntN(2) == 0 {
			w.ghosts = append(w.ghosts, &ghost{c, time.Now().Add(ticks(w.rng, 0, 30))})
		}
	}
	w.restarts[p.slot] = time.Now().Add(ticks(w.rng, 1, 60))
}

// retire is the end of a drain.
func (w *World) retire(p *process) {
	w.note("stopped", p.nonce)
	p.kill()
	w.restarts[p.slot] = time.Now().Add(ticks(w.rng, 1, 20))
}

// delay holds back one of several new calls for a little, so that they overtake each other.
func (w *World) delay(c *call) {
	if w.rng.IntN(12) == 0 {
		c.hold = c.seen.Add(ticks(w.rng, 1, 3))
	}
}

// timeout tells a caller that no answer came. Half of such calls reach the store later.
func (w *World) timeout(c *call) {
	w.gate.take(c)
	if c.script() && w.rng.IntN(2) == 0 {
		at := c.hold
		if c.proc.cutOff.After(at) {
			at = c.proc.cutOff
		}
		if w.stalled.After(at) {
			at = w.stalled
		}
		w.ghosts = append(w.ghosts, &ghost{c, at})
	}
	w.answer(c, nil, errLate, "no answer")
}

// decide lets a call meet its fate.
func (w *World) decide(c *call) {
	what := ""
	if c.name == "claim" && !c.proc.connected {
		c.proc.connected = true
		w.answer(c, nil, errDial, "not connected yet") // its time would be the tickers'; what is repeated comes on the grid
		return
	}
	if c.kind != inside && !w.healed() {
		what = w.draw(c)
	}
	switch what {
	case "held", "SQL slow":
		c.hold = time.Now().Add(ticks(w.rng, 5, 40))
		w.gate.back(c)
		w.note(what, c.proc.nonce, c.name)
	case "script forgotten":
		w.say(c, nil, nil, what)
		c.answer <- answer{err: refusal("NOSCRIPT No matching script.")}
	case "refused":
		words := []refusal{"LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica.",
			"OOM command not allowed when used memory > 'maxmemory'.", "MISCONF Redis is configured to save RDB snapshots"}
		w.answer(c, nil, words[w.rng.IntN(len(words))], what)
	case "unreachable", "SQL refused":
		w.answer(c, nil, errDial, what)
	case "executed late":
		after := ticks(w.rng, 1, 60)
		if (c.name == "submit" || c.name == "requeue") && w.rng.IntN(2) == 0 {
			after = ticks(w.rng, 310, 330) // later than it may come
		}
		w.ghosts = append(w.ghosts, &ghost{c, time.Now().Add(after)})
		w.answer(c, nil, errLate, what)
	case "crash before":
		w.gate.back(c) // among what it had sent
		w.crash(c.proc, what)
		return
	default:
		reply, err := w.execute(c)
		switch what {
		case "reply lost", "SQL reply lost":
			w.answer(c, nil, errReset, what)
		case "crash after":
			w.say(c, reply, err, what)
			c.answer <- answer{err: errReset}
			w.crash(c.proc, what)
			return
		default:
			w.answer(c, reply, err, "")
		}
	}
	if what != "" {
		w.fault(what)
	}
}

// draw picks a call's fate; "" is to go through unharmed.
func (w *World) draw(c *call) string {
	x := w.rng.Float64()
	switch c.name {
	case "submit", "complete", "fail", "release", "cancel", "requeue":
		x /= 3 // the loops call all the time, these do not
	}
	for _, f := range fates {
		if x -= w.plan.rates[f.name]; x >= 0 {
			continue
		}
		sql := f.name[:3] == "SQL"
		crash := f.name == "crash before" || f.name == "crash after"
		switch {
		case sql != (c.kind == toSQL) && !crash,
			c.worn() && !crash,
			c.name == "claim" && c.proc.failures["claim"] > 0 && (f.name == "refused" || f.name == "unreachable"),
			!c.hold.IsZero() && (f.name == "held" || f.name == "SQL slow"),
			!c.script() && (f.name == "script forgotten" || f.name == "executed late"):
			return ""
		}
		return f.name
	}
	return ""
}

var wholes sync.Map // source -> the same with its prelude

// prelude is a whole script.
func prelude(source string) string {
	if whole, ok := wholes.Load(source); ok {
		return whole.(string)
	}
	wholes.Store(source, lua.Prelude+source)
	return lua.Prelude + source
}
