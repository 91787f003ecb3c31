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
	// callLimit is when a call that ignores its deadline is left to itself, and the next one is made without it.
	callLimit = callTimeout + 50*time.Millisecond
)

// committer sends the submits of one partition: whatever waits goes into one call, and what arrives meanwhile into the
// next one. There is no timer before a call, so one lonely submit waits for nobody.
type committer struct {
	partition int
	queue     Queue
	gate      *Gate
	room      *room
	log       *slog.Logger
	group     *sync.WaitGroup

	elsewhere func(e *entry) bool // another partition may take what this one did not; nil = there is no other
	lately    refusals
	remembers bool // lately is kept

	load atomic.Int64 // submits without an answer

	mu       sync.Mutex
	work     *sync.Cond // something waits, or stopping
	waiting  loop.Batcher[*entry]
	pausing  int  // groups of entries that come back to the list after a pause
	holding  bool // the last call failed: nothing is sent before its entries are back, which go first
	arrivals uint64
	stopping bool
}

func newCommitter(partition int, o Options, room *room, group *sync.WaitGroup) *committer {
	c := &committer{partition: partition, queue: o.Queue, gate: o.Gate, room: room, group: group, log: o.Log}
	c.work = sync.NewCond(&c.mu)
	c.waiting = loop.Batcher[*entry]{
		MaxEntries: job.MaxBatch, MaxBytes: job.MaxBatchBytes, Size: (*entry).size, Compare: (*entry).order,
	}
	return c
}

// start runs one loop. A second one runs only beside a call that was given up.
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

// add puts entries into the list, in their order. One whose caller has left meanwhile has its answer.
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

// leave ends the wait for an entry that has no answer yet, because its caller left (why) or its patience is over (nil).
// If it was never sent it never will be.
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

// take waits for work and takes what fits one call. While the gate is closed, what was never sent is refused instead;
// what may have been executed is asked about all the same. It returns nil when the committer has stopped and nothing
// waits any more.
func (c *committer) take() []*entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for c.waiting.Len() == 0 || c.holding {
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

// turnAway refuses those of a batch that were not sent before, and returns the others. The lock is held.
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

// call makes one call and settles its entries. The call's deadline is its own: a client that leaves does not take the
// others' job away. If the call outlasts even that, another loop takes over and call returns false.
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
	c.settleAll(batch, open, replies, err)
	return true
}
