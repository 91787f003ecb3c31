package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/chaos/client"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// Only a fault that has landed counts as a fault. A fault that missed or was interrupted counts as missed, and a
// fault that cannot be injected ends the run.
func TestLane(t *testing.T) {
	for _, tc := range []struct {
		name                   string
		err                    error
		over                   bool // the faults were over before it returned
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
		if len(c.faults) != tc.landed || got.landed != tc.landed || got.missed != tc.missed ||
			(c.broken != nil) != (tc.broken > 0) {
			t.Errorf("%s: %d faults, %+v, broken off: %v", tc.name, len(c.faults), got, c.broken)
		}
		cancel()
	}
}

// Every kind that freezes a server is marked with freezes, and its fault names the frozen server.
func TestFreezes(t *testing.T) {
	c := &cluster{counts: map[string]*tally{}, Options: Options{Over: 3 * time.Minute}}
	s := &server{c: c, port: 1}
	s.process = alive(t)
	l := &lane{c: c, s: s, lock: &sync.Mutex{}, rng: rand.New(rand.NewPCG(1, 1))}
	for _, k := range slices.Concat(c.ofServers(), ofEmbedded()) {
		if k.freezes != strings.Contains(k.what, "frozen") {
			t.Errorf("%s %s: freezes is %t", k.id, k.what, k.freezes)
		}
		k.inject = func(context.Context, *wound) (string, error) { return "evidence", nil }
		l.once(t.Context(), k)
		if f := c.faults[len(c.faults)-1]; f.Froze != "" != k.freezes || k.freezes && f.Froze != s.base() {
			t.Errorf("%s %s: it froze %q", k.id, k.what, f.Froze)
		}
	}
}

// The op of a fault's submit names the server that it was sent to.
func TestSubmitNamesItsServer(t *testing.T) {
	c := &cluster{}
	c.servers = []*server{{c: c, port: 1}}
	w := &wound{cluster: c, rng: rand.New(rand.NewPCG(1, 1))}
	op := w.submit(t.Context(), job.Paid, client.Payload{Key: "k"}, time.Second)
	if base := c.bases()[0]; op.Server != base || c.ops[0].Server != base {
		t.Errorf("sent to %s: %+v", base, op)
	}
}

// alive returns a process that does nothing.
func alive(t *testing.T) *testkit.Process {
	t.Helper()
	p, err := testkit.LaunchProcess("sleep", nil, "60")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() }) // it may have ended
	return p
}

// A deck has every kind as often as its weight says, and the seed decides the order.
func TestDeck(t *testing.T) {
	draw := func(seed uint64) (ids []string) {
		l := &lane{c: &cluster{}, rng: rand.New(rand.NewPCG(seed, 1)),
			kinds: []kind{{id: "F01", weight: 3}, {id: "F10"}, {id: "F11"}, {id: "F12"}}}
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
