package worker

import (
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

var lookedAt = time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)

func headsOf(base int64, scores ...float64) heads {
	h := newHeads(len(scores), base)
	for p, score := range scores {
		h.learn(p, &job.ClaimReply{Next: score}, lookedAt)
	}
	return h
}

func TestHeadsNext(t *testing.T) {
	const base = 10_000_000_000_000
	cases := []struct {
		name  string
		heads heads
		ask   []int
		bound float64
	}{
		{"one, unknown", headsOf(0, unknown), []int{0}, none},
		{"one, known", headsOf(base, base+7), []int{0}, none},
		{"one, empty", headsOf(0, none), nil, none},
		{"up to the second best", headsOf(0, 9, 3, 5), []int{1}, 5},
		{"the second best may come first", headsOf(0, 4, 3), []int{1}, 4},
		{"equal heads: either, with its equals", headsOf(0, 3, 3), []int{0}, 3},
		{"an unknown one is asked for what goes before the others", headsOf(0, 3, unknown, none), []int{1}, 3},
		{"several unknown are only looked at", headsOf(0, unknown, 2, unknown), []int{0, 2}, unknown},
		{"as many as there are connections for", headsOf(0, slices.Repeat([]float64{unknown}, 10)...),
			[]int{0, 1, 2, 3, 4, 5}, unknown},
		{"only one is not empty", headsOf(0, none, none, 8), []int{2}, none},
		{"all empty", headsOf(base, none, none), nil, none},
		{"strict: up to the end of its tier", headsOf(base, base+9, base+3, 2*base+1), []int{1}, 2*base - 1},
		{"strict: what goes before all others goes along", headsOf(base, base+9, 3*base+1), []int{0}, 3*base + 1},
		{"a small base bounds waiting: up to the second best", headsOf(300_000, 2e12, 2e12+1), []int{0}, 2e12 + 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if ask, bound := c.heads.next(lookedAt.Add(time.Millisecond)); !slices.Equal(ask, c.ask) || bound != c.bound {
				t.Errorf("next = %v, %v, want %v, %v", ask, bound, c.ask, c.bound)
			}
		})
	}
}

// Where tiers have lines the partitions of a tier take turns, whatever their scores; a better tier goes first.
func TestHeadsTakeTurns(t *testing.T) {
	const base = 10_000_000_000_000
	h := headsOf(base, base+9, base+3, 2*base+1, none)
	h.turns = true
	var asked []int
	for i := range 4 {
		ask, bound := h.next(lookedAt.Add(time.Millisecond))
		if len(ask) != 1 || bound != 2*base-1 {
			t.Fatalf("next = %v, %v", ask, bound)
		}
		asked = append(asked, ask...)
		h.all[ask[0]].asked = lookedAt.Add(time.Duration(1+i) * time.Microsecond)
	}
	if !slices.Equal(asked, []int{0, 1, 0, 1}) {
		t.Errorf("asked %v", asked)
	}
}

// A partition that is away or accepts no endings is not asked, and its head bounds no claim.
func TestHeadsLeaveTroubleAlone(t *testing.T) {
	h := headsOf(0, 3, 5, unknown, 9)
	h.all[0].away, h.all[2].blocked = true, true
	if ask, bound := h.next(lookedAt); !slices.Equal(ask, []int{1}) || bound != 9 {
		t.Errorf("next = %v, %v", ask, bound)
	}
}

// Heads expire, also those of empty partitions unless the doorbells were listened at, so that a busy pool sees the
// jobs that other processes submit.
func TestHeadsGrowOld(t *testing.T) {
	h := headsOf(0, 3, none, none)
	late := lookedAt.Add(h.good + 1)
	h.learn(0, &job.ClaimReply{Next: 4}, late)
	if ask, bound := h.next(late); !slices.Equal(ask, []int{1, 2}) || bound != unknown {
		t.Errorf("next = %v, %v, want a look at the two old ones", ask, bound)
	}
	h.listened(late)
	if ask, _ := h.next(late); !slices.Equal(ask, []int{0}) {
		t.Errorf("next = %v, want the one with a job: the doorbells did not ring", ask)
	}
	one := headsOf(0, none)
	if ask, _ := one.next(lookedAt.Add(time.Hour)); ask != nil {
		t.Errorf("a single partition has its doorbell, and was asked again: %v", ask)
	}
}

func TestHeadsForgetOnlyTheEmpty(t *testing.T) {
	h := headsOf(0, none, 3, unknown)
	for p := range h.all {
		h.forget(p)
	}
	if h.all[0].score != unknown || h.all[1].score != 3 || h.all[2].score != unknown {
		t.Errorf("heads = %v", h.all)
	}
}

// However slow Redis or one partition is, some rounds claim jobs: a head is valid for longer if answers take
// longer.
func TestHeadsOfSlowPartitions(t *testing.T) {
	const base = 10_000_000_000_000
	uniform := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
	for name, c := range map[string]struct {
		partitions int
		took       func(partition int) time.Duration
	}{
		"three, 12 ms": {3, uniform(12 * time.Millisecond)}, "eight, 17 ms": {8, uniform(17 * time.Millisecond)},
		"three, 50 ms": {3, uniform(50 * time.Millisecond)}, "64, 50 ms": {64, uniform(50 * time.Millisecond)},
		"one slow": {6, func(p int) time.Duration { return time.Duration(1+p/5*200) * time.Millisecond }},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeads(c.partitions, base)
			now, looks, takes, empty := lookedAt, 0, 0, c.partitions/3
			for range 400 {
				ask, bound := h.next(now)
				var longest time.Duration
				for _, p := range ask {
					h.ask(p, now)
					longest = max(longest, c.took(p))
				}
				for _, p := range ask {
					score := float64(base + 7) // the others have long queues
					if p < empty {
						score = none
					}
					h.learn(p, &job.ClaimReply{Next: score}, now.Add(c.took(p)))
					h.all[p].away = false
				}
				now = now.Add(longest)
				if len(ask) == 1 && ask[0] >= empty && bound > base {
					takes++
				} else {
					looks++
				}
			}
			if takes < looks/2 {
				t.Errorf("%d rounds took jobs, %d only looked", takes, looks)
			}
		})
	}
}
