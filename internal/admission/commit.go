package admission

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

const (
	callTimeout = 600 * time.Millisecond
	// gatherFor is how long the first entry of a call waits at most for the callers that the last call answered.
	gatherFor = 200 * time.Microsecond
	// callLimit is when a call that ignores its deadline is abandoned, and the next call is made without waiting for
	// it.
	callLimit = callTimeout + 50*time.Millisecond
)

// committer sends the submits of one partition: all waiting submits go into one call, and those that arrive
// meanwhile into the next. A single submit is sent at once. After a call that many callers wanted to be part of, the
// next one waits for most of them, because a call costs Redis more than thirty entries in it.
type committer struct {
	partition int
	queue     Queue
	gate      *Gate
	room      *room
	log       *slog.Logger
	group     *sync.WaitGroup

	elsewhere func(e *entry) bool // another partition may take an entry that this one did not; nil = there is no other
	lately    refusals
	remembers bool // lately is in use

	load atomic.Int64 // submits without an answer

	mu       sync.Mutex
	work     *sync.Cond // signals that entries wait, or stopping
	waiting  loop.Batcher[*entry]
	pausing  int  // groups of entries that come back to the list after a pause
	holding  bool // the last call failed: nothing is sent before its entries are back, which go first
	arrivals uint64
	stopping bool

	enough int         // with so many entries the next call is made at once
	waited bool        // an entry of the next call has waited for gatherFor
	waiter *time.Timer // sets waited; nil = it does not run
}

func newCommitter(partition int, o Options, room *room, group *sync.WaitGroup) *committer {
	c := &committer{partition: partition, queue: o.Queue, gate: o.Gate, room: room, group: group, log: o.Log}
	c.work = sync.NewCond(&c.mu)
	c.waiting = loop.Batcher[*entry]{
		MaxEntries: job.MaxBatch, MaxBytes: job.MaxBatchBytes, Size: (*entry).size, Compare: (*entry).order,
	}
	return c
}

// start runs one loop. A second loop runs only besides an abandoned call.
func (c *committer) start() {
	c.group.Go(func() {
		for batch := c.take(); batch != nil; batch = c.take() {
			if !c.call(batch) {
				return
			}
		}
	})
}

func (c *committer) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
	c.work.Broadcast()
}

// add puts entries into the list, in their order. It skips an entry that was answered because its caller left.
func (c *committer) add(entries ...*entry) {
	c.load.Add(int64(len(entries)))
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range entries {
		switch {
		case e.answered:
			continue
		case c.stopping:
			c.settle(e, refuse(job.ErrUnhealthy, 0))
			continue
		}
		c.arrivals++
		e.arrival = c.arrivals
		c.waiting.Add(e)
	}
	c.work.Signal()
}

// leave ends the wait for an entry without an answer, because its caller left (why) or its patience is over (nil).
// An entry that was not sent never will be.
func (c *committer) leave(e *entry, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting.Remove(func(other *entry) bool { return other == e })
	switch {
	case why != nil:
		c.settle(e, why)
	case e.sent:
		c.settle(e, job.ErrFateUnknown)
	default:
		c.settle(e, refuse(job.ErrUnhealthy, 0))
	}
}

// take waits for entries and takes as many as fit into one call. While the gate is closed it refuses entries that
// were never sent; entries that may have been executed are still sent again. It returns nil when the committer has
// stopped and nothing waits.
func (c *committer) take() []*entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for c.waiting.Len() == 0 || c.holding || c.gathers() {
			if c.stopping && c.pausing == 0 {
				return nil
			}
			c.work.Wait()
		}
		batch := c.waiting.Next(nil, nil)
		if !c.gate.OpenAt(c.partition) {
			batch = c.turnAway(batch)
		}
		for _, e := range batch {
			e.sent = true
		}
		if len(batch) > 0 {
			return batch
		}
	}
}

// gathers says whether the next call waits for more entries. The caller holds the lock.
func (c *committer) gathers() bool {
	if c.waiting.Len() < c.enough && !c.waited && !c.stopping {
		if c.waiter == nil {
			c.waiter = time.AfterFunc(gatherFor, c.waitedLong)
		}
		return true
	}
	if c.waiter != nil {
		c.waiter.Stop()
	}
	c.waiter, c.waited = nil, false
	return false
}

func (c *committer) waitedLong() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waited = c.waiter != nil
	c.work.Broadcast()
}

// expect sets, after a call to the database, how many entries the next call waits for: three quarters of the entries
// without an answer. A caller that sends one submit after the other sends its next one soon.
func (c *committer) expect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enough = min(int(c.load.Load())*3/4, job.MaxBatch)
}

// turnAway refuses the entries of a batch that were not sent before, and returns the others. The caller holds the
// lock.
func (c *committer) turnAway(batch []*entry) (sent []*entry) {
	sent = batch[:0]
	for _, e := range batch {
		if e.sent {
			sent = append(sent, e)
			continue
		}
		c.refuse(e, c.gate.refusal(c.partition))
	}
	return sent
}

// call makes one call and settles its entries. The call has its own deadline, so that a client that leaves does
// not cancel the submits of others. If the call outlasts even that deadline, another loop takes over and call
// returns false.
func (c *committer) call(batch []*entry) bool {
	open := make([]bool, len(batch)) // an earlier copy may have been executed
	submissions := make([]job.Submission, len(batch))
	for i, e := range batch {
		open[i] = e.priority == inDoubtPriority
		submissions[i] = e.submission
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	watchdog := time.AfterFunc(callLimit, func() {
		err := fmt.Errorf("submit ignored its deadline of %s: %w", callTimeout, job.ErrAmbiguous)
		c.gate.Observe(c.partition, err)
		c.settleAll(batch, open, nil, err)
		c.start()
	})
	replies, err := c.queue.Submit(ctx, c.partition, submissions)
	if !watchdog.Stop() {
		return false
	}
	c.expect()
	c.settleAll(batch, open, replies, err)
	return true
}
