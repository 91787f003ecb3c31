package queue_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// A claim takes the jobs that a process has slots for, in their order: the best first, of each tier as many as its own
// slots and the common ones allow, and passes over the others. It says when it passed over jobs, and what is left that
// it may have.
func TestOwnSlots(t *testing.T) {
	t.Parallel()
	all := []string{job.MainQueue, "a", "b", "films"}
	queuetest.EachWith(t, declare(all[1:]), func(t *testing.T, e *queuetest.Env) {
		processes := 0
		rapid.Check(t, func(r *rapid.T) {
			e.Empty(t)
			ready := fillQueues(r, t, e, all)
			serves := rapid.Permutation(all).Draw(r, "order")[:rapid.IntRange(1, len(all)).Draw(r, "queues")]
			paused := rapid.SampledFrom([]string{"", "", job.PauseTier(job.Paid), job.PauseTier(job.Public),
				job.PauseQueue("films")}).Draw(r, "paused")
			processes++
			q := e.Process(fmt.Sprint("p", processes), serves...)
			pause(e, paused)
			open := slices.DeleteFunc(slices.Clone(ready), func(j queued) bool {
				return j.isPaused(paused) || !slices.Contains(serves, j.queue)
			})
			for number := int64(1); number < 6; number++ {
				most := rapid.IntRange(1, 7).Draw(r, "most")
				room := job.ClaimRoom{Common: rapid.IntRange(0, 5).Draw(r, "common")}
				for _, tier := range rapid.SliceOfNDistinct(rapid.IntRange(1, 3), 0, 3, rapid.ID[int]).Draw(r, "tiers") {
					room.Own = append(room.Own, job.OwnRoom{Priority: tier, Slots: rapid.IntRange(0, 4).Draw(r, "own")})
				}
				reply, err := q.Claim(t.Context(), 0, job.ClaimRequest{Number: number, Max: most, Bound: math.Inf(1), Room: &room})
				if err != nil {
					r.Fatal(err)
				}
				fits := whatFits(&room, open, most)
				open = takeWhatFits(r, open, reply.Leases, fits)
				next := 0 // the priority of the best job left for which there is a slot; 0 = none
				for tier := range tiersInOrder {
					left := slices.ContainsFunc(open, func(j queued) bool { return j.tier == tier })
					if left && next == 0 && after(&room).Take(tier+1) {
						next = tier + 1
					}
				}
				passedOver := len(open) > 0
				switch base := float64(e.Options.PriorityBase); {
				case next == 0 && (!math.IsInf(reply.Next, 1) || reply.PassedOver != passedOver):
					r.Fatalf("next is %g, passed over %t; left is %v", reply.Next, reply.PassedOver, open)
				case next > 0 && int(reply.Next/base) != next:
					r.Fatalf("next is %g, not of priority %d; left is %v", reply.Next, next, open)
				}
			}
		})
	})
}

// after returns a copy of a room.
func after(room *job.ClaimRoom) *job.ClaimRoom {
	return &job.ClaimRoom{Own: slices.Clone(room.Own), Common: max(room.Common, 0)}
}

// whatFits takes slots for the jobs of a claim, the best tier first, and returns how many of each tier there are.
func whatFits(room *job.ClaimRoom, open []queued, most int) (fits [3]int) {
	for tier := range fits {
		for _, j := range open {
			if j.tier == tier && most > 0 && after(room).Take(tier+1) {
				room.Take(tier + 1)
				fits[tier]++
				most--
			}
		}
	}
	return fits
}

// takeWhatFits removes from open the jobs that a claim took. It fails if these are not as many of each tier as fit, or
// if the claim took a job while open still had an older one of the same tier and queue.
func takeWhatFits(r *rapid.T, open []queued, leases []job.Lease, fits [3]int) []queued {
	took := [3]int{}
	for _, l := range leases {
		at := slices.IndexFunc(open, func(j queued) bool { return j.id == l.ID })
		if at < 0 {
			r.Fatalf("%s of %s was not to be claimed", l.ID, l.QueueName())
		}
		one := open[at]
		took[one.tier]++
		open = slices.Delete(slices.Clone(open), at, at+1)
		for _, left := range open {
			if left.tier == one.tier && left.queue == one.queue && left.nth < one.nth {
				r.Fatalf("%+v was claimed before %+v", one, left)
			}
		}
	}
	if took != fits {
		r.Fatalf("it took %v of the tiers, and %v fit", took, fits)
	}
	return open
}
