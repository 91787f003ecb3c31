package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// This file has what only some seeds do: cancels of requeued jobs, keys that expire, requests for jobs that Redis
// forgets meanwhile, plans that change and tiers that are added, and a Redis that stays full until everything else
// is done.

// added is the plan of the tier that is added during a run.
var added = job.Plan{
	Tier: "ADDED", Priority: 4, MaxRetries: 1, HeartbeatTimeout: 2 * time.Second, MaxProcessingTime: 4 * time.Second,
	MaxCrashes: new(1), Share: 40, Version: 1,
}

const (
	fullBound = time.Minute     // how long a full Redis may take to hand over all ended jobs
	shortKeys = 3 * time.Second // the life of an Idempotency-Key that expires within a run
)

// walks draws which of these things a seed does.
func (p *plan) walks(r *rand.Rand) {
	p.keepKeys, p.retention = 24*time.Hour, time.Hour
	jobs := slices.DeleteFunc(slices.Clone(p.orders), func(o order) bool { return o.what != "submit" })
	for _, o := range p.orders {
		if o.what == "requeue" && r.IntN(2) == 0 {
			p.orders = append(p.orders, order{
				at: o.at + ticks(r, 1, 20), what: "cancel", again: true, process: r.IntN(len(p.slots)), id: o.id,
			})
		}
	}
	if r.IntN(3) == 0 {
		p.keepKeys = shortKeys
		p.repeats(r, jobs)
	}
	if r.IntN(3) == 0 {
		p.newPlans(r, jobs)
	}
	if r.IntN(8) == 0 {
		p.lateOrders(r, jobs)
	}
	if r.IntN(6) == 0 {
		p.full = ticks(r, 10, 60)
	}
}

// repeats submits more jobs under keys of the seed, before and after the keys expire.
func (p *plan) repeats(r *rand.Rand, jobs []order) {
	for i := range 2 + r.IntN(4) {
		o := jobs[r.IntN(len(jobs))]
		o.id = job.ID(fmt.Sprintf("%08x-0000-7000-8000-%010x%02x", 0x100+i, 0x100+i, o.id.Partition()))
		o.once = job.Idempotency{Key: fmt.Sprintf("%032x", o.id.Partition()), Body: fmt.Sprintf("%032x", r.IntN(2))}
		o.at, o.tries = ticks(r, 1, 120), 3
		p.orders = append(p.orders, o)
	}
}

// newPlans changes the plans twice and adds a tier. Jobs are submitted in the new tier while some processes do not
// know it yet. The run gets no tight limits: processes that disagree about a share would refuse different jobs.
func (p *plan) newPlans(r *rand.Rand, jobs []order) {
	all, at, n := tiers(), ticks(r, 5, 40), 0
	p.capacity, p.living, p.bytes = 1000, 0, 0
	for range 2 {
		for i := range all {
			all[i].MaxRetries, all[i].MaxCrashes, all[i].Share = r.IntN(4), nil, 20+r.IntN(81)
			if n := r.IntN(5); n < 4 {
				all[i].MaxCrashes = &n
			}
			all[i].HeartbeatTimeout += ticks(r, 0, 5)
			all[i].Version++
		}
		if len(all) < 4 {
			all = append(all, added)
		}
		change := order{at: at, what: "plans", tiers: slices.Clone(all), pause: ticks(r, 1, 8)}
		p.orders = append(p.orders, change)
		for range 4 + r.IntN(4) {
			o := jobs[r.IntN(len(jobs))]
			n++
			o.id = job.ID(fmt.Sprintf("%08x-0000-7000-8000-%010x%02x", 0x200+n, 0x200+n, o.id.Partition()))
			o.at, o.once, o.delay, o.tries = at+ticks(r, 2, 9), job.Idempotency{}, 0, 2
			if o.process = r.IntN(len(p.slots)); o.process == 0 {
				o.tier = added.Tier // the first process knows the tier by now
			}
			p.orders = append(p.orders, o)
		}
		at += ticks(r, 10, 40)
	}
}

// lateOrders polls, requeues and cancels jobs that Redis forgets meanwhile. The faults go on for 90 s.
func (p *plan) lateOrders(r *rand.Rand, jobs []order) {
	p.retention, p.heal = time.Minute, 90*time.Second
	for i := range 3 + r.IntN(4) {
		of, at, slot := jobs[r.IntN(len(jobs))], ticks(r, 550, 850), r.IntN(len(p.slots))
		p.orders = append(p.orders,
			order{at: at, what: "poll", process: slot, id: of.id, tries: 3, pause: ticks(r, 2, 12)},
			order{at: at, what: "requeue", process: slot, id: of.id, request: fmt.Sprint("late", i)},
			order{at: at + ticks(r, 0, 30), what: "cancel", again: r.IntN(2) == 0, process: slot, id: of.id})
	}
}

// planKept returns the part of its plan that a job keeps, from the words of a submit: tier queue max_retries owner
// max_run_ms priority ...
func planKept(kind []string) job.Plan {
	return job.Plan{Tier: job.Tier(kind[0]), Priority: int(number(kind[5])), MaxRetries: int(number(kind[2]))}
}

// change gives new plans to one process after the other, as if each polled for them.
func (c *client) change() {
	c.step("plans", func() { c.world.tiers = c.tiers })
	for slot := range c.world.plan.slots {
		<-time.After(c.pause)
		c.step("heard of plans", func() { c.world.processes[slot].plans.Set(withOwn(c.tiers, c.world.own)) })
	}
}

// again returns the given job if it was requeued and has not ended, or else another such job, or else the given
// one.
func (s *shadow) again(id job.ID) job.ID {
	found := id
	for _, k := range s.jobs {
		if k.generation > 1 && !k.status.Ended() && (k.id == id || found == id || k.id < found) {
			if found = k.id; found == id {
				return id
			}
		}
	}
	return found
}

// passed ages the Idempotency-Keys and the jobs by the time that the store was given.
func (s *shadow) passed(d time.Duration) {
	for key, once := range s.once {
		if once.left -= d; once.left <= 0 {
			delete(s.once, key)
		}
	}
	for at, of := range s.elsewhere {
		if of.left -= d; of.left <= 0 {
			delete(s.elsewhere, at)
		}
	}
	for _, k := range s.jobs {
		if k.left <= 0 {
			continue
		}
		if k.left -= d; k.left <= 0 {
			k.forgotten, k.ending = true, ""
		}
	}
}

const outOfMemory = refusal("OOM command not allowed when used memory > 'maxmemory'.")

// isFull says whether Redis has no memory for new jobs now.
func (w *World) isFull() bool {
	return w.plan.full > 0 && w.lifted.IsZero() && time.Since(w.began) >= w.plan.full
}

// drained lifts the limit of a full Redis when all ended jobs are in SQL and acknowledged. That has to be so
// within fullBound after the faults have ended.
func (w *World) drained() {
	if !w.isFull() || !w.healed() {
		return
	}
	for p := range w.plan.partitions {
		if key := fmt.Sprintf("{tierq:%d}:outbox", p); w.store.mini.Exists(key) {
			if time.Since(w.began) > w.plan.heal+fullBound {
				w.fail("L8", "Redis is full, and %s is not given away: %s", key, w.restless())
			}
			return
		}
	}
	w.note("lifted")
	w.lifted = time.Now()
}
