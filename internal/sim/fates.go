package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// ghost is a call whose caller has given up, or died, and which the store carries out all the same.
type ghost struct {
	*call
	at    time.Time
	lurks bool // until another holds one of its jobs, or at has come
}

// haunt carries out a ghost that is due.
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

// delay holds back one of several new calls for a little, so that they overtake each other.
func (w *World) delay(c *call) {
	if c.hold.IsZero() && w.rng.IntN(12) == 0 {
		c.hold = c.seen.Add(ticks(w.rng, 1, 3))
	}
}

// timeout tells a caller that no answer came. Half of such calls reach the store later.
func (w *World) timeout(c *call) {
	w.gate.take(c)
	if c.script() {
		w.abandon(c)
	}
	w.answer(c, nil, errLate, "no answer")
}

// abandon lets half of the calls whose callers wait no longer be carried out when they can be.
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

// decide lets a call meet its fate.
func (w *World) decide(c *call) {
	what := ""
	if w.isFull() && (c.name == "submit" || c.name == "restore") {
		w.fault("full")
		w.answer(c, nil, outOfMemory, "full")
		return
	}
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
			w.linger(c, 310, 330) // later than it may come
		} else {
			w.linger(c, 1, 60)
		}
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
			w.again(c, reply, err)
			w.answer(c, reply, err, "")
		}
	}
	if what != "" {
		w.fault(what)
	}
}

// linger makes a ghost of a call, at the latest so many ticks from now. Half of those that show a lease lie in wait
// until another has the job.
func (w *World) linger(c *call, from, to int) {
	g := &ghost{call: c}
	switch c.name {
	case "complete", "fail", "heartbeat":
		g.lurks = w.rng.IntN(2) == 0
	}
	if g.lurks {
		from, to = 130, 130
	}
	g.at = time.Now().Add(ticks(w.rng, from, to))
	w.ghosts = append(w.ghosts, g)
}

// fenced says that a call shows a lease of a job that another holds now.
func (s *shadow) fenced(c *call) bool {
	argv, step := ends(c.name, c.args[c.keys:])
	for ; len(argv) >= step; argv = argv[step:] {
		if k := s.jobs[job.ID(argv[0])]; k != nil && k.status == job.Processing && k.lease.token != argv[2] {
			return true
		}
	}
	return false
}

// again carries out a script once more that went through, up to 13 s later: each says in its header what that does.
// Only of a submit that was refused it says nothing: nobody sends that again.
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

// draw picks a call's fate; "" is to go through unharmed.
func (w *World) draw(c *call) string {
	x := w.rng.Float64()
	ends := false
	switch c.name {
	case "submit", "cancel", "restore":
		x /= 3 // the loops call all the time, these do not
	case "complete", "fail":
		ends = true
	}
	for _, f := range allFates {
		rate := w.plan.rates[f.name]
		crash := f.name == "crash before" || f.name == "crash after"
		if ends && f.name == "crash before" {
			rate *= 8 // what a dead process said last is what the fences are for
		}
		if crash && w.plan.journal && (c.name == "submit" || c.ofJournal()) {
			rate *= 8 // and what it left half done what the giver is for
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
