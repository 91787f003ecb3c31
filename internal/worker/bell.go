package worker

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/loop"
)

// waiter waits at one partition's doorbell, and only when the claimer asks it to: while the claimer is idle with
// free slots.
type waiter struct{ listen loop.Signal }

func newWaiters(partitions int) []waiter {
	w := make([]waiter, partitions)
	for i := range w {
		w[i].listen = loop.NewSignal()
	}
	return w
}

// listen makes the waiters wait for a token. There is a waiter per partition because one BLPOP cannot have keys of
// several slots of a cluster.
func (p *Pool) listen() {
	for i := range p.waiters {
		if h := &p.heads.all[i]; !h.away && !h.blocked && !(h.passed && h.score == none) {
			p.waiters[i].listen.Set()
		}
	}
}

// listenLoop reports every return of Wait, also those without a token: the claim that follows finds the job of a
// lost token.
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
				p.ring(partition) // this pool claims no longer
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
		case <-w.listen: // set before Wait returned; the claimer sets it again after the claim that follows
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

// ring passes a token on to other processes. It does not repeat a failed call: a lost token costs the others at
// most a second.
func (p *Pool) ring(partition int) {
	ctx, cancel := context.WithTimeout(p.io, time.Second)
	defer cancel()
	if err := p.bell.Ring(ctx, partition); err != nil {
		p.log.Debug("the doorbell was not rung again", "err", err)
	}
}
