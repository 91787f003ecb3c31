package sim

import (
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
	"github.com/tierq/tierq/internal/recovery"
)

// The design promises times. A process that misses them is excused if its own calls failed or had to wait, no
// longer ago than it takes to make up for them. Virtual time makes the bounds exact, except for the short time
// that delay holds a call back.
const (
	recovers   = 2 * time.Second        // after its last disturbance a process is back in time within this
	waits      = 400 * time.Millisecond // a call that waits so long at the gate was not held by delay alone
	overdue    = 350 * time.Millisecond // the pool's grace for a handler at its maximum time, and its next look
	secondLook = 2050 * time.Millisecond
	slack      = time.Second
)

// These are the calls that keep a lease alive, and those that end one.
var (
	alive  = []string{"claim", "heartbeat"}
	ending = []string{"claim", "complete", "fail"}
)

// quiet says whether none of these calls of the process was disturbed in the last d.
func (p *process) quiet(d time.Duration, lines ...string) bool {
	for _, l := range lines {
		if at, ever := p.disturbed[l]; ever && time.Since(at) <= d {
			return false
		}
	}
	return true
}

// punctual runs before time passes. It marks processes whose calls wait at the gate as disturbed, and checks that
// all others are in time.
func (w *World) punctual() {
	now := time.Now()
	for _, c := range w.gate.sorted() {
		if c.kind == toRedis && now.Sub(c.seen) >= waits {
			c.proc.disturbed[c.line] = now
		}
	}
	since, promoting := w.watched("reclaim"), w.watched("expire", "promote")
	for _, k := range w.shadow.jobs {
		w.endsInTime(k, now, promoting)
		w.wakesInTime(k, now, promoting)
		if k.status == job.Processing {
			w.inTime(k, now, since)
		}
	}
}

// watched returns since when a process runs whose recovery makes these calls at their pace; zero = there is none.
func (w *World) watched(lines ...string) (since time.Time) {
	for _, p := range w.processes {
		ever := slices.ContainsFunc(lines, func(line string) bool { return !p.disturbed[line].IsZero() })
		if w.plan.recovers[p.slot] && p.alive() && !p.draining && !ever && (since.IsZero() || p.began.Before(since)) {
			since = p.began
		}
	}
	return since
}

func (w *World) inTime(k *known, now, watched time.Time) {
	p, s, name := k.lease.holder, w.shadow, "an outsider"
	past := func(ms int64) time.Duration { return now.Sub(time.UnixMilli(ms)) }
	if p != nil {
		name = p.nonce
	}
	if p != nil && p.alive() && !p.draining {
		if past(k.lease.beaten) > recovers && p.quiet(recovers, alive...) {
			s.wrong("S14", "%s: %s holds it, had no trouble, and lets it have no heartbeat for %s", k, p.nonce,
				past(k.lease.beaten))
		}
		if past(k.lease.maxEnd) > overdue+slack && p.quiet(recovers, ending...) {
			s.wrong("L3", "%s: %s had no trouble, and lets it run %s longer than it may", k, p.nonce, past(k.lease.maxEnd))
		}
	}
	if watched.IsZero() {
		return
	}
	late := func(ms int64, pace loop.Pace) bool {
		return min(past(ms), now.Sub(watched)) > pace.Floor+secondLook+slack
	}
	if late(k.lease.beatEnd, recovery.CrashedPace) {
		s.wrong("L2", "%s: nobody has taken it back from %s, %s after its heartbeats stopped", k, name,
			past(k.lease.beatEnd))
	}
	if late(k.lease.maxEnd, recovery.StuckPace) {
		s.wrong("L3", "%s: nobody has taken it back from %s, %s after its maximum", k, name, past(k.lease.maxEnd))
	}
}

// explained checks a reclaim. A lease may be lost only if a fault kept its holder from sending heartbeats or its
// report. A holder that lives must have told its handler to stop before another process may have the job.
func (s *shadow) explained(k *known, cause job.Cause) {
	p, lines := k.lease.holder, alive
	if p == nil {
		return // a worker outside may always be late
	}
	if cause == job.MaxTimeExceeded {
		lines = ending
	}
	switch {
	case p.retired || p.alive() && p.silent.Load(): // a drain releases all jobs
		if p.quiet(time.Since(p.drained)+recovers, append(alive, ending...)...) {
			s.wrong("L7", "%s: taken back for %s from %s, which drained without trouble", k, cause, p.nonce)
		}
	case p.alive() && (s.w.plan.calm || p.quiet(recovers, lines...)):
		s.wrong("S14", "%s: taken back for %s from %s, which lives and had no trouble", k, cause, p.nonce)
	}
	if p.alive() && k.lease.ctx != nil && k.lease.ctx.Err() == nil {
		s.wrong("S5", "%s: taken back for %s from %s, whose handler still believes in the lease", k, cause, p.nonce)
	}
}
