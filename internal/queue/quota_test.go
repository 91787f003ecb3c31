package queue_test

import (
	"fmt"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// owned returns a submission of an owner who may have quota living jobs.
func owned(owner string, quota int) job.Submission {
	s := queuetest.Job(job.Paid)
	s.Owner, s.Quota = owner, quota
	return s
}

// owners compares the counted owners with the expected ones.
func owners(t *testing.T, e *queuetest.Env, what string, want map[string]int64) {
	t.Helper()
	if got := e.Snapshot(t).Owners; !maps.Equal(got, want) {
		t.Errorf("%s: the owners are %v, want %v", what, got, want)
	}
}

// A job counts for its owner from its submit to its end, whatever happens in between. The bystander belongs to
// another owner.
func TestQuotaCountsTheLiving(t *testing.T) {
	t.Attr("proves", "S9")
	t.Parallel()
	never := func(*testing.T, *queuetest.Env, job.Lease) {}
	cancelled := func(t *testing.T, e *queuetest.Env, l job.Lease) {
		same(t, "asked to cancel", e.Cancels(t, l.ID), job.Cancel)
	}
	spent := func(t *testing.T, e *queuetest.Env, l job.Lease) {
		e.SetWord(t, "leases", l.ID, "retries", strconv.Itoa(l.MaxRetries))
	}
	strict := func(_ *testing.T, e *queuetest.Env, _ job.Lease) { // no job may crash
		plans := e.Plans.All()
		for i := range plans {
			plans[i].MaxCrashes = new(0)
		}
		e.Plans.Set(plans)
	}
	say := func(verb string) func(*testing.T, *queuetest.Env, job.Lease) {
		return func(t *testing.T, e *queuetest.Env, l job.Lease) {
			if _, err := writes[verb](t.Context(), e.Queue, l.Ref(), l.Ref()); err != nil { // twice in a call: it ends once
				t.Fatal(err)
			}
			if _, err := writes[verb](t.Context(), e.Queue, l.Ref()); err != nil {
				t.Fatal(err)
			}
		}
	}
	reap := func(w job.Watch) func(*testing.T, *queuetest.Env, job.Lease) {
		return func(t *testing.T, e *queuetest.Env, l job.Lease) { e.Reap(t, w, l.ID) }
	}
	for name, c := range map[string]struct {
		first, then func(*testing.T, *queuetest.Env, job.Lease)
		left        int64
	}{
		"running":                {never, say("heartbeat"), 1},
		"completed":              {never, say("complete"), 0},
		"completed, cancelled":   {cancelled, say("complete"), 0},
		"failed, retried":        {never, say("fail"), 1},
		"failed, retries spent":  {spent, say("fail"), 0},
		"failed, cancelled":      {cancelled, say("fail"), 0},
		"released":               {never, say("release"), 1},
		"released, cancelled":    {cancelled, say("release"), 0},
		"later":                  {never, say("later"), 1},
		"crashed, retried":       {never, reap(job.Crashed), 1},
		"crashed, crashes spent": {strict, reap(job.Crashed), 0},
		"crashed, cancelled":     {cancelled, reap(job.Crashed), 0},
		"stuck, retried":         {never, reap(job.Stuck), 1},
		"stuck, retries spent":   {spent, reap(job.Stuck), 0},
		"released, then cancelled": {say("release"),
			func(t *testing.T, e *queuetest.Env, l job.Lease) { e.Cancels(t, l.ID); e.Cancels(t, l.ID) }, 0},
		"released, then killed": {say("release"),
			func(t *testing.T, e *queuetest.Env, l job.Lease) { e.Kills(t, l.ID); e.Kills(t, l.ID) }, 0},
		"later, then hastened": {say("later"),
			func(t *testing.T, e *queuetest.Env, l job.Lease) { e.Hastens(t, l.ID); e.Hastens(t, l.ID) }, 1},
		"later, then due": {say("later"), func(t *testing.T, e *queuetest.Env, _ job.Lease) { promote(t, e, 1) },
			1},
		"asked to cancel and waiting": {never, cancelled, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
				s := owned("ann", 0)
				e.PutAll(t, s)
				l := e.Take(t, 1)[0]
				nobody := later(job.Paid, time.Minute)
				e.PutAll(t, owned("bob", 0), nobody)
				e.Cancels(t, nobody.ID)
				c.first(t, e, l)
				c.then(t, e, l)
				want := map[string]int64{"bob": 1, "ann": c.left}
				if c.left == 0 {
					delete(want, "ann") // a count of 0 is removed
				}
				owners(t, e, "afterwards", want)
				e.Drain(t)
				owners(t, e, "in SQL", want)
			})
		})
	}
}

