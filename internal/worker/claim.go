package worker

import (
	"context"
	"errors"
	"time"

	"github.com/tierq/tierq/internal/failpoint"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// claimTries is how often a claim is repeated whose answer cannot be read.
const claimTries = 5

// claimLoop is the pool's only claimer. It claims while slots are free and jobs are ready, then waits for a
// signal.
func (p *Pool) claimLoop() {
	defer p.claimingEnded()
	defer p.collectLateClaims()
	for {
		n, full := p.room()
		if n == 0 {
			if !p.waitForRoom(full) {
				return
			}
			continue
		}
		p.drainWakeups()
		p.skipBacklogged()
		p.heads.turns = p.cfg.Plans.HasLines()
		ask, bound := p.heads.next(time.Now())
		if len(ask) == 0 {
			if !p.waitForWork() {
				return
			}
			continue
		}
		select {
		case <-p.stopping:
			return
		default:
		}
		if !p.ask(ask, n, bound) {
			return
		}
	}
}

// room returns how many jobs may be claimed now. full is false if the only reason for none is that claimed leases
// begin first: short handlers return by then, so that the next claim is for many slots.
func (p *Pool) room() (n int, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = max(min(p.cfg.Slots-p.taken(), job.MaxBatch), 0)
	switch {
	case p.quieted:
		return 0, true
	case p.undelivered > 4*p.cfg.Slots+200 || p.unackedBytes > maxUnackedBytes:
		return 0, true // the store accepts no endings: more jobs would only add to them
	case !p.ready.empty():
		return 0, n == 0
	}
	return n, n == 0
}

// waitForRoom returns when a slot may be free, or false when the pool stops. A token that arrives meanwhile is
// passed on to other processes. After the pool was full, an empty queue counts as unknown: jobs may have come while
// no waiter was at the doorbell, and a claim finds them sooner than a new wait.
func (p *Pool) waitForRoom(full bool) bool {
	for {
		select {
		case <-p.stopping:
			return false
		case partition := <-p.rung:
			if n, _ := p.room(); n == 0 {
				p.wg.Go(func() { p.ring(partition) })
				continue
			}
			p.heads.all[partition].score = unknown
		case a := <-p.answers:
			p.answer(a)
			continue
		case <-p.freed:
		}
		if full && !p.several() { // with several partitions the age of a head says whether it is still valid
			p.heads.forget(0)
		}
		return true
	}
}

// waitForWork returns when a job may be ready, or false when the pool stops.
func (p *Pool) waitForWork() bool {
	p.listen()
	var freed loop.Signal
	var again <-chan time.Time
	passedOver := p.heads.passedOver()
	if p.several() || passedOver {
		freed = p.freed // a partition that accepted no endings accepts them again; a slot is free for other jobs
	}
	if passedOver {
		timer := time.NewTimer(passedOverWait)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-p.stopping:
		return false
	case <-p.woken:
		p.drainWakeups()
	case partition := <-p.rung:
		p.heads.all[partition].score = unknown
	case a := <-p.answers:
		p.answer(a)
	case <-freed:
	case <-again:
	}
	p.heads.listened(time.Now())
	return true
}

// passedOverWait is how long the claimer waits before it asks again a partition where jobs wait for which it has no
// slots. It cannot wait at the doorbell there: the token for those jobs is for other processes. It is no whole number
// of milliseconds, so that in the simulation it ends at the instant of no other timer, and a seed always plays alike.
const passedOverWait = 25*time.Millisecond + 137*time.Microsecond

// drainWakeups marks as unknown the empty partitions in which this process has made a job ready.
func (p *Pool) drainWakeups() {
	for i := range p.wakes {
		if p.wakes[i].Load() {
			p.wakes[i].Store(false)
			p.heads.forget(i)
		}
	}
}

// claim repeats a claim until it is answered. The number stays the same, so that the leases of a lost reply are
// handed out again and not orphaned. sent is the earliest time at which the leases can have begun. ok is false if
// the pool stops and no job can have been claimed. claim gives up after claimTries unreadable answers, because one
// broken job must not end all claiming; the watches then reclaim the jobs.
func (p *Pool) claim(partition, n int, bound float64) (reply job.ClaimReply, sent time.Time, ok bool) {
	p.claims[partition]++
	request := job.ClaimRequest{Number: p.claims[partition], Max: n, Bound: bound, Room: p.ownRoom()}
	slow := growing{base: 100 * time.Millisecond, cap: time.Second}
	unreadable := 0
	until := p.quiet // once a call may have been executed, its leases must be received even while the pool stops
	for {
		began := time.Now()
		ctx, cancel := context.WithTimeout(p.io, callBound)
		reply, err := p.queue.Claim(ctx, partition, request)
		cancel()
		p.logOutage("claim", partition, err)
		if sent.IsZero() && !errors.Is(err, job.ErrUnavailable) {
			sent, until = began, p.io
		}
		if err != nil && !outage(err) {
			if unreadable++; unreadable == claimTries {
				p.log.Error("a claim failed for good; the watches take its jobs back", "number", request.Number, "err", err)
				return job.ClaimReply{Next: unknown}, sent, true
			}
		}
		if err == nil {
			p.counters.claimed.Add(int64(len(reply.Leases)))
			return reply, sent, true
		}
		if !slow.pause(until) {
			return job.ClaimReply{}, sent, false
		}
	}
}

// take starts the handlers of new leases. It releases leases for which there is no slot or no time.
func (p *Pool) take(partition int, leases []job.Lease, sent time.Time) {
	if len(leases) == 0 {
		return
	}
	if failpoint.Enabled {
		ids := make([]job.ID, len(leases))
		for i := range leases {
			ids[i] = leases[i].ID
		}
		failpoint.Hit("claim.after", ids...)
	}
	batch := make([]*held, len(leases))
	for i := range leases {
		batch[i] = p.hold(partition, &leases[i], sent)
	}
	now := time.Now()
	var back []*held
	p.mu.Lock()
	room := p.claimRoom() // if the answer came late, other leases may have the slots
	for _, h := range batch {
		p.held = append(p.held, h)
		h.at = len(p.held) - 1
		if p.state == ended || !room.Take(p.priority(h.lease.Tier)) || now.After(h.ctx.deadline) || h.untrusted(now) {
			p.end(h, job.End{Verb: job.Releases}) // the handler has not begun, so this costs nothing
			h.ctx.free()
			back = append(back, h)
			continue
		}
		h.running, h.began = true, now
		p.running++
		p.ready.push(h)
	}
	p.call()
	p.mu.Unlock()
	p.deliver(back...)
}

// hold makes the record of a new lease. Its deadlines count from when the claim was sent, so they pass here before
// they pass in Redis.
func (p *Pool) hold(partition int, l *job.Lease, sent time.Time) *held {
	plan := p.plan(l.Tier)
	h := &held{pool: p, lease: *l, partition: partition, beaten: sent, safe: sent.Add(plan.HeartbeatTimeout)}
	h.ctx.base, h.ctx.deadline, h.ctx.run = p.base, sent.Add(h.lease.MaxRun(plan)), h
	return h
}

// plan returns a tier's plan. A tier that is not in the plan book gets the first default plan, as in the queue's
// Claim.
func (p *Pool) plan(t job.Tier) job.Plan {
	if plan, ok := p.cfg.Plans.Plan(t); ok {
		return plan
	}
	return job.DefaultPlans()[0]
}

func (p *Pool) claimingEnded() {
	p.mu.Lock()
	p.claiming = false
	p.mu.Unlock()
	p.changed.Set()
}
