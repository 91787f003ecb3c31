package leasing

import (
	"slices"
	"sync"
)

// waiters are the claims that wait for a job, in the order of their coming.
type waiters struct {
	mu   sync.Mutex
	line []*waiter
	of   []hearing // by partition
}

// waiter is one of them.
type waiter struct {
	holder string // the worker's name in tokens
	queues []string
	told   chan struct{} // holds one: an operator asks something of the worker
	woken  chan struct{} // holds one: there is a bell
	bell   *token        // what woke it, until it has acted on that
}

// token says that a queue of a partition may have a ready job. Without a doorbell's word it is a guess.
type token struct {
	partition int
	queue     string
	rang      bool
}

// hearing is what a partition's listener waits for.
type hearing struct {
	queues  []string      // those whose doorbells it waits at now
	changed chan struct{} // holds one: a claim waits for another queue
}

func newWaiters(partitions int) *waiters {
	w := &waiters{of: make([]hearing, partitions)}
	for p := range w.of {
		w.of[p].changed = make(chan struct{}, 1)
	}
	return w
}

// enter puts a claim at the end of the line.
func (w *waiters) enter(holder string, queues []string) *waiter {
	one := &waiter{holder: holder, queues: queues, told: make(chan struct{}, 1), woken: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line = append(w.line, one)
	w.hear(queues)
	return one
}

// hear tells the listeners that do not wait at the doorbells of some queues. w.mu is held.
func (w *waiters) hear(queues []string) {
	for p := range w.of {
		if !covers(w.of[p].queues, queues) {
			select {
			case w.of[p].changed <- struct{}{}:
			default:
			}
		}
	}
}

// covers says whether a set of queues has all of some.
func covers(set, some []string) bool {
	return !slices.ContainsFunc(some, func(q string) bool { return !slices.Contains(set, q) })
}

// leave takes a claim out of the line. It returns the doorbell's token that woke the claim, if the claim has not acted
// on it.
func (w *waiters) leave(one *waiter) *token {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := slices.Index(w.line, one); at >= 0 {
		w.line = slices.Delete(w.line, at, at+1)
	}
	if one.bell != nil && one.bell.rang {
		return one.bell
	}
	return nil
}

// awake returns what woke a claim, which acts on it now.
func (w *waiters) awake(one *waiter) token {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := *one.bell
	one.bell = nil
	w.hear(one.queues)
	return t
}

// wake wakes the first claim that waits for a queue and was not woken yet; a doorbell's token takes the place of a
// guess. It returns false if there is no such claim. A guess wakes no other claim than the first that waits for the
// queue.
func (w *waiters) wake(t token) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.line {
		switch {
		case !slices.Contains(one.queues, t.queue):
		case one.bell == nil:
			one.bell = &t
			one.woken <- struct{}{} // it has room: there was no bell
			return true
		case !t.rang:
			return false
		case !one.bell.rang:
			one.bell = &t
			return true
		}
	}
	return false
}

// listens returns the queues of the claims that wait and were not woken, each once. The listener of the partition then
// waits at their doorbells.
func (w *waiters) listens(partition int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, one := range w.line {
		if one.bell != nil {
			continue
		}
		for _, q := range one.queues {
			if !slices.Contains(all, q) {
				all = append(all, q)
			}
		}
	}
	w.of[partition].queues = all
	return all
}
