package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
)

// kind is one way to break the cluster.
type kind struct {
	id, what string // its F number, and which variant of it
	weight   int    // how often it comes in a deck; 0 = once
	repeats  bool   // may be why a job is run again
	forgets  bool   // Redis may forget what it answered: only with the journal
	freezes  bool   // the server's process stands still from the beginning to the end of the fault
	inject   func(ctx context.Context, w *wound) (evidence string, err error)
}

// wound is one injection: what a fault needs, and what it leaves behind. A fault heals what it broke before it returns,
// also when ctx has ended.
type wound struct {
	*cluster
	s      *server // of a server's lane; nil in the others
	rng    *rand.Rand
	target string // a pid, redis or mysql; "" = everybody
	// when it began; a fault that prepares itself first sets it anew, and of a kill it is when the process was gone
	from  time.Time
	kills int
}

var (
	errMissed = errors.New("it did not land")
	// a poisoned job is found by the lane of the server that dies of it
	errElsewhere = errors.New("its evidence is where it hits")
)

// tally is what became of the injections of one kind.
type tally struct {
	landed, missed int
	missing        string // why the last one missed
}

// lane breaks one thing after the other, in an order that the seed decides.
type lane struct {
	c      *cluster
	name   string
	target string
	s      *server
	lock   *sync.Mutex // of what it breaks
	kinds  []kind
	gap    time.Duration // the mean time between two
	rng    *rand.Rand
	deck   []kind
}

// run goes on until ctx ends.
func (l *lane) run(ctx context.Context) {
	for l.pause(ctx) {
		l.once(ctx, l.draw())
	}
}

// pause waits for the next fault's time, and meanwhile restarts the server if it dies by itself.
func (l *lane) pause(ctx context.Context) bool {
	gap := time.Duration((0.5 + l.rng.Float64()) * float64(l.gap))
	if l.s == nil {
		return hold(ctx, gap)
	}
	for end := time.Now().Add(gap); time.Now().Before(end) && ctx.Err() == nil; {
		if l.s.awaitDeath(ctx, time.Until(end)) {
			l.lock.Lock()
			err := l.c.bury(ctx, l.s)
			l.lock.Unlock()
			if err != nil && ctx.Err() == nil {
				l.c.breakOff(err)
				return false
			}
		}
	}
	return ctx.Err() == nil
}

// draw takes the next card; a deck that is used up is shuffled anew.
func (l *lane) draw() kind {
	if l.s != nil && l.c.behind() {
		return kind{id: "F01", what: "kill -9 of a server", repeats: true, inject: killed}
	}
	if len(l.deck) == 0 {
		for _, k := range l.kinds {
			for range max(k.weight, 1) {
				l.deck = append(l.deck, k)
			}
		}
		l.rng.Shuffle(len(l.deck), func(i, j int) { l.deck[i], l.deck[j] = l.deck[j], l.deck[i] })
	}
	k := l.deck[0]
	l.deck = l.deck[1:]
	return k
}

// once injects one fault and keeps its evidence.
func (l *lane) once(ctx context.Context, k kind) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.s != nil {
		if err := l.c.bury(ctx, l.s); err != nil {
			if ctx.Err() == nil {
				l.c.breakOff(err)
			}
			return
		}
	}
	w := &wound{cluster: l.c, s: l.s, rng: l.rng, target: l.target, from: time.Now()}
	if l.s != nil {
		w.target = l.s.pid()
	}
	evidence, err := k.inject(ctx, w)
	f := check.Fault{Kind: k.id, What: k.what, Target: w.target, From: w.from, To: time.Now(), Evidence: evidence,
		Kills: w.kills, Repeats: k.repeats, ForgetsAcked: k.forgets}
	if k.freezes {
		f.Froze = l.s.base()
	}
	switch {
	case errors.Is(err, errElsewhere):
	case errors.Is(err, errMissed):
		l.c.miss(k, evidence)
	case err != nil && ctx.Err() != nil: // it was interrupted, and healed what it could
		l.c.miss(k, "the faults were over")
	case err != nil:
		l.c.breakOff(fmt.Errorf("%s %s on %s: %w", k.id, k.what, l.name, err))
	default:
		l.c.land(f)
	}
}

// bury restarts a server that died by itself, and writes down of what. A server that died of nothing we did is the end
// of the run.
func (c *cluster) bury(ctx context.Context, s *server) error {
	why, dead := s.died()
	if !dead {
		return nil
	}
	p := s.now()
	s.keepLog(p)
	f := check.Fault{Kind: "F46", What: "a job that kills its process", Target: s.pid(), From: s.endedAt(), To: time.Now(),
		Evidence: why, Kills: 1, Repeats: true}
	switch {
	case poison.MatchString(why):
	case hit.MatchString(why):
		f.Kind, f.What = "F07", "killed at an armed point, late"
	default:
		return fmt.Errorf("server %d (pid %s) ended by itself:\n%s", s.n, s.pid(), tail(p.Output()))
	}
	c.land(f)
	return s.start(ctx)
}

// stillborn counts processes that did not come up.
func (c *cluster) stillborn(output string) {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	last := lines[len(lines)-1]
	c.say("a server gave up starting: %s", last)
	c.notes.Lock()
	defer c.notes.Unlock()
	c.born[last]++
}

func (c *cluster) land(f check.Fault) {
	f.Keeps = check.Keeps{
		Ends: c.Embedded, Lives: c.Embedded, Cancels: true, Attempts: c.Embedded,
	}
	if c.Embedded && (f.Kills > 0 || f.Kind == "F09") {
		f.ForgetsAcked = true // its Redis went with it
	}
	c.say("%-4s %s: %s", f.Kind, f.What, f.Evidence)
	c.notes.Lock()
	defer c.notes.Unlock()
	c.faults = append(c.faults, f)
	c.kills += f.Kills
	c.tallyOf(f.Kind, f.What).landed++
}

func (c *cluster) miss(k kind, why string) {
	c.say("%-4s %s missed: %s", k.id, k.what, why)
	c.notes.Lock()
	defer c.notes.Unlock()
	t := c.tallyOf(k.id, k.what)
	t.missed++
	t.missing = why
}

// tallyOf is called with notes held.
func (c *cluster) tallyOf(id, what string) *tally {
	name := id + " " + what
	if c.counts[name] == nil {
		c.counts[name] = &tally{}
	}
	return c.counts[name]
}

// breakOff ends the run: not a promise was broken, but the machinery.
func (c *cluster) breakOff(err error) {
	c.notes.Lock()
	if c.broken == nil {
		c.broken = err
	}
	c.notes.Unlock()
	c.say("broken off: %v", err)
	c.abort()
}

// hold waits; false if ctx ended first.
func hold(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// between is a time from a range, by the seed.
func (w *wound) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.rng.Int64N(int64(high-low)+1))
}

func tail(text string) string { return text[max(0, len(text)-4096):] }
