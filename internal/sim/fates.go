package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// ghost is a call whose caller has given up or died, and which the store executes all the same.
type ghost struct {
	*call
	at    time.Time
	lurks bool // it waits until another lease holds one of its jobs, or until at
}

// haunt executes a ghost that is due and says whether there was one.
func (w *World) haunt(now time.Time) bool {
	for i, g := range w.ghosts {
		if g.at.After(now) && !(g.lurks && w.shadow.fenced(g.call)) || w.stalled.After(now) {
			continue
		}
		w.ghosts = slices.Delete(w.ghosts, i, i+1)
		reply, err := w.execute(g.call)
		w.say(g.call, reply, err, "late")
		return true
	}
	return false
}

// delay holds back one of twelve new calls for a short time, so that calls overtake each other.
func (w *World) delay(c *call) {
	if c.hold.IsZero() && w.rng.IntN(12) == 0 {
		c.hold = c.seen.Add(ticks(w.rng, 1, 3))
	}
}

// timeout answers a caller that no answer came. Half of such scripts reach the store later.
func (w *World) timeout(c *call) {
	w.gate.take(c)
	if c.script() {
		w.abandon(c)
	}
	w.answer(c, nil, errLate, "no answer")
}

// abandon makes ghosts of half of the calls whose callers gave up. The store executes them when nothing is in the
// way any more.
func (w *World) abandon(c *call) {
	if w.rng.IntN(2) == 0 {
		at := c.hold
		for _, end := range []time.Time{c.proc.cutOff, w.stalled} {
			if c.kind == toRedis && end.After(at) {
				at = end
			}
		}
		if c.kind == toSQL && w.sqlDown.After(at) {
			at = w.sqlDown
		}
		w.ghosts = append(w.ghosts, &ghost{call: c, at: at})
	}
}

// decide draws the fate of a call and executes it.
func (w *World) decide(c *call) {
	what := ""
	if w.isFull() && (c.name == "submit" || c.name == "restore") {
		w.fault("full")
		w.answer(c, nil, outOfMemory, "full")
		return
	}
	if c.name == "claim" && !c.elsewhere() && !c.proc.connected {
		c.proc.connected = true
		w.answer(c, nil, errDial, "not connected yet") // the first time comes from a ticker; the repeat comes on the grid
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
		c.proc.disturbed[c.line] = time.Now()
		w.say(c, nil, nil, what)
		c.answer <- answer{err: refusal("NOSCRIPT No matching script.")}
	case "refused":
		words := []refusal{"LOADING Redis is loading the dataset in memory",
			"READONLY You can't write against a read only replica.",
			outOfMemory, "MISCONF Redis is configured to save RDB snapshots"}
		w.answer(c, nil, words[w.rng.IntN(len(words))], what)
	case "unreachable", "SQL refused":
		w.answer(c, nil, errDial, what)
	case sqlLate:
		w.linger(c, 1, 30)
		w.answer(c, nil, errLate, what)
	case "executed late":
		if (c.name == "submit" || c.name == "restore") && w.rng.IntN(2) == 0 {
			w.linger(c, 310, 330) // later than a submit may come
		} else {
			w.linger(c, 1, 60)
		}
		w.answer(c, nil, errLate, what)
	case "crash before":
		w.gate.back(c) // one of the calls that the process had sent
		w.crash(c.proc, what)
		return
	default:
		reply, err := w.execute(c)
		switch what {
		case "reply lost", "SQL reply lost":
			w.answer(c, nil, errReset, what)
		case "crash after":
			w.say(c, reply, err, what)
			w.crash(c.proc, what, c)
			return
		default:
			w.again(c, reply, err)
			w.answer(c, reply, err, "")
		}
	}
	if what != "" {
		w.fault(what)
	}
}

// linger makes a ghost of a call that executes after a number of ticks from the range. Half of the ghosts that
// show a lease wait until another lease holds their job.
func (w *World) linger(c *call, from, to int) {
	g := &ghost{call: c}
	switch c.name {
	case "complete", "fail", "heartbeat", "log":
		g.lurks = w.rng.IntN(2) == 0
	}
	if g.lurks {
		from, to = 130, 130
	}
	g.at = time.Now().Add(ticks(w.rng, from, to))
	w.ghosts = append(w.ghosts, g)
}

// fenced says whether a call shows a lease of a job that another lease holds now.
func (s *shadow) fenced(c *call) bool {
	argv, step := ends(c.name, c.args[c.keys:])
	for ; len(argv) >= step; argv = argv[step:] {
		if k := s.jobs[job.ID(argv[0])]; k != nil && k.status == job.Processing && k.lease.token != argv[2] {
			return true
		}
	}
	return false
}

// again sometimes executes a successful script once more, up to 13 s later. The header of each script says what a
// repeat does. A refused submit is left out, because no caller sends that again.
func (w *World) again(c *call, reply any, err error) {
	if w.plan.calm || w.healed() || err != nil || !c.script() ||
		c.name == "submit" && !strings.HasPrefix(strs(reply)[0], "OK") {
		return
	}
	if w.rng.IntN(30) == 0 {
		twice := *c
		w.linger(&twice, 1, 130)
		w.fault("said twice")
	}
}

// draw draws the fate of a call; "" = the call is executed and answered.
func (w *World) draw(c *call) string {
	x := w.rng.Float64()
	ends := false
	switch c.name {
	case "submit", "cancel", "kill", "hasten", "restore":
		x /= 3 // the loops call often, clients rarely
	case "complete", "fail":
		ends = true
	}
	for _, f := range allFates {
		rate := w.plan.rates[f.name]
		crash := f.name == "crash before" || f.name == "crash after"
		if ends && f.name == "crash before" {
			rate *= 8 // the fences are there for the last calls of a dead process
		}
		if crash && w.plan.journal && (c.name == "submit" || c.ofJournal()) {
			rate *= 8 // the reconciler is there for what such a process left
		}
		if x -= rate; x >= 0 {
			continue
		}
		sql := f.name[:3] == "SQL"
		switch {
		case sql != (c.kind == toSQL) && !crash,
			c.worn() && !crash,
			c.name == "claim" && c.proc.failures["claim"] > 0 && (f.name == "refused" || f.name == "unreachable"),
			!c.hold.IsZero() && (f.name == "held" || f.name == "SQL slow"),
			f.name == sqlLate && !c.ofJournal(),
			!c.script() && (f.name == "script forgotten" || f.name == "executed late"):
			return ""
		}
		return f.name
	}
	return ""
}
