package sim

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// kind is what a call at the gate wants.
type kind int

const (
	toRedis kind = iota
	toSQL
	inside // a handler that begins or returns, a process that has stopped: no store hears of it
)

// call is something a goroutine of a process wants to do. It waits at the gate until the scheduler answers it, or its
// context ends.
type call struct {
	proc   *process
	kind   kind
	name   string   // the script, or what else it is
	args   []string // a script's KEYS and ARGV, a command's words
	keys   int      // how many of args are KEYS
	source string   // of a script that is sent whole
	do     func() (any, error)
	line   string // calls of one line follow each other: claims, completions, ...
	answer chan answer

	// The scheduler's.
	seen time.Time // when it was first looked at
	hold time.Time // not before

	wakes string // what ends hold early: see sight
}

type answer struct {
	reply any
	err   error
}

// gate is where calls wait.
type gate struct {
	mu      sync.Mutex
	waiting []*call
	left    []*call // submits whose callers have left: some may have been sent
}

// pass waits until the scheduler answers, or ctx ends: then nothing was done.
func (g *gate) pass(ctx context.Context, c *call) (any, error) {
	c.answer = make(chan answer, 1)
	g.mu.Lock()
	if c.proc.dead {
		g.mu.Unlock()
		return nil, errDead
	}
	g.waiting = append(g.waiting, c)
	g.mu.Unlock()
	select {
	case a := <-c.answer:
		return a.reply, a.err
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(w *call) bool { return w == c })
	if c.name == "submit" || c.ofJournal() {
		g.left = append(g.left, c)
	}
	return nil, context.Cause(ctx)
}

// take removes a call from the gate; the caller answers it.
func (g *gate) take(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(w *call) bool { return w == c })
}

// sorted are the calls that wait, in an order that does not depend on who came first. It is called while everybody
// waits.
func (g *gate) sorted() []*call {
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortFunc(g.waiting, compare)
	return slices.Clone(g.waiting)
}

func compare(a, b *call) int {
	if c := strings.Compare(a.proc.nonce, b.proc.nonce); c != 0 {
		return c
	}
	if c := strings.Compare(a.name, b.name); c != 0 {
		return c
	}
	return slices.Compare(a.args, b.args)
}

// abandoned are the submits whose callers have left since the last time.
func (g *gate) abandoned() []*call {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := g.left
	g.left = nil
	slices.SortFunc(left, compare)
	return left
}

// bury makes a process dead: what it calls from now on fails at once. It returns what it had at the gate.
func (g *gate) bury(p *process) []*call {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.dead = true
	var its []*call
	g.waiting = slices.DeleteFunc(g.waiting, func(c *call) bool {
		if c.proc == p {
			its = append(its, c)
		}
		return c.proc == p
	})
	slices.SortFunc(its, compare)
	return its
}

// back puts a call back that was taken.
func (g *gate) back(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, c)
}
