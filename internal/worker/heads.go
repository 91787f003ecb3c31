package worker

import (
	"math"
	"time"
)

// partitionHead is what the claimer knows of one partition.
type partitionHead struct {
	// of the best job it had left when it was last looked at: unknown if something may have become ready since, none if it
	// was empty
	score   float64
	looked  time.Time     // when that was
	asked   time.Time     // when it was last asked
	took    time.Duration // how long its last answer took
	away    bool          // a call is out that was not answered in time, or it rests: nothing is asked of it
	blocked bool          // it takes no endings: it gets no more work before it does
}

// heads says which partition has the best job.
type heads struct {
	all  []partitionHead
	step float64       // one tier's part of the scores, where tiers are strict; 0 where they are not
	good time.Duration // how long a look is good for while nobody listens at the doorbells
}

var (
	unknown = math.Inf(-1)
	none    = math.Inf(1)
)

const (
	// lastArrival bounds all arrivals (ms; the year 2096): with a larger base no job of a worse tier ever comes before one
	// of a better tier.
	lastArrival = 4e12
	// lookShare and leastGood say how old a head may be, and so for how long a better job that another process submits can
	// go unseen while this one claims elsewhere, while answers come quickly: each partition is looked at anew, about 500
	// times a second over all of them.
	lookShare = 2 * time.Millisecond
	leastGood = 10 * time.Millisecond
	// goodRounds is how many rounds of looking at everybody, at its own pace, a look at a partition is good for at least:
	// where Redis is slow most rounds must still be for taking jobs, and one slow partition must not have all the others
	// wait for it.
	goodRounds = 4
	// mostLooks is how many partitions are looked at at once: no more than half of the connections for claims and endings.
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

// next is what to ask now: one partition to take jobs from, up to a score; or several to look at only (the bound takes
// nothing then). Nobody, if no partition that can be asked has anything.
//
// With all heads known the best one's partition gives what goes before the second best head, and with strict tiers also
// the rest of its own tier: inside a tier jobs of several partitions may then overtake each other, by a claim's worth
// at most, and claims stay large. One unknown head is asked for what goes before all the others, and with strict tiers
// for the rest of the best one's tier.
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
		case p.score < first:
			best, first, second = i, p.score, first
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

// tierEnd is the end of the tier of a score, if tiers are strict and that is beyond the bound.
func (h *heads) tierEnd(score, bound float64) float64 {
	if h.step > 0 && score != none {
		return max(bound, (math.Floor(score/h.step)+1)*h.step-1)
	}
	return bound
}

// ask notes that a partition is asked now: until it answers it is away.
func (h *heads) ask(partition int, now time.Time) {
	h.all[partition].away, h.all[partition].asked = true, now
}

// learn keeps what a partition said.
func (h *heads) learn(partition int, score float64, now time.Time) {
	p := &h.all[partition]
	p.score, p.looked = score, now
	if !p.asked.IsZero() {
		p.took = now.Sub(p.asked)
	}
}

// forget marks a partition, if it was empty, as unknown: something may have become ready.
func (h *heads) forget(partition int) {
	if h.all[partition].score == none {
		h.all[partition].score = unknown
	}
}

// listened: somebody was at the doorbells of the empty partitions until now, and they did not ring.
func (h *heads) listened(now time.Time) {
	for i := range h.all {
		if h.all[i].score == none {
			h.all[i].looked = now
		}
	}
}
