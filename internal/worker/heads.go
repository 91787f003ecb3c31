package worker

import (
	"math"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// partitionHead is the claimer's knowledge of one partition.
type partitionHead struct {
	// score of the best job left at the last look: unknown if a job may have become ready since, none if the queue
	// was empty
	score   float64
	looked  time.Time     // when score was read
	asked   time.Time     // when the partition was last asked
	took    time.Duration // how long the last answer took
	away    bool          // a call is not answered yet, or the partition rests: it is not asked
	blocked bool          // the partition accepts no endings: it gets no more work until it does
	passed  bool          // at the last look there were jobs for which the process had no slots
}

// heads knows which partition has the best job.
type heads struct {
	all  []partitionHead
	step float64       // score step between tiers if tiers are strict, otherwise 0
	good time.Duration // how long a look is valid while no waiter is at the doorbells
	// turns says that inside a tier the partitions take turns, because the scores of lines in two partitions do not
	// compare: a tag counts the worker time that its own partition has handed out.
	turns bool
}

var (
	unknown = math.Inf(-1)
	none    = math.Inf(1)
)

const (
	// lastArrival is above all arrivals (ms; the year 2096): with a larger base no job of a worse tier ever comes
	// before a job of a better tier.
	lastArrival = 4e12
	// lookShare and leastGood bound how old a head may be while answers are quick: each partition is looked at again,
	// about 500 times a second over all partitions. The age is also for how long a better job that another process
	// submitted can go unseen while this process claims elsewhere.
	lookShare = 2 * time.Millisecond
	leastGood = 10 * time.Millisecond
	// goodRounds is for how many rounds over all partitions, at its own answer time, a partition's head is valid at
	// least. If Redis is slow, most rounds must still claim jobs, and a single slow partition must not delay all
	// others.
	goodRounds = 4
	// mostLooks is how many partitions are looked at in parallel: at most half of the connections for claims and
	// endings.
	mostLooks = 6
)

func newHeads(partitions int, base int64) heads {
	h := heads{all: make([]partitionHead, partitions), good: max(time.Duration(partitions)*lookShare, leastGood)}
	if base > lastArrival {
		h.step = float64(base)
	}
	for i := range h.all {
		h.all[i].score = unknown
	}
	return h
}

// next returns which partitions to ask now: one partition to claim from, up to the score bound; or several
// partitions only to look at, with a bound below every score. ask is nil if no partition that can be asked has a
// job.
//
// If all heads are known, next returns the partition with the best head. The bound is the second best head or,
// with strict tiers, at least the end of the best head's tier. Inside a tier jobs of several partitions may then
// overtake each other, by one claim at most, but claims stay large. If one head is unknown, next returns its
// partition. The bound is then the best known head or, with strict tiers, the end of that head's tier.
func (h *heads) next(now time.Time) (ask []int, bound float64) {
	best, first, second := -1, none, none
	rounds := goodRounds * ((len(h.all) + mostLooks - 1) / mostLooks)
	for i := range h.all {
		p := &h.all[i]
		switch {
		case p.away || p.blocked:
		case p.score == unknown || len(h.all) > 1 && now.Sub(p.looked) > max(h.good, time.Duration(rounds)*p.took):
			if len(ask) < mostLooks {
				ask = append(ask, i)
			}
		case p.score != none && (best < 0 || h.isBefore(p, &h.all[best])):
			best, first, second = i, p.score, min(first, second)
		default:
			second = min(second, p.score)
		}
	}
	switch {
	case len(ask) > 1:
		return ask, unknown
	case len(ask) == 1:
		return ask, h.tierEnd(first, first)
	case best < 0:
		return nil, none
	}
	return []int{best}, h.tierEnd(first, second)
}

// isBefore says whether a partition is asked before another one.
func (h *heads) isBefore(p, other *partitionHead) bool {
	if !h.turns || h.step == 0 {
		return p.score < other.score
	}
	tier, others := math.Floor(p.score/h.step), math.Floor(other.score/h.step)
	return tier < others || tier == others && p.asked.Before(other.asked)
}

// tierEnd returns the last score of the tier that score belongs to, if tiers are strict and that is above bound;
// otherwise bound.
func (h *heads) tierEnd(score, bound float64) float64 {
	if h.step > 0 && score != none {
		return max(bound, (math.Floor(score/h.step)+1)*h.step-1)
	}
	return bound
}

// ask records that a partition is asked now. It is away until it answers.
func (h *heads) ask(partition int, now time.Time) {
	h.all[partition].away, h.all[partition].asked = true, now
}

// learn stores a partition's answer.
func (h *heads) learn(partition int, reply *job.ClaimReply, now time.Time) {
	p := &h.all[partition]
	p.score, p.looked, p.passed = reply.Next, now, reply.PassedOver
	if !p.asked.IsZero() {
		p.took = now.Sub(p.asked)
	}
}

// forget marks an empty partition as unknown, because a job may have become ready.
func (h *heads) forget(partition int) {
	if h.all[partition].score == none {
		h.all[partition].score = unknown
	}
}

// listened records that the waiters were at the doorbells of the empty partitions until now and got no token. A
// partition where jobs were passed over has no waiter, and is unknown.
func (h *heads) listened(now time.Time) {
	for i := range h.all {
		switch p := &h.all[i]; {
		case p.score == none && p.passed:
			p.score = unknown
		case p.score == none:
			p.looked = now
		}
	}
}

// passedOver says whether a partition that can be asked has jobs for which the process had no slots, and no others.
func (h *heads) passedOver() bool {
	return slices.ContainsFunc(h.all, func(p partitionHead) bool {
		return p.passed && p.score == none && !p.away && !p.blocked
	})
}
