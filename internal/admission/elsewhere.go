package admission

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Where a submit goes, with several partitions. Each has its part of the capacity and of the quotas, and may live on a server of its own. A
// submit without an Idempotency-Key goes to any; if that one certainly did not take it (no room, over the quota, closed, not executed) it goes
// on to another, each at most once, and is refused when nobody is left. One with a key stays at home: only there it is known to be a repeat.

// partitionSet is some of the 256 partitions there may be.
type partitionSet [4]uint64

func (s *partitionSet) add(p int)      { s[p>>6] |= 1 << (p & 63) }
func (s *partitionSet) has(p int) bool { return s[p>>6]&(1<<(p&63)) != 0 }

// place is the committer that a submit goes to first, or why there is none.
func (a *Admission) place(s *job.Submission) (*committer, error) {
	var c *committer
	if key := s.Idempotency.Key; key != "" {
		c = a.committers[job.Home(key, len(a.committers))]
	} else if c = a.choose(s, nil); c == nil {
		return nil, a.gate.refusal(wholeGate)
	}
	if !a.gate.OpenAt(c.partition) {
		return nil, a.gate.refusal(c.partition)
	}
	return c, nil
}

// choose picks a partition for a submit without a key: an open one, with the shortest waiting list; among equals they take turns, so that each
// fills its own part of the capacity evenly. One that refused the likes of it a moment ago is passed over; when all did, one is asked all the
// same, but only if nobody was before (asked is nil): so a full queue costs a refused submit one question, not one per partition. nil = nobody.
func (a *Admission) choose(s *job.Submission, asked *partitionSet) *committer {
	if len(a.committers) == 1 {
		return a.committers[0]
	}
	first := int(a.turn.Add(1)) % len(a.committers)
	var best, full *committer
	least := int64(0)
	for i := range a.committers {
		c := a.committers[(first+i)%len(a.committers)]
		if asked != nil && asked.has(c.partition) || !a.gate.OpenAt(c.partition) {
			continue
		}
		if c.lately.refused(s) {
			if full == nil {
				full = c
			}
			continue
		}
		if n := c.load.Load(); best == nil || n < least {
			best, least = c, n
		}
		if least == 0 {
			break
		}
	}
	if best == nil && asked == nil {
		return full
	}
	return best
}

// refused says whether a step means that this partition certainly has not taken the submit, and if it is for want of room, which.
func refused(s step, reply job.SubmitReply, unavailable bool) (why error, certain bool) {
	switch s {
	case full:
		return noRoom(reply), true
	case quota:
		return job.ErrQuota, true
	case again, unhealthy:
		return nil, unavailable
	}
	return nil, false
}

// noRoom is what a FULL means: of the tier's share of the capacity, or of the living jobs.
func noRoom(reply job.SubmitReply) error {
	if reply.Living {
		return job.ErrLivingFull
	}
	return job.ErrQueueFull
}

// moveOn hands an entry that this partition certainly did not take to another one, under another id, for an id names its partition. It is false
// if there is none. The lock is held, and deliver follows after it is released.
func (c *committer) moveOn(e *entry, why error) bool {
	if c.elsewhere == nil {
		return false
	}
	if why != nil {
		c.lately.note(&e.submission, why)
	}
	if e.answered || e.submission.Idempotency.Key != "" {
		return false
	}
	e.asked.add(c.partition)
	next := c.elsewhere(&e.submission, &e.asked)
	if next == nil {
		return false
	}
	id, err := c.mint.next(next.partition)
	if err != nil {
		c.log.Error("a submit keeps its partition: it gets no other id", "err", err)
		return false
	}
	if e.why == nil {
		e.why = why
	}
	e.submission.ID = id
	e.priority, e.sent, e.refused, e.run = e.rank, false, 0, ""
	c.load.Add(-1)
	next.load.Add(1)
	e.home.Store(next)
	return true
}

// deliver puts entries that have moved into the lists of their new homes. No lock is held.
func deliver(moved []*entry) {
	slices.SortStableFunc(moved, func(a, b *entry) int { return a.home.Load().partition - b.home.Load().partition }) // they share calls there
	for len(moved) > 0 {
		home, n := moved[0].home.Load(), 1
		for n < len(moved) && moved[n].home.Load() == home {
			n++
		}
		home.enter(moved[:n])
		moved = moved[n:]
	}
}

// leave ends the wait for an entry, wherever it is by now.
func (e *entry) leave(why error) {
	for !e.home.Load().leave(e, why) {
	}
}

const (
	// shortMemory is how long a partition's refusal stands for the likes of what it refused.
	shortMemory = 100 * time.Millisecond
	// mostRefusals bounds what is remembered; who is not is asked.
	mostRefusals = 1000
)

// likes is what submits have in common that a partition refuses: their tier, that they are delayed, or their owner.
type likes struct {
	tier    job.Tier
	delayed bool
	owner   string
}

// refusals remembers for a moment what a partition has no room for.
type refusals struct {
	any atomic.Bool
	mu  sync.Mutex
	of  map[likes]bool
}

func roomOf(s *job.Submission) likes {
	if s.Delayed() {
		return likes{tier: s.Tier, delayed: true}
	}
	return likes{tier: s.Tier}
}

func (r *refusals) note(s *job.Submission, why error) {
	what := roomOf(s)
	if errors.Is(why, job.ErrQuota) {
		what = likes{owner: s.Owner}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[likes]bool{}
		time.AfterFunc(shortMemory, r.forget)
	}
	if len(r.of) < mostRefusals {
		r.of[what] = true
	}
	r.any.Store(true)
}

func (r *refusals) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of = nil
	r.any.Store(false)
}

func (r *refusals) refused(s *job.Submission) bool {
	if !r.any.Load() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[roomOf(s)] || s.Quota > 0 && s.Owner != "" && r.of[likes{owner: s.Owner}]
}