// promote makes n delayed jobs due and promotes them.
func promote(t *testing.T, e *queuetest.Env, n int) {
	t.Helper()
	e.Age(t, "scheduled", 2*time.Hour)
	if got, err := e.Promote(t.Context(), 0); got != n || err != nil {
		t.Fatalf("promoted %d of %d, %v", got, n, err)
	}
}

// The quota refuses only new jobs; a refusal leaves nothing behind in Redis.
func TestQuotaRefuses(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Capacity = 6 }, func(t *testing.T, e *queuetest.Env) {
		submit := func(what string, want []job.Word, batch ...job.Submission) {
			t.Helper()
			got, err := e.Words(t.Context(), 0, batch)
			if fmt.Sprint(got) != fmt.Sprint(want) || err != nil {
				t.Errorf("%s: %v, %v, want %v", what, got, err, want)
			}
		}
		one, delayed := owned("ann", 3), owned("ann", 3)
		delayed.Delay = time.Hour
		keyed := owned("ann", 3)
		keyed.Idempotency = job.Idempotency{Key: "aaaa", Body: "b"}
		over := owned("ann", 3)
		over.Idempotency = job.Idempotency{Key: "cccc", Body: "b"}
		submit("what a call adds counts in it", []job.Word{job.OK, job.OK, job.OK, job.Quota}, one, delayed, keyed, over)
		before := e.Snapshot(t)
		again := owned("ann", 3)
		again.Idempotency = keyed.Idempotency
		submit("what is known is known", []job.Word{job.Duplicate, job.Replay, job.Quota, job.Quota}, one, again, over,
			owned("ann", 1))
		e.Unchanged(t, before)
		submit("nobody's, another's, of no quota, of a higher one", []job.Word{job.OK, job.OK, job.OK, job.OK},
			owned("", 1), owned("bob", 1), owned("ann", 0), owned("ann", 5))
		restore(t, e, []job.JournalRow{living(queuetest.NewID(0), func(l *job.JournalRow) { l.Owner = "ann" })}, job.OK)
		submit("over a higher one with what is owed", []job.Word{job.Quota}, owned("ann", 5))
		owners(t, e, "all", map[string]int64{"ann": 6, "bob": 1})
		submit("the quota before the room", []job.Word{job.Quota, job.Full}, owned("ann", 3), owned("", 1))

		for range 4 {
			l := e.Take(t, 1)[0]
			e.Finish(t, l)
		}
		e.Cancels(t, delayed.ID)
		e.SetClock(time.Now().Add(-time.Hour))
		submit("late before the quota", []job.Word{job.Late}, owned("bob", 1))
		for _, l := range e.Take(t, 3) {
			e.Finish(t, l)
		}
		owners(t, e, "all have ended", map[string]int64{})
		submit("room again", []job.Word{job.OK, job.OK, job.OK, job.Quota}, owned("ann", 3), owned("ann", 3), over,
			owned("ann", 3))
	})
}

// A partition has its part of a quota, rounded up: with 3 partitions, 2 jobs of a quota of 5, and 1 job of a quota
// of 1.
func TestQuotaOfAPartition(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Partitions = 3 }, func(t *testing.T, e *queuetest.Env) {
		for p := range 3 {
			for owner, c := range map[string]struct{ quota, most int }{"ann": {5, 2}, "bob": {1, 1}, "eve": {6, 2}} {
				batch := make([]job.Submission, c.most+1)
				for i := range batch {
					batch[i] = owned(owner, c.quota)
					batch[i].ID = queuetest.NewID(p)
				}
				got, err := e.Words(t.Context(), p, batch)
				words(t, got, err, append(repeat(job.OK, c.most), job.Quota)...)
			}
		}
	})
}

// A flood from one API key takes no more capacity than its quota allows: other jobs of its tier and of better
// tiers are accepted.
func TestQuotaKeepsAFloodOut(t *testing.T) {
	t.Attr("proves", "A29")
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Capacity = 20 }, func(t *testing.T, e *queuetest.Env) {
		flood := make([]job.Submission, 100)
		for i := range flood {
			flood[i] = owned("ann", 5)
			flood[i].Tier = job.Public
		}
		got, err := e.Words(t.Context(), 0, flood)
		words(t, got, err, append(repeat(job.OK, 5), repeat(job.Quota, 95)...)...)
		e.PutAll(t, queuetest.Job(job.Public), owned("bob", 5), queuetest.Job(job.Paid))
	})
}

