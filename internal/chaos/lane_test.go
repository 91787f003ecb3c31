package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
)

// Only a fault that landed counts: not one that missed, not one that was interrupted; and one that cannot be injected ends the run.
func TestLane(t *testing.T) {
	for _, tc := range []struct {
		name                   string
		err                    error
		over                   bool // the faults were over before it came back
		landed, missed, broken int
	}{
		{name: "landed", landed: 1},
		{name: "missed", err: errMissed, missed: 1},
		{name: "found elsewhere", err: errElsewhere},
		{name: "interrupted", err: errors.New("no connection"), over: true, missed: 1},
		{name: "over, and landed", over: true, landed: 1},
		{name: "impossible", err: errors.New("no connection"), broken: 1},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		c := &cluster{counts: map[string]*tally{}, abort: cancel}
		l := &lane{c: c, lock: &sync.Mutex{}, target: "redis", rng: rand.New(rand.NewPCG(1, 1))}
		l.once(ctx, kind{id: "F13", what: "frozen", inject: func(context.Context, *wound) (string, error) {
			if tc.over {
				cancel()
			}
			return "evidence", tc.err
		}})
		got := c.tallyOf("F13", "frozen")
		if len(c.faults) != tc.landed || got.landed != tc.landed || got.missed != tc.missed || (c.broken != nil) != (tc.broken > 0) {
			t.Errorf("%s: %d faults, %+v, broken off: %v", tc.name, len(c.faults), got, c.broken)
		}
		cancel()
	}
}

// A deck has every kind, as often as it weighs, and the seed has the order.
func TestDeck(t *testing.T) {
	draw := func(seed uint64) (ids []string) {
		l := &lane{c: &cluster{}, rng: rand.New(rand.NewPCG(seed, 1)), kinds: []kind{{id: "F01", weight: 3}, {id: "F10"}, {id: "F11"}, {id: "F12"}}}
		for range 6 {
			ids = append(ids, l.draw().id)
		}
		return ids
	}
	counts := map[string]int{}
	for _, id := range draw(1) {
		counts[id]++
	}
	if counts["F01"] != 3 || counts["F10"] != 1 || counts["F11"] != 1 || counts["F12"] != 1 {
		t.Errorf("a deck has %v", counts)
	}
	one, again := draw(2), draw(2)
	for i := range one {
		if one[i] != again[i] {
			t.Errorf("the same seed draws %v and %v", one, again)
			break
		}
	}
}
