package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

func later(tier job.Tier, d time.Duration) job.Submission {
	s := queuetest.Job(tier)
	s.Delay = d
	return s
}

func TestPromote(t *testing.T) {
	t.Attr("proves", "S3-I8")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		due, waiting := later(job.Public, time.Minute), later(job.Public, time.Hour)
		e.PutAll(t, due, waiting)
		early := e.Put(t, job.Public)
		e.Take(t, 1)
		if n, err := e.Promote(t.Context(), 0); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		e.Age(t, "scheduled", 2*time.Minute)
		if n, err := e.Promote(t.Context(), 0); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		snap := e.Snapshot(t)
		same(t, "state", snap.State(due.ID), job.Pending)
		same(t, "not due", snap.State(waiting.ID), job.Scheduled)
		same(t, "running", snap.State(early), job.Processing)
		same(t, "fresh", snap.Counters["fresh"], 1) // the promoted job counts from now on
		same(t, "delayed", snap.Counters["delayed"], 1)
		same(t, "doorbell", snap.Doorbell, 1)
		before := e.Snapshot(t)
		if n, err := e.Promote(t.Context(), 0); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		e.Unchanged(t, before)
	})
}

// A promoted job's place depends on its arrival, not on when it was due.
func TestPromoteToItsPlace(t *testing.T) {
	t.Attr("proves", "S2-P3")
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Capacity = 3 }, func(t *testing.T, e *queuetest.Env) {
		delayed := later(job.Paid, time.Minute)
		e.PutAll(t, delayed)
		ids := e.PutAll(t, queuetest.Job(job.Paid), queuetest.Job(job.Paid), queuetest.Job(job.Paid)) // full now
		e.Age(t, "scheduled", 2*time.Minute)
		if n, err := e.Promote(t.Context(), 0); n != 1 || err != nil { // never refused
			t.Fatal(n, err)
		}
		same(t, "fresh", e.Snapshot(t).Counters["fresh"], 4)
		got, err := e.Words(t.Context(), 0, []job.Submission{queuetest.Job(job.Paid)})
		words(t, got, err, job.Full)
		for i, l := range e.Take(t, 4) {
			same(t, fmt.Sprintf("job %d", i+1), l.ID, append([]job.ID{delayed.ID}, ids...)[i])
		}
	})
}

// A delayed job waits since it was due: its first lease and the age of the oldest job say so. A job behind it that
// was not delayed may have waited for longer.
func TestPromoteSaysWhenItWasDue(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		const delay = 80 * time.Millisecond
		delayed, alone := later(job.Paid, delay), later(job.Unpaid, delay)
		e.PutAll(t, delayed, alone)
		plain := e.Put(t, job.Paid)
		promoted := 0
		testkit.Eventually(t, 10*time.Second, "both are due", func() (bool, string) {
			n, err := e.Promote(t.Context(), 0)
			promoted += n
			return promoted == 2, fmt.Sprint(promoted, err)
		})
		arrived := func(id job.ID) time.Time {
			j, err := e.Find(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return j.ArrivedAt
		}
		paid, unpaid := arrived(plain), arrived(alone.ID).Add(delay)
		// On a busy machine the submit of the plain job may take longer than the delay.
		if due := arrived(delayed.ID).Add(delay); due.Before(paid) {
			paid = due
		}
		testkit.Eventually(t, 10*time.Second, fmt.Sprint("the oldest are ", paid, unpaid), func() (bool, string) {
			oldest, err := e.Oldest(t.Context()) // leaves out partitions that a busy machine answers too late
			return oldest[job.Paid].Equal(paid) && oldest[job.Unpaid].Equal(unpaid), fmt.Sprint(oldest, err)
		})
		leases := e.Take(t, 3)
		same(t, "delayed", leases[0].RunAt, leases[0].ArrivedAt.Add(delay))
		same(t, "plain", leases[1].RunAt, time.Time{})
		same(t, "alone", leases[2].RunAt, leases[2].ArrivedAt.Add(delay))
	})
}

// With a small priority base, where tiers overlap, the age of the oldest job also counts since a delayed job was
// due.
func TestOldest_SmallBase(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.PriorityBase = 300_000 }, func(t *testing.T, e *queuetest.Env) {
		const delay = 80 * time.Millisecond
		delayed := later(job.Unpaid, delay)
		e.PutAll(t, delayed)
		testkit.Eventually(t, 10*time.Second, "it is due", func() (bool, string) {
			n, err := e.Promote(t.Context(), 0)
			return n == 1, fmt.Sprint(n, err)
		})
		j, err := e.Find(t.Context(), delayed.ID)
		if err != nil {
			t.Fatal(err)
		}
		want := j.ArrivedAt.Add(delay)
		testkit.Eventually(t, 5*time.Second, fmt.Sprint("the oldest is ", want), func() (bool, string) {
			oldest, err := e.Oldest(t.Context()) // leaves out partitions that a busy machine answers too late
			return oldest[job.Unpaid].Equal(want), fmt.Sprint(oldest, err)
		})
	})
}

func TestPromoteHundreds(t *testing.T) {
	t.Attr("proves", "S4-N2")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for range 3 {
			batch := make([]job.Submission, 80)
			for i := range batch {
				batch[i] = later(job.Paid, time.Second)
			}
			e.PutAll(t, batch...)
		}
		key := queue.Key(0, "scheduled")
		for _, id := range e.Redis.ZRange(t.Context(), key, 0, -1).Val() { // all due at the same moment
			e.Redis.ZAdd(t.Context(), key, redis.Z{Score: 1, Member: id})
		}
		for _, want := range []int{100, 100, 40, 0} {
			if n, err := e.Promote(t.Context(), 0); n != want || err != nil {
				t.Fatal(n, err)
			}
		}
		same(t, "ready", e.Snapshot(t).Counters["PAID:ready"], 240)
	})
}

func TestPromoteQuarantines(t *testing.T) {
	t.Attr("proves", "F53")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		gone, torn, good := later(job.Paid, time.Second), later(job.Paid, time.Second), later(job.Paid, time.Second)
		e.PutAll(t, gone, torn, good)
		e.Redis.Del(t.Context(), queue.JobKey(gone.ID))
		e.Edit(t, "job", torn.ID, func(text string) string { return text[:20] })
		e.Age(t, "scheduled", time.Minute)
		if n, err := e.Promote(t.Context(), 0); n != 3 || err != nil {
			t.Fatal(n, err)
		}
		same(t, "claimed", e.Take(t, 1)[0].ID, good.ID)
		e.Broken(t, "2 in quarantine")
	})
}
