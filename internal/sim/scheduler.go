package sim

import (
	"strings"
	"testing/synctest"
	"time"
)

// play lets one call after the other through, and lets time pass when no call may go, until everything rests.
func (w *World) play() {
	for w.report.Violation == "" {
		synctest.Wait()
		if w.weather() {
			continue
		}
		if w.step() {
			if w.busy++; w.busy > 5000 {
				w.fail("L1", "calls follow each other without end")
			}
			continue
		}
		w.busy = 0
		w.punctual()
		w.drained()
		if w.rests() {
			w.check(true)
			return
		}
		if now := time.Now(); now.Sub(w.forgets) >= time.Second {
			w.store.mini.FastForward(now.Sub(w.forgets))
			w.shadow.passed(now.Sub(w.forgets))
			w.forgets = now
		}
		if time.Since(w.began) > w.plan.heal+restFor {
			w.fail("L1", "it does not come to rest: %s", w.restless())
		}
		<-time.After(grid)
	}
}

// step lets one call through, if any may go now, and says so. A call that waits for too long times out.
func (w *World) step() bool {
	now := time.Now()
	for _, c := range w.gate.abandoned() {
		w.abandon(c)
	}
	if w.haunt(now) {
		return true
	}
	var ready []*call
	for _, c := range w.gate.sorted() {
		if c.seen.IsZero() {
			c.seen = now
			w.delay(c)
		}
		switch {
		case w.may(c, now):
			ready = append(ready, c)
		case c.kind == toRedis && now.Sub(c.seen) >= c.patience():
			w.timeout(c)
			return true
		}
	}
	if len(ready) == 0 {
		return false
	}
	c := ready[w.rng.IntN(len(ready))]
	w.gate.take(c)
	w.report.Calls++
	w.decide(c)
	if w.report.Calls%100 == 0 {
		w.check(false)
	}
	return true
}

// may says whether a call can go through now.
func (w *World) may(c *call, now time.Time) bool {
	p := c.proc
	switch {
	case c.hold.After(now) && !w.wakes(c):
		return false
	case c.kind == inside:
		return true
	case c.kind == toSQL:
		return !w.sqlDown.After(now)
	case w.stalled.After(now) || p.cutOff.After(now):
		return false
	case c.name == "blpop":
		return now.Sub(c.seen) >= bellTime || w.store.mini.Exists(c.args[1])
	}
	return true
}

// patience returns how long go-redis waits for an answer. After two failures in a row a caller gets a long time,
// so that it does not fail again: its third pause would depend on random numbers that the seed does not decide.
func (c *call) patience() time.Duration {
	switch {
	case c.line == "heartbeat" || c.line == "checkpoint":
		return beatTime
	case c.name == "blpop":
		return callTime + grid
	case c.worn():
		return 94 * grid
	}
	return callTime
}

// worn says whether a call must not fail once more.
func (c *call) worn() bool {
	switch c.line {
	case "claim", "complete", "fail", "checkpoint", "blpop":
		return c.proc.failures[c.line] >= 2
	}
	return false
}

// execute executes a call now and reports it to the shadow.
func (w *World) execute(c *call) (any, error) {
	if c.kind != toRedis {
		if c.do == nil {
			return nil, nil
		}
		reply, err := c.do()
		if c.kind == toSQL {
			w.batchesHold()
			w.flowsHold()
		}
		return reply, err
	}
	switch {
	case c.script():
		source, known := sources[c.name]
		if !known {
			w.fail("script", "hook.go does not list a script with the keys %q", c.args[:c.keys])
		}
		if broken, ok := w.Mutate[c.name]; ok {
			source = broken
		}
		reply, err := w.store.eval(source, c.args[:c.keys], c.args[c.keys:])
		if err != nil {
			w.fail("script", "%s: %v", c.name, err)
			return nil, refusal(err.Error())
		}
		w.shadow.heard(c, reply)
		return reply, nil
	case c.name == "blpop":
		token, err := w.store.do("LPOP", c.args[1])
		if token == nil || err != nil {
			return nil, err
		}
		return []any{c.args[1], token}, nil
	case c.name == "pipeline":
		replies := make([]any, len(c.args))
		for i, line := range c.args {
			switch f := strings.Fields(line); f[0] {
			case "multi", "exec":
			case "info":
				replies[i] = refusal("section is not supported")
			default:
				var err error
				if replies[i], err = w.store.do(f...); err != nil {
					return nil, err
				}
			}
		}
		return replies, nil
	case c.name == "info":
		return "", nil
	}
	return w.store.do(c.args...)
}

// answer records the answer of a call and sends it to its caller.
func (w *World) answer(c *call, reply any, err error, how string) {
	if err == nil {
		delete(c.proc.failures, c.line)
	} else if c.kind == toRedis {
		c.proc.failures[c.line]++
		c.proc.disturbed[c.line] = time.Now()
	}
	w.say(c, reply, err, how)
	c.answer <- answer{reply, err}
}
