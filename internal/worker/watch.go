package worker

import (
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

const (
	lookEvery   = 100 * time.Millisecond
	returnGrace = 250 * time.Millisecond // for a handler to return by itself at its maximum processing time
	stuckGrace  = 2 * time.Second        // for a handler to return after its context ended
)

// action is what the watch must do for a lease.
type action int

const (
	nothing action = iota
	report         // the job is over its time: report the failure without waiting for the handler
	fence          // the lease may go to another worker: cancel the handler's context
	stick          // the handler ignores its context: it is stuck, and its slot goes to others
)

// due returns the action that is due. ended says whether the handler's context has ended. Pool.mu is held.
func (h *held) due(now time.Time, ended bool) action {
	switch {
	case !h.ended && now.After(h.ctx.deadline.Add(returnGrace)):
		return report
	case !h.ended && !h.fenced && h.untrusted(now):
		return fence
	case h.running && !h.stuck && ended && !h.told.IsZero() && now.Sub(h.told) > stuckGrace:
		return stick
	}
	return nothing
}

func (p *Pool) watchLoop() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.io.Done():
			return
		case <-tick.C:
			p.look(time.Now())
		}
	}
}

// look checks every lease once and does the action that is due.
func (p *Pool) look(now time.Time) {
	var late, lost, stuck []*held
	p.mu.Lock()
	for _, h := range p.held {
		ended := h.ctx.ended(now)
		if ended && h.told.IsZero() {
			h.told = now
		}
		switch h.due(now, ended) {
		case report:
			p.end(h, job.Decide(overdue(h.lease.MaxRun(p.plan(h.lease.Tier))), p.cfg.ResultLimit, 0))
			late = append(late, h)
		case fence:
			h.fenced = true
			lost = append(lost, h)
		case stick:
			h.stuck = true
			p.stuck++
			stuck = append(stuck, h)
		case nothing:
		}
	}
	p.mu.Unlock()
	for _, h := range lost {
		h.ctx.cancel(handler.ErrLeaseLost)
		p.log.Warn("no heartbeat succeeded in time: the worker treats the lease as lost", h.fields()...)
	}
	for _, h := range stuck {
		p.log.Warn("the handler ignores its context: it is stuck", h.fields()...)
	}
	if len(stuck) > 0 {
		p.logWedged()
		p.freed.Set()
		p.changed.Set()
	}
	p.deliver(late...)
}
