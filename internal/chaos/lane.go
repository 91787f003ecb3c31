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
	id, what string // its F number in RELIABILITY.md, and the variant
	weight   int    // how many cards a deck has of this kind; 0 = one
	repeats  bool   // after this fault a job may be run again
	forgets  bool   // Redis may forget what it answered; such kinds run with the journal only
	freezes  bool   // the server's process stands still from the beginning to the end of the fault
	inject   func(ctx context.Context, w *wound) (evidence string, err error)
}

// wound is one injection of a fault: what the fault needs, and what it records. A fault repairs what it broke
// before it returns, also when ctx has ended.
type wound struct {
	*cluster
	s      *server // the server of a server's lane; nil in the other lanes
	rng    *rand.Rand
	target string // a pid, redis or mysql; "" = all
	// from is when the fault began. A fault that needs a preparation sets from after that. A kill sets from to the
	// moment when the process is gone.
	from  time.Time
	kills int
}

var (
	errMissed = errors.New("it did not land")
	// errElsewhere is the result of a poisoned job: the lane of the server that dies of the job records the fault.
	errElsewhere = errors.New("its evidence is where it hits")
)

// tally counts the injections of one kind.
type tally struct {
	landed, missed int
	missing        string // why the last one missed
}

// lane injects one fault after the other, in an order that the seed decides.
type lane struct {
	c      *cluster
	name   string
	target string
	s      *server
	lock   *sync.Mutex // held while the lane's target is broken
	kinds  []kind
	gap    time.Duration // the mean time between two faults
	rng    *rand.Rand
	deck   []kind
}

// run injects faults until ctx ends.
func (l *lane) run(ctx context.Context) {
	for l.pause(ctx) {
		l.once(ctx, l.draw())
	}
}

// pause waits until the next fault is due and meanwhile restarts the lane's server if its process ends. It returns
// false if ctx has ended or a restart has failed; a failed restart also ends the run.
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

// draw takes the next kind from the deck and shuffles a new deck when the old one is used up. A server's lane
// draws a kill instead while the run is behind its number of kills.
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

// once injects one fault and records whether it landed or missed.
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
	if l.s != nil {
		f.Server = l.s.base()
	}
	if k.freezes {
		f.Froze = l.s.base()
	}
	switch {
	case errors.Is(err, errElsewhere):
	case errors.Is(err, errMissed):
		l.c.miss(k, evidence)
	case err != nil && ctx.Err() != nil: // the fault was interrupted, and repaired what it could
		l.c.miss(k, "the faults were over")
	case err != nil:
		l.c.breakOff(fmt.Errorf("%s %s on %s: %w", k.id, k.what, l.name, err))
	default:
		l.c.land(f)
	}
}

// bury restarts a server whose process has ended by itself, and records the fault that ended it: a poisoned job or
// an armed failpoint. A process that ended for another reason is an error. The caller holds the server's lock.
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

// stillborn counts a process that gave up starting, under the last line of its output.
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
		Ends: c.Embedded, Lives: c.Embedded, Cancels: true, Attempts: c.Embedded, Leases: c.Embedded,
	}
	if c.Embedded && (f.Kills > 0 || f.Kind == "F09") {
		f.ForgetsAcked = true // its Redis ended with the process
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

// tallyOf returns the tally of a kind. The caller holds notes.
func (c *cluster) tallyOf(id, what string) *tally {
	name := id + " " + what
	if c.counts[name] == nil {
		c.counts[name] = &tally{}
	}
	return c.counts[name]
}

// breakOff ends the run because the test's own machinery failed. It records no broken promise. Of several errors
// the first counts.
func (c *cluster) breakOff(err error) {
	c.notes.Lock()
	if c.broken == nil {
		c.broken = err
	}
	c.notes.Unlock()
	c.say("broken off: %v", err)
	c.abort()
}

// hold waits for d. It returns false if ctx ended first.
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

// between returns a random duration from a range, with the lane's random numbers.
func (w *wound) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.rng.Int64N(int64(high-low)+1))
}

func tail(text string) string { return text[max(0, len(text)-4096):] }
