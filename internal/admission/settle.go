package admission

import (
	"errors"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// settleAll answers the entries of a call, or schedules them to be sent again after a pause.
func (c *committer) settleAll(batch []*entry, open []bool, replies []job.SubmitReply, err error) {
	if err == nil && len(replies) != len(batch) {
		err = fmt.Errorf("submit gave %d answers for %d entries", len(replies), len(batch))
	}
	unavailable := errors.Is(err, job.ErrUnavailable)
	failed := unavailable || errors.Is(err, job.ErrAmbiguous)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !failed {
		c.isolate(batch, open, err)
		return
	}
	var resend []*entry
	for i, e := range batch {
		var reply job.SubmitReply
		if err == nil {
			reply = replies[i]
		}
		if unavailable {
			e.refused++
		}
		step := decide(reply, unavailable, open[i], e.refused)
		switch step {
		case accept:
			if !e.answered {
				e.arrived, e.answer = reply.ArrivedAt, reply.Word
			}
			c.settle(e, nil)
			continue
		case replay:
			if !e.answered {
				e.first = reply.First
			}
			c.settle(e, nil)
			continue
		case standIn:
			if !e.answered {
				e.first, e.answer, e.due = reply.First, reply.Word, reply.Due
			}
			c.settle(e, nil)
			continue
		case taken:
			c.settle(e, &job.TakenError{ID: reply.First})
			continue
		case mismatch:
			c.settle(e, job.ErrMismatch)
			continue
		case full:
			c.refuse(e, noRoom(reply))
			continue
		case quota:
			c.refuse(e, job.ErrQuota)
			continue
		case unhealthy:
			c.refuse(e, refuse(job.ErrUnhealthy, 0))
			continue
		case again:
			if e.sent = false; unavailable && c.mayMove(e) {
				c.refuse(e, refuse(job.ErrUnhealthy, 0))
				continue
			}
		case inDoubt:
			e.priority = inDoubtPriority
		}
		resend = append(resend, e)
	}
	if len(resend) > 0 {
		c.pausing++
		c.holding = c.holding || failed
		time.AfterFunc(pause, func() { c.resume(resend, failed) })
	}
}

// refuse answers an entry that this partition certainly did not take. If another partition may take it, e.moves is
// set and its caller moves it there. The caller holds the lock.
func (c *committer) refuse(e *entry, err error) {
	noRoom := errors.Is(err, job.ErrQueueFull) || errors.Is(err, job.ErrQuota)
	if noRoom && c.remembers {
		c.lately.note(&e.submission, err)
	}
	if !e.answered {
		e.moves = c.mayMove(e)
	}
	c.settle(e, err)
}

// mayMove says whether another partition may take an entry. An entry with an Idempotency-Key or a unique key stays:
// only at home a repeat, and the key's holder, are found.
func (c *committer) mayMove(e *entry) bool {
	return c.elsewhere != nil && e.submission.Home() == "" && c.elsewhere(e)
}

// isolate handles an error that is caused by the content of a call. Each entry is sent again alone, so that only
// the faulty one fails; a single entry that failed is not sent again. The caller holds the lock.
func (c *committer) isolate(batch []*entry, open []bool, err error) {
	c.log.Error("submit failed for what is in it", "entries", len(batch), "err", err)
	for i, e := range batch {
		unsent := errors.Is(err, job.ErrUnknownTier) && !open[i] // the tier was removed meanwhile; the call was not made
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
			c.waiting.Add(e)
		}
	}
}

// resume puts entries back into the list, except those whose caller has left.
func (c *committer) resume(entries []*entry, failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pausing--
	if failed {
		c.holding = false
	}
	for _, e := range entries {
		if !e.answered {
			c.waiting.Add(e)
		}
	}
	c.work.Broadcast()
}

// settle gives an entry its answer; only the first answer counts. The caller holds the lock.
func (c *committer) settle(e *entry, err error) {
	if e.answered {
		return
	}
	switch {
	case e.why == nil && (errors.Is(err, job.ErrQueueFull) || errors.Is(err, job.ErrQuota)):
		e.why = err
	case e.why != nil && errors.Is(err, job.ErrUnhealthy):
		err = e.why // the refusal of an earlier full partition says more than a partition that could not be asked
	}
	e.answered, e.err = true, err
	c.load.Add(-1)
	c.room.give()
	e.who.answered()
}
