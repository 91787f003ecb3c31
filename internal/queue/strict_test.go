package queue_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// queued is a ready job as this test knows it.
type queued struct {
	id    job.ID
	queue string
	tier  int
	nth   int // in the order of the submits
}

// A process' claims take the jobs of its queues, and no others: no claim leaves a job of a better tier and takes one of
// a worse tier, whatever queues they are in, and inside a tier each queue gives its oldest job first. Of what is paused
// no job is taken.
func TestStrictTiersOverQueues(t *testing.T) {
	t.Parallel()
	all := []string{job.MainQueue, "a", "b", "films"}
	queuetest.EachWith(t, declare(all[1:]), func(t *testing.T, e *queuetest.Env) {
		processes := 0
		rapid.Check(t, func(r *rapid.T) {
			e.Empty(t)
			ready := fillQueues(r, t, e, all)
			serves := rapid.Permutation(all).Draw(r, "order")[:rapid.IntRange(1, len(all)).Draw(r, "queues")]
			paused := rapid.SampledFrom([]string{"", job.PauseAll, job.PauseQueue("main"), job.PauseQueue("films"),
				job.PauseTier(job.Paid), job.PauseTier(job.Unpaid), job.PauseTier(job.Public)}).Draw(r, "paused")
			processes++
			q := e.Process(fmt.Sprint("p", processes), serves...)
			pause(e, paused)
			open := slices.DeleteFunc(slices.Clone(ready), func(j queued) bool {
				return j.isPaused(paused) || !slices.Contains(serves, j.queue)
			})
			for number := int64(1); ; number++ {
				most := rapid.IntRange(1, 7).Draw(r, "most")
				reply, err := q.Claim(t.Context(), 0, job.ClaimRequest{Number: number, Max: most, Bound: math.Inf(1)})
				if err != nil {
					r.Fatal(err)
				}
				if len(reply.Leases) != min(most, len(open)) {
					r.Fatalf("a claim of %d took %d of %d jobs", most, len(reply.Leases), len(open))
				}
				if len(open) == 0 {
					return
				}
				open = takeInOrder(r, open, reply.Leases)
			}
		})
	})
}

// declare sets Options with these queues.
func declare(names []string) func(*queue.Options) {
	return func(o *queue.Options) {
		o.Queues, o.Pauses, o.Capacity = &job.QueueBook{}, &job.PauseBook{}, 1000
		var all []job.Queue
		for _, name := range names {
			all = append(all, job.Queue{Name: name, Limit: 1000})
		}
		o.Queues.Set(all)
	}
}

// pause puts the pause of a scope in force, and no other; "" = none.
func pause(e *queuetest.Env, scope string) {
	var list []job.Pause
	if scope != "" {
		list = append(list, job.Pause{Scope: scope, Since: time.UnixMilli(1)})
	}
	e.Options.Pauses.Set(job.Pauses{List: list})
}

var tiersInOrder = []job.Tier{job.Paid, job.Unpaid, job.Public}

// isPaused says whether a scope has a job.
func (j *queued) isPaused(scope string) bool {
	return scope == job.PauseAll || scope == job.PauseQueue(j.queue) || scope == job.PauseTier(tiersInOrder[j.tier])
}

// fillQueues submits jobs of random tiers into random queues, one by one.
func fillQueues(r *rapid.T, t *testing.T, e *queuetest.Env, names []string) (ready []queued) {
	for i := range rapid.IntRange(0, 25).Draw(r, "jobs") {
		tier := rapid.IntRange(0, 2).Draw(r, "tier")
		s := queuetest.Job(tiersInOrder[tier])
		s.Queue = rapid.SampledFrom(names).Draw(r, "queue")
		if replies, err := e.Submit(t.Context(), 0, []job.Submission{s}); err != nil || replies[0].Word != job.OK {
			r.Fatalf("submit: %v, %v", replies, err)
		}
		ready = append(ready, queued{s.ID, s.Queue, tier, i})
	}
	return ready
}

// takeInOrder removes from open the jobs that a claim took. It fails if the claim took a job while open still had one
// of a better tier, or an older one of the same tier and queue.
func takeInOrder(r *rapid.T, open []queued, leases []job.Lease) []queued {
	for _, l := range leases {
		at := slices.IndexFunc(open, func(j queued) bool { return j.id == l.ID })
		if at < 0 {
			r.Fatalf("%s of %s was not to be claimed", l.ID, l.QueueName())
		}
		took := open[at]
		open = slices.Delete(slices.Clone(open), at, at+1)
		for _, left := range open {
			if left.tier < took.tier || left.tier == took.tier && left.queue == took.queue && left.id < took.id {
				r.Fatalf("%+v was claimed before %+v", took, left)
			}
		}
	}
	return open
}
