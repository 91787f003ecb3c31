package sim

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// This file has what operators hold back: pauses, and slots that tiers have of their own. Every process hears of a
// change a while after it was made, one after the other, as if each polled for it.

// heldFor is how long after a process heard of a pause a claim of it may still take such a job: the claim was made
// before, and its call waited or was executed late.
const heldFor = 5 * time.Second

// ownSince is the same of the start of a handler after a process heard of own slots: the job was claimed before.
const ownSince = time.Second

// holds draws pauses in a third of the seeds, and own slots in another. All are over before the faults end.
func (p *plan) holds(r *rand.Rand) {
	scopes := []string{job.PauseAll, job.PauseTier(job.Paid), job.PauseTier(job.Public), job.PauseQueue(otherQueue)}
	switch r.IntN(3) {
	case 0:
		for range 1 + r.IntN(3) {
			p.orders = append(p.orders, order{at: ticks(r, 1, 50), what: "pause", scope: scopes[r.IntN(len(scopes))],
				pause: ticks(r, 1, 5), length: ticks(r, 2, 90)})
		}
	case 1:
		p.orders = append(p.orders, order{at: ticks(r, 1, 30), what: "own", pause: ticks(r, 1, 5), length: ticks(r, 10, 60),
			own: []int{1 + r.IntN(2), r.IntN(2), r.IntN(2)}})
	}
}

// hold pauses a scope, or gives tiers their own slots, for a while.
func (c *client) hold() {
	w := c.world
	c.step("holds", func() {
		if c.scope != "" {
			w.paused = append(w.paused, c.scope)
		}
		w.own = c.own
	})
	c.tell()
	<-time.After(c.length)
	c.step("lets go", func() {
		if at := slices.Index(w.paused, c.scope); at >= 0 {
			w.paused = slices.Delete(slices.Clone(w.paused), at, at+1)
		}
		w.own = nil
	})
	c.tell()
}

// tell lets one process after the other hear what is held.
func (c *client) tell() {
	for slot := range c.world.plan.slots {
		<-time.After(c.pause)
		c.step("hears what is held", func() { c.world.processes[slot].hear() })
	}
}

// hear gives a process what is held now.
func (p *process) hear() {
	now := job.Pauses{}
	for _, scope := range slices.Compact(slices.Sorted(slices.Values(p.world.paused))) {
		now.List = append(now.List, job.Pause{Scope: scope, Since: time.Now()})
		if p.held[scope].IsZero() {
			p.held[scope] = time.Now()
		}
	}
	for scope := range p.held {
		if !slices.Contains(p.world.paused, scope) {
			delete(p.held, scope)
		}
	}
	p.pauses.Set(now)
	p.plans.Set(withOwn(p.plans.All(), p.world.own))
	if p.ownAt = time.Now(); p.world.own == nil {
		p.ownAt = time.Time{}
	}
	if p.alive() {
		p.pool.Wake()
	}
}

// withOwn returns plans with these own slots, by priority; nil = none.
func withOwn(plans []job.Plan, own []int) []job.Plan {
	plans = slices.Clone(plans)
	for i := range plans {
		if plans[i].OwnSlots = 0; plans[i].Priority <= len(own) {
			plans[i].OwnSlots = own[plans[i].Priority-1]
		}
	}
	return plans
}

// limits are a claim's arguments limited and common.
type limits struct {
	own    map[int]int
	paused map[int]bool
	common int
}

func readLimits(limited, common string) *limits {
	l := &limits{own: map[int]int{}, paused: map[int]bool{}, common: 1 << 30}
	for _, one := range strings.Fields(limited) {
		band, n, _ := strings.Cut(one, ":")
		if n == "-" {
			l.paused[int(number(band))] = true
		} else {
			l.own[int(number(band))] = int(number(n))
		}
	}
	if common != "-" {
		l.common = int(number(common))
	}
	return l
}

func (l *limits) room(priority int) int {
	if l.paused[priority] {
		return 0
	}
	return l.own[priority] + max(l.common, 0)
}

func (l *limits) take(priority int) {
	if l.own[priority] > 0 {
		l.own[priority]--
	} else {
		l.common--
	}
}

// passedOver checks what a claim says of the jobs that it left for want of slots, if it left no others.
func (s *shadow) passedOver(partition int, queues []string, l *limits, list []any) {
	next, _ := list[0].(string)
	if says := list[6] == "1"; next == "" {
		want, may := false, false
		for _, k := range s.waiting(partition, job.Pending, (*known).score) {
			is := slices.Contains(queues, k.queue) && !l.paused[k.tier.Priority]
			want, may = want || is && k.line == "", may || is // a line may be parked
		}
		if want && !says || says && !may {
			s.wrong("S24", "a claim says %t of jobs that it passed over, not %t", says, want)
		}
	}
}

// heldBack checks that a claim took no job of what its process knew to be paused. A claim without an answer is sent
// again as it was, however long that takes.
func (s *shadow) heldBack(p *process, k *known) {
	if !p.quiet(heldFor, "claim") {
		return
	}
	for _, scope := range []string{job.PauseAll, job.PauseTier(k.tier.Tier), job.PauseQueue(k.queue)} {
		if since := p.held[scope]; !since.IsZero() && time.Since(since) > heldFor {
			s.wrong("S24", "%s is claimed by %s, which knows for %s that %s is paused", k, p.nonce, time.Since(since), scope)
		}
	}
}

// slotsOf checks, when a handler starts, that its process leaves the best tier the slots of its own.
func (s *shadow) slotsOf(p *process, k *known) {
	own := job.OwnSlots(p.plans.All(), s.w.plan.slots[p.slot])
	if p.ownAt.IsZero() || time.Since(p.ownAt) < ownSince || len(own) == 0 || k.tier.Priority == own[0].Priority {
		return
	}
	others := 0
	for _, k := range s.jobs {
		switch l := k.lease; {
		case l == nil || l.holder != p || !l.begun || l.ctx == nil:
		case l.ctx.Err() != nil:
			return // it may be stuck, and its slot another's
		case l.since < p.ownAt.Add(ownSince).UnixMilli():
			return // it was claimed when its slot was nobody's own
		case k.tier.Priority != own[0].Priority:
			others++
		}
	}
	if most := s.w.plan.slots[p.slot] - own[0].Slots; others > most {
		s.wrong("S24", "%s starts at %s beside %d others, in the slots of priority %d: %s are its own", k, p.nonce, others,
			own[0].Priority, strconv.Itoa(own[0].Slots))
	}
}
