package admission

import (
	"errors"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// settleAll answers the entries of a call, or sends them elsewhere, or again after a pause.
func (c *committer) settleAll(batch []*entry, open []bool, replies []job.SubmitReply, err error) {
	deliver(c.sort(batch, open, replies, err))
}

// sort is settleAll but for those that it returns: they have gone to other committers.
func (c *committer) sort(batch []*entry, open []bool, replies []job.SubmitReply, err error) (moved []*entry) {
	if err == nil && len(replies) != len(batch) {
		err = fmt.Errorf("submit gave %d answers for %d entries", len(replies), len(batch))
	}
	unavailable := errors.Is(err, job.ErrUnavailable)
	failed := unavailable || errors.Is(err, job.ErrAmbiguous)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !failed {
		c.isolate(batch, open, err)
		return nil
	}
	var resend []*entry
	var k kept
	for i, e := range batch {
		var reply job.SubmitReply
		if err == nil {
			reply = replies[i]
		}
		if unavailable {
			e.refused++
		}
		step := decide(reply, unavailable, open[i], e.refused)
		if why, certain := refused(step, reply, unavailable); certain && c.moveOn(e, why) {
			moved = append(moved, e)
			continue
		}
		switch step {
		case accept:
			if c.journal == nil || !k.note(e, reply) {
				c.settle(e, nil)
			}
			continue
		case replay:
			if !e.answered {
				e.first = reply.First
			}
			if c.journal == nil {
				c.settle(e, nil)
			} else {
				k.replay(e, reply.First)
			}
			continue
		case mismatch:
			c.settle(e, job.ErrMismatch)
			continue
		case full:
			c.settle(e, noRoom(reply))
			continue
		case quota:
			c.settle(e, job.ErrQuota)
			continue
		case unhealthy:
			c.settle(e, refuse(job.ErrUnhealthy, 0))
			continue
		case again:
			e.sent = false
		case inDoubt:
			e.priority = inDoubtPriority
		}
		resend = append(resend, e)
	}
	if !k.empty() {
		c.group.Go(func() { c.keep(&k) })
	}
	if len(resend) > 0 {
		c.pausing++
		c.holding = c.holding || failed
		time.AfterFunc(pause, func() { c.resume(resend, failed) })
	}
	return moved
}

// isolate handles an error that is not the store's: something in the call is wrong. Each entry is sent again by itself, so that the
// others do not pay for one; which it is shows itself then, and sending it once more would not help. The lock is held.
func (c *committer) isolate(batch []*entry, open []bool, err error) {
	c.log.Error("submit failed for what is in it", "entries", len(batch), "err", err)
	for i, e := range batch {
		unsent := errors.Is(err, job.ErrUnknownTier) && !open[i] // the tier went away meanwhile; the call was not made
		switch {
		case len(batch) == 1 && unsent:
			c.settle(e, job.ErrUnknownTier)
		case len(batch) == 1:
			c.settle(e, fmt.Errorf("%w: %w", job.ErrFateUnknown, err))
		case !e.answered:
			e.alone = true
			if e.sent = !unsent; e.sent {
				e.priority = inDoubtPriority
			}
			c.waiting.add(e)
		}
	}
}

// resume puts entries back into the list, but for those whose caller has left meanwhile.
func (c *committer) resume(entries []*entry, failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pausing--
	if failed {
		c.holding = false
	}
	for _, e := range entries {
		if !e.answered {
			c.waiting.add(e)
		}
	}
	c.work.Broadcast()
}

// settle gives an entry its answer; only the first one counts. The lock is held.
func (c *committer) settle(e *entry, err error) {
	if e.answered {
		return
	}
	if e.why != nil && errors.Is(err, job.ErrUnhealthy) {
		err = e.why // who says that there is no room says more than who could not be asked
	}
	e.answered, e.err = true, err
	c.load.Add(-1)
	c.room.give(1)
	e.who.answered()
}
