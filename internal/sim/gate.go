package sim

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// kind says where a call at the gate goes.
type kind int

const (
	toRedis kind = iota
	toSQL
	inside // to no store: a handler that begins or returns, a process that has stopped
)

// call is one action of a process' goroutine. It waits at the gate until the scheduler answers it or its context
// ends.
type call struct {
	proc   *process
	kind   kind
	name   string   // the script, or the kind of the call
	args   []string // a script's KEYS and ARGV, or the words of a command
	keys   int      // how many of args are KEYS
	source string   // the text of a script that is sent whole
	do     func() (any, error)
	line   string // calls of one line follow each other: claims, completions, ...
	answer chan answer

	// The scheduler uses these fields.
	seen time.Time // when the scheduler first saw it
	hold time.Time // the call waits until then

	wakes string // the event that ends hold early: see sight
}

type answer struct {
	reply any
	err   error
}

// gate holds the calls that wait.
type gate struct {
	mu      sync.Mutex
	waiting []*call
	left    []*call // submits whose callers gave up: some may have been sent
}

// pass waits until the scheduler answers the call, or ctx ends. If ctx ends first, the call was not executed; the
// scheduler may still execute a submit or a transaction of the journal. A crash answers a process' calls and then
// ends their contexts, so that a caller can wake with both. It then takes the answer: a
// seed must always play in the same way.
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
	select {
	case a := <-c.answer:
		return a.reply, a.err
	default:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(w *call) bool { return w == c })
	if c.name == "submit" || c.ofJournal() {
		g.left = append(g.left, c)
	}
	return nil, context.Cause(ctx)
}

// take removes a call from the gate. The caller has to answer it.
func (g *gate) take(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(w *call) bool { return w == c })
}

// sorted returns the waiting calls in an order that does not depend on their arrival. It may only be called while
// all other goroutines wait.
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

// abandoned returns the submits whose callers gave up since the last call of it.
func (g *gate) abandoned() []*call {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := g.left
	g.left = nil
	slices.SortFunc(left, compare)
	return left
}

// bury makes a process dead: from now on its calls fail at once. It returns the process' calls that waited.
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

// back returns a call to the gate that take has removed.
func (g *gate) back(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, c)
}
