package worker

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/loop"
)

// waiter listens at one partition's doorbell, and only when it is asked to: while the claimer is idle with free slots.
type waiter struct{ listen loop.Signal }

func newWaiters(partitions int) []waiter {
	w := make([]waiter, partitions)
	for i := range w {
		w[i].listen = loop.NewSignal()
	}
	return w
}

// listen asks the waiters to wait for a token: one for each partition, because keys of several slots of a cluster
// cannot be in one BLPOP.
func (p *Pool) listen() {
	for i := range p.waiters {
		if h := &p.heads.all[i]; !h.away && !h.blocked {
			p.waiters[i].listen.Set()
		}
	}
}

// listenLoop reports every return of Wait, also the empty ones: the claim that follows finds what a lost token should
// have told.
func (p *Pool) listenLoop(partition int) {
	w := &p.waiters[partition]
	slow := growing{base: 100 * time.Millisecond, cap: time.Second}
	for {
		select {
		case <-p.stopping:
			return
		case <-w.listen:
		}
		err := p.bell.Wait(p.quiet, partition)
		if p.quiet.Err() != nil {
			if err == nil {
				p.ring(partition) // the token was for a pool that does not claim any more
			}
			return
		}
		p.logOutage("wait at the doorbell", partition, err)
		if err == nil {
			slow.reset()
		} else if !slow.pause(p.quiet) {
			return
		}
		select {
		case <-w.listen: // asked before Wait returned; the claimer asks again after the claim that follows
		default:
		}
		select {
		case p.rung <- partition:
		case <-p.stopping:
			p.ring(partition)
			return
		}
	}
}

// ring passes a token on to other processes. A lost one costs them at most a second, so it is not tried twice.
func (p *Pool) ring(partition int) {
	ctx, cancel := context.WithTimeout(p.io, time.Second)
	defer cancel()
	if err := p.bell.Ring(ctx, partition); err != nil {
		p.log.Debug("the doorbell was not rung again", "err", err)
	}
}
