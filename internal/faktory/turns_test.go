package faktory

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// gated keeps claims until its gate is open.
type gated struct {
	*world
	gate    chan struct{}
	entered atomic.Int32
}

func (g *gated) Claim(ctx context.Context, c job.WorkerClaim) ([]job.WorkerLease, error) {
	g.entered.Add(1)
	<-g.gate
	return g.world.Claim(ctx, c)
}

// Workers that get jobs take turns: those that wait for theirs gather their FETCHes in one claim.
func TestFetch_BusyWorkersTakeTurns(t *testing.T) {
	w := newWorld(t)
	open := make(chan struct{})
	close(open)
	g := &gated{world: w, gate: open}
	s := w.serve(func(c *Config) { c.Leases = g })
	var clients []*client // the first connection of each worker, then the second
	for i := range 8 {
		clients = append(clients, dial(t, s, fmt.Sprintf(`"wid":"w%d",`, i%4)))
	}
	for i, c := range clients[:4] {
		jid := fmt.Sprintf("first-job-%d", i)
		c.pushes(jid)
		c.fetches(jid)
	}
	for i := range 8 {
		clients[0].pushes(fmt.Sprintf("later-job-%d", i))
	}
	g.gate = make(chan struct{})
	g.entered.Store(0)
	var asking sync.WaitGroup
	got := make([]string, len(clients))
	ask := func(from, to int) {
		for i := from; i < to; i++ {
			asking.Go(func() { got[i] = clients[i].asks("FETCH default") })
		}
		eventually(t, "the FETCHes wait", func() bool {
			s.fetchers.mu.Lock()
			defer s.fetchers.mu.Unlock()
			waiting := 0
			for _, one := range s.fetchers.all {
				waiting += len(one.waiting)
			}
			return waiting == to
		})
	}
	ask(0, 4)
	eventually(t, "two claims are under way", func() bool { return g.entered.Load() == mostTurns })
	ask(4, 8)
	if n := g.entered.Load(); n != mostTurns {
		t.Errorf("%d claims are under way", n)
	}
	close(g.gate)
	asking.Wait()
	for i, text := range got {
		if !strings.HasPrefix(text, `{"jid":"later-job-`) {
			t.Errorf("FETCH %d got %q", i, text)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	pairs := 0
	for _, c := range w.claims {
		if c.Max == 2 {
			pairs++
		}
	}
	if pairs < 2 {
		t.Errorf("%d claims are of two FETCHes", pairs)
	}
}

// A worker that finds no job any more waits for one without a turn: it holds up no other.
func TestFetch_NoTurnWithoutJobs(t *testing.T) {
	w := newWorld(t)
	s := w.serve()
	var idle []*client
	for i := range 2 * (mostTurns + 1) {
		idle = append(idle, dial(t, s, fmt.Sprintf(`"wid":"w%d",`, i/2)))
	}
	for i := 0; i < len(idle); i += 2 {
		jid := fmt.Sprintf("first-job-%d", i)
		idle[i].pushes(jid)
		idle[i].fetches(jid)
	}
	var asking sync.WaitGroup
	got := make([]string, mostTurns+1)
	for i := range got {
		asking.Go(func() { got[i] = idle[2*i].asks("FETCH default") })
	}
	eventually(t, "all wait, and none has a turn", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		waits := 0
		for _, c := range w.claims[mostTurns+1:] {
			if c.Wait > 0 {
				waits++
			}
		}
		return waits == mostTurns+1 && len(s.turns) == 0
	})
	for i := range got {
		idle[1].pushes(fmt.Sprintf("later-job-%d", i))
	}
	asking.Wait()
	for i, text := range got {
		if !strings.HasPrefix(text, `{"jid":"later-job-`) {
			t.Errorf("FETCH %d got %q", i, text)
		}
	}
}