// Requeued and restored jobs count for their owners and are never refused.
func TestQuotaCountsSecondLives(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(*queue.Options) {}, func(t *testing.T, e *queuetest.Env) {
		e.PutAll(t, owned("ann", 1))
		l := e.Take(t, 1)[0]
		e.Bury(t, l)
		owners(t, e, "a dead letter", map[string]int64{})
		next := e.Drain(t)[0].Job
		next.Generation++
		e.PutAll(t, owned("ann", 1))
		got, err := e.Requeue(t.Context(), 0, []job.Job{next, next})
		words(t, got, err, job.OK, job.Duplicate)
		owners(t, e, "requeued beyond the quota", map[string]int64{"ann": 2})

		bobs := func(l *job.JournalRow) { l.Owner = "bob" }
		anns := func(l *job.JournalRow) { l.Owner = "ann" }
		all := []job.JournalRow{
			living(queuetest.NewID(0), bobs), living(queuetest.NewID(0), bobs, tried), living(queuetest.NewID(0), anns, ran),
			living(queuetest.NewID(0), bobs, due),
			living(queuetest.NewID(0)),
		}
		restore(t, e, all, repeat(job.OK, 5)...)
		restore(t, e, all, repeat(job.Duplicate, 5)...)
		owners(t, e, "restored", map[string]int64{"ann": 3, "bob": 3})
		refused, err := e.Words(t.Context(), 0, []job.Submission{owned("bob", 3), owned("bob", 4)})
		words(t, refused, err, job.Quota, job.OK)
	})
}

// Jobs that were never counted (an older build accepted them, or the key was deleted) end like all others: no
// count falls below 0, and the audit counts those that still live.
func TestQuotaOfTheUncounted(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		e.PutAll(t, owned("ann", 0), owned("ann", 0), owned("ann", 0), owned("bob", 0))
		e.Redis.Del(t.Context(), queue.Key(0, "owners"))
		leases := e.Take(t, 4)
		e.Finish(t, leases[0])
		owners(t, e, "one has ended", map[string]int64{})
		e.PutAll(t, owned("ann", 1)) // the counter says that the owner has no job
		e.Finish(t, leases[1])
		owners(t, e, "one more", map[string]int64{})
		if got := kinds(pass(t, e.Queue, unasked)); got != "REPAIRED counter, REPAIRED counter" {
			t.Errorf("found %q", got)
		}
		owners(t, e, "audited", map[string]int64{"ann": 2, "bob": 1})
		e.Finish(t, leases[2:]...)
		e.Finish(t, e.Take(t, 1)...)
		owners(t, e, "at rest", map[string]int64{})
	})
}

// If more jobs wait than one step may count, the audit reports an owner's count that exceeds the number of all
// jobs.
func TestQuotaOfManyJobs(t *testing.T) {
	t.Attr("proves", "F53")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for range 11 {
			batch := make([]job.Submission, 100)
			for i := range batch {
				batch[i] = owned("ann", 0)
			}
			e.PutAll(t, batch...)
		}
		key := queue.Key(0, "owners")
		counts := func(what, want string) { // not a snapshot, which takes the embedded server long for so many jobs
			t.Helper()
			same(t, what, fmt.Sprint(e.Redis.HGetAll(t.Context(), key).Val()), want)
		}
		counts("eleven calls", "map[ann:1100]")
		if found := pass(t, e.Queue, unasked); found != nil {
			t.Errorf("found %v", found)
		}
		e.Redis.HSet(t.Context(), key, "bob", 1, "eve", -3)
		if got := kinds(pass(t, e.Queue, unasked)); got != "REPAIRED counter, REPORTED counter" {
			t.Errorf("found %q", got)
		}
		counts("afterwards", "map[ann:1100 bob:1]")
		e.Redis.HDel(t.Context(), key, "bob")
	})
}

// The owner of a job is read from its head, also if neighbouring parts are missing.
func TestQuotaReadsTheHead(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(*queue.Options) {}, func(t *testing.T, e *queuetest.Env) {
		options := []job.Options{{}, {CallbackURL: "https://example.com/-"}, {SpanID: "0123456789abcdef", Everybody: true}}
		var batch []job.Submission
		for _, owner := range []string{"", "ann"} {
			for _, trace := range []string{"", "trace"} {
				for _, o := range options {
					s := owned(owner, 6)
					s.TraceID, s.Options = trace, o
					batch = append(batch, s)
				}
			}
		}
		e.PutAll(t, batch...)
		owners(t, e, "of twelve, six with an owner", map[string]int64{"ann": 6})
		leases := e.Take(t, len(batch))
		e.Finish(t, leases[:6]...)
		for _, l := range leases[6:] {
			e.Bury(t, l)
		}
		owners(t, e, "ended, two have callbacks", map[string]int64{"ann": 2})
	})
}
