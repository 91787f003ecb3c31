package admission

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Where a submit goes, with several partitions. Each has its part of the capacity and of the quotas, and may live on a
// server of its own. A submit without an Idempotency-Key goes to any; if that one certainly did not take it (no room,
// over the quota, closed, not executed) it goes on to another, each at most once, and is refused when nobody is left.
// One with a key stays at home: only there it is known to be a repeat.

// partitionSet is some of the 256 partitions there may be.
type partitionSet [4]uint64

func (s *partitionSet) add(p int)      { s[p>>6] |= 1 << (p & 63) }
func (s *partitionSet) has(p int) bool { return s[p>>6]&(1<<(p&63)) != 0 }

// place is the committer that a submit goes to, or why there is none. before is its entry in the partition that it
// moves from, or nil.
func (a *Admission) place(s *job.Submission, before *entry) (*committer, error) {
	var c *committer
	if before != nil {
		if c = a.choose(s, &before.asked); c == nil {
			return nil, before.err
		}
	} else if key := s.Idempotency.Key; key != "" {
		c = a.committers[job.Home(key, len(a.committers))]
	} else if c = a.choose(s, nil); c == nil {
		return nil, a.gate.refusal(wholeGate)
	}
	if !a.gate.OpenAt(c.partition) {
		return nil, a.gate.refusal(c.partition)
	}
	return c, nil
}

// choose picks a partition for a submit without a key: an open one, with the shortest waiting list; among equals they
// take turns, so that each fills its own part of the capacity evenly. One that refused a submit like it a moment ago is
// passed over; when all did, one is asked all the same, but only if none was before (asked is nil): so a full queue
// costs a refused submit one question, not one per partition. nil = none.
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
		if c.lately.why(s) != nil {
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

// noRoom is what a FULL means: of the tier's share of the capacity, or of the living jobs.
func noRoom(reply job.SubmitReply) error {
	if reply.Living {
		return job.ErrLivingFull
	}
	return job.ErrQueueFull
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
	of  map[likes]error
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
		r.of = map[likes]error{}
		time.AfterFunc(shortMemory, r.forget)
	}
	if len(r.of) < mostRefusals {
		r.of[what] = why
	}
	r.any.Store(true)
}

func (r *refusals) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of = nil
	r.any.Store(false)
}

// why is what the partition said to a submit like this one a moment ago, or nil.
func (r *refusals) why(s *job.Submission) error {
	if !r.any.Load() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if why := r.of[roomOf(s)]; why != nil || s.Quota <= 0 || s.Owner == "" {
		return why
	}
	return r.of[likes{owner: s.Owner}]
}
