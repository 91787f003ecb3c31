package worker

import (
	"context"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// ownPlans sets the slots that PAID has of its own.
func ownPlans(n int) func(*Config) {
	return func(c *Config) {
		plans := job.DefaultPlans()
		plans[0].OwnSlots = n
		c.Plans.Set(plans)
		c.Slots = 4
	}
}

// byRoom answers claims of a fake queue as the script does: with the ready jobs that there are slots for.
func (q *fakeQueue) byRoom(r job.ClaimRequest) (job.ClaimReply, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	reply := job.ClaimReply{Next: math.Inf(1)}
	room := job.ClaimRoom{Common: r.Max}
	if r.Room != nil {
		room = job.ClaimRoom{Own: slices.Clone(r.Room.Own), Common: r.Room.Common}
	}
	q.ready = slices.DeleteFunc(q.ready, func(j job.Job) bool {
		priority := map[job.Tier]int{job.Paid: 1, job.Unpaid: 2, job.Public: 3}[j.Tier]
		if len(reply.Leases) == r.Max || !room.Take(priority) {
			reply.PassedOver = true
			return false
		}
		j.Attempt++
		reply.Leases = append(reply.Leases, job.Lease{Job: j, Token: "nonce:1"})
		return true
	})
	return reply, nil
}

// A pool with own slots of PAID runs at most as many other jobs as it has common slots, and a PAID job at once. While
// it passes over jobs it does not wait at the doorbell, and asks some forty times a second; when a slot is free, at
// once.
func TestOwnSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(context.Context) (string, error) { <-time.After(10 * time.Second); return "", nil }, ownPlans(1))
		r.queue.claim = r.queue.byRoom
		for n := range 5 {
			r.queue.push(work(n, job.Public))
		}
		r.start(t)
		after(time.Second)
		s := r.Stats()
		want := []job.OwnRoom{{Priority: 1, Slots: 1}}
		if s.Running != 3 || !slices.Equal(s.Room.Own, want) || s.Room.Common != 0 || !slices.Equal(s.Own, want) {
			t.Errorf("%+v", s)
		}
		waits, _ := r.bell.seen()
		before := len(r.queue.asked())
		after(time.Second)
		if n := len(r.queue.asked()) - before; n < 35 || n > 45 {
			t.Errorf("%d claims in a second", n)
		}
		if now, _ := r.bell.seen(); now != waits {
			t.Error("it waited at the doorbell")
		}
		r.queue.push(work(9, job.Paid))
		after(30 * time.Millisecond)
		if s := r.Stats(); s.Running != 4 || s.Free != 0 {
			t.Errorf("a PAID job did not start: %+v", s)
		}
		after(8500 * time.Millisecond) // the first three have ended
		if s := r.Stats(); s.Claimed != 6 || s.Running != 3 {
			t.Errorf("the freed slots are not used: %+v", s)
		}
		after(20 * time.Second)
		r.stop(t)
	})
}

// Jobs of an answer that came too late, for which other jobs have the slots now, are given back at no cost; so are
// those that own slots were given away from meanwhile.
func TestOwnSlots_ALateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(context.Context) (string, error) { <-time.After(10 * time.Second); return "", nil }, ownPlans(0))
		r.queue.claim = func(q job.ClaimRequest) (job.ClaimReply, error) {
			if q.Number == 1 {
				<-time.After(time.Second)
				ownPlans(3)(&r.cfg) // the plan changes while the claim is under way
			}
			return r.queue.byRoom(q)
		}
		for n := range 4 {
			r.queue.push(work(n, job.Public))
		}
		r.start(t)
		after(1500 * time.Millisecond)
		if s := r.Stats(); s.Running != 1 {
			t.Errorf("%+v", s)
		}
		if _, _, released := r.queue.endings(); len(released) != 3 {
			t.Errorf("%d jobs were released", len(released))
		}
		after(20 * time.Second)
		r.stop(t)
	})
}

// Jobs of a tier that a process does not know yet use its common slots, and never the own slots of PAID.
func TestOwnSlots_AnUnknownTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(context.Context) (string, error) { <-time.After(10 * time.Second); return "", nil }, ownPlans(2))
		r.queue.claim = r.queue.byRoom
		for n := range 4 {
			r.queue.push(work(n, "ADDED"))
		}
		r.start(t)
		after(time.Second)
		if s := r.Stats(); s.Running != 2 {
			t.Errorf("%+v", s)
		}
		after(30 * time.Second)
		r.stop(t)
	})
}
