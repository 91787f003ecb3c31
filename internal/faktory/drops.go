package faktory

import (
	"context"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// drops has the leases that leave the book because they ended, and the ends that the totals lack. One call is under
// way at a time: what comes meanwhile shares the next one. No worker waits for these calls: a lease that stays in the
// book is lost, and does nothing.
type drops struct {
	server *Server

	mu                  sync.Mutex
	refs                []job.HeldRef
	processed, failures int64
	busy                bool
	idle                chan struct{} // closed when nothing is left to send; nil = nobody waits for that
	hurry               chan struct{} // gets a token when somebody begins to wait
}

// dropAfter is how long an ended lease stays in the book so that others may share its call: nobody waits for it.
const dropAfter = 10 * time.Millisecond

// mostDrops bounds what waits while Redis is away: the rest of the leases stays in the book.
const mostDrops = 100_000

func (d *drops) add(ref job.HeldRef) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.refs) < mostDrops {
		d.refs = append(d.refs, ref)
	}
	d.send()
}

// count adds an attempt that ended.
func (d *drops) count(failed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.processed++
	if failed {
		d.failures++
	}
	d.send()
}

// send begins to send, if it is not under way. d.mu is held.
func (d *drops) send() {
	if !d.busy {
		d.busy = true
		d.server.group.Go(d.run)
	}
}

func (d *drops) run() {
	s := d.server
	for gathers := true; ; {
		if gathers {
			select {
			case <-time.After(dropAfter):
			case <-d.hurry:
			case <-s.quit:
			}
		}
		d.mu.Lock()
		refs := d.refs[:min(len(d.refs), job.MaxBatch)]
		d.refs = d.refs[len(refs):]
		gathers = len(d.refs) == 0 && d.idle == nil
		processed, failures := d.processed, d.failures
		d.processed, d.failures = 0, 0
		if len(refs) == 0 && processed == 0 {
			d.refs, d.busy = nil, false
			if d.idle != nil {
				close(d.idle)
				d.idle = nil
			}
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		if err := d.call(refs, processed, failures); err != nil {
			s.Log.Debug("ended leases stay in the book", "leases", len(refs), "err", err)
			select {
			case <-s.quit:
			case <-time.After(time.Second):
			}
		}
	}
}

func (d *drops) call(refs []job.HeldRef, processed, failures int64) error {
	ctx, cancel := context.WithTimeout(d.server.io, commandTime)
	defer cancel()
	if processed > 0 {
		if err := d.server.Book.CountFaktory(ctx, processed, failures); err != nil {
			return err
		}
	}
	if len(refs) == 0 {
		return nil
	}
	return d.server.Book.DropLeases(ctx, refs)
}

// wait waits until nothing is left to send, so that the totals are exact.
func (d *drops) wait(ctx context.Context) {
	d.mu.Lock()
	if !d.busy {
		d.mu.Unlock()
		return
	}
	if d.idle == nil {
		d.idle = make(chan struct{})
	}
	idle := d.idle
	d.mu.Unlock()
	select {
	case d.hurry <- struct{}{}:
	default:
	}
	select {
	case <-idle:
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
}
