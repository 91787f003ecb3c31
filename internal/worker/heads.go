package worker

import (
	"math"
	"time"
)

// partitionHead is what the claimer knows of one partition.
type partitionHead struct {
	score   float64   // of the best job it had left when it was last looked at: unknown if something may have become ready since, none if it was empty
	looked  time.Time // when that was
	away    bool      // a call is out that was not answered in time, or it rests: nothing is asked of it
	blocked bool      // it takes no endings: it gets no more work before it does
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
	// lastArrival bounds all arrivals (ms; the year 2096): with a larger base no job of a worse tier ever comes before one of a better tier.
	lastArrival = 4e12
	// lookShare and leastGood say how old a head may be, and so for how long a better job that another process submits can go unseen while this
	// one claims elsewhere: each partition is looked at anew, about 500 times a second over all of them.
	lookShare = 2 * time.Millisecond
	leastGood = 10 * time.Millisecond
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

// next is what to ask now: one partition to take jobs from, up to a score; or several to look at only (the bound takes nothing then). Nobody,
// if no partition that can be asked has anything.
//
// With all heads known the best one's partition gives what goes before the second best head, and with strict tiers also the rest of its own
// tier: inside a tier jobs of several partitions may then overtake each other, by a claim's worth at most, and claims stay large. One
// unknown head is asked for what goes before all the others.
func (h *heads) next(now time.Time) (ask []int, bound float64) {
	best, first, second := -1, none, none
	for i := range h.all {
		p := &h.all[i]
		switch {
		case p.away || p.blocked:
		case p.score == unknown || len(h.all) > 1 && now.Sub(p.looked) > h.good:
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
		return ask, first
	case best < 0:
		return nil, none
	}
	bound = second
	if h.step > 0 {
		bound = max(bound, (math.Floor(first/h.step)+1)*h.step-1)
	}
	return []int{best}, bound
}

// learn keeps what a partition said.
func (h *heads) learn(partition int, score float64, now time.Time) {
	h.all[partition].score, h.all[partition].looked = score, now
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
