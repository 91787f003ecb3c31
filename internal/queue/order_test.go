package queue_test

import (
	"fmt"
	"testing"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

func TestClaimOrder(t *testing.T) {
	t.Attr("proves", "S2-P2 S0-N5")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		byTier := map[job.Tier][]job.ID{}
		for i := range 60 {
			tier := []job.Tier{job.Public, job.Paid, job.Unpaid}[i*7%3]
			byTier[tier] = append(byTier[tier], e.Put(t, tier))
		}
		var got []job.ID
		for range 20 {
			for _, l := range e.Take(t, 3) {
				got = append(got, l.ID)
			}
		}
		want := append(append(byTier[job.Paid], byTier[job.Unpaid]...), byTier[job.Public]...)
		for i := range want {
			same(t, fmt.Sprintf("job %d", i+1), got[i], want[i])
		}
	})
}

// With a small priority base the same formula bounds the waiting: one step in priority is worth five minutes.
func TestClaimBoundedWaiting(t *testing.T) {
	t.Attr("proves", "S2-G6")
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.PriorityBase = 300_000 }, func(t *testing.T, e *queuetest.Env) {
		// later arrivals, without waiting
		arriveAt := func(ms int64) { e.Redis.Set(t.Context(), queue.Key(0, "clock"), ms, 0) }
		start := e.Now(t) + 1000
		arriveAt(start)
		public := e.Put(t, job.Public)
		arriveAt(start + 599_999)
		soon := e.Put(t, job.Paid)
		arriveAt(start + 600_001)
		late := e.Put(t, job.Paid)
		unpaid := e.Put(t, job.Unpaid)
		want := []job.ID{soon, public, late, unpaid}
		for i, l := range e.Take(t, 4) {
			same(t, fmt.Sprintf("job %d", i+1), l.ID, want[i])
		}
	})
}
