package admission

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// This file decides which partition a submit goes to. Each partition has its part of the capacity and of the
// quotas, and may be on a server of its own. A submit without an Idempotency-Key may go to any partition. If that
// partition certainly did not take it (full, over the quota, gate closed, not executed), the submit goes on to
// another, to each at most once, and is refused when none is left. A submit with an Idempotency-Key or a unique key
// stays in its home partition: only there a repeat is recognized, and the job that has the unique key is found.

// partitionSet is a set of partitions, of which there are at most 256.
type partitionSet [4]uint64

func (s *partitionSet) add(p int)      { s[p>>6] |= 1 << (p & 63) }
func (s *partitionSet) has(p int) bool { return s[p>>6]&(1<<(p&63)) != 0 }

// place returns the committer that a submit goes to, or the error if there is none. before is the submit's entry
// in the partition that it moves from, or nil.
func (a *Admission) place(s *job.Submission, before *entry) (*committer, error) {
	var c *committer
	if before != nil {
		if c = a.choose(s, &before.asked); c == nil {
			return nil, before.err
		}
	} else if key := s.Home(); key != "" {
		c = a.committers[job.Home(key, len(a.committers))]
	} else if c = a.choose(s, nil); c == nil {
		return nil, a.gate.refusal(wholeGate)
	}
	if !a.gate.OpenAt(c.partition) {
		return nil, a.gate.refusal(c.partition)
	}
	return c, nil
}

// choose picks a partition for a submit without a key: an open one with the shortest waiting list. Among equals
// they take turns, so that the parts of the capacity fill evenly. It skips a partition that refused a similar
// submit a moment ago. If all did, one of them is asked all the same, but only if none was asked before (asked is
// nil): so a full queue costs a refused submit one call, not one per partition. nil means that there is none.
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

// noRoom returns the error of a FULL: the tier's share of the capacity is used up, or the limit of living jobs is
// reached.
func noRoom(reply job.SubmitReply) error {
	switch {
	case reply.Living:
		return job.ErrLivingFull
	case reply.Queue:
		return job.ErrOwnLimit
	case reply.Line:
		return job.ErrLineFull
	}
	return job.ErrQueueFull
}

const (
	// shortMemory is how long a partition's refusal counts for similar submits.
	shortMemory = 100 * time.Millisecond
	// mostRefusals bounds the remembered refusals; others are forgotten, and their submits sent.
	mostRefusals = 1000
)

// likes is what similar submits have in common: their tier, their queue and whether they are delayed, or their
// owner.
type likes struct {
	tier    job.Tier
	queue   string
	delayed bool
	owner   string
}

// refusals remembers for a moment which kinds of submits a partition has refused.
type refusals struct {
	any atomic.Bool
	mu  sync.Mutex
	of  map[likes]error
}

func roomOf(s *job.Submission) likes {
	if s.Delayed() {
		return likes{tier: s.Tier, queue: s.Queue, delayed: true}
	}
	return likes{tier: s.Tier, queue: s.Queue}
}

func (r *refusals) note(s *job.Submission, why error) {
	if errors.Is(why, job.ErrLineFull) {
		return // other keys have room
	}
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

// why returns the partition's error for a similar submit a moment ago, or nil.
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
