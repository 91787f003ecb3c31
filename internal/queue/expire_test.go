package queue_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// expiring returns a submission that must be claimed within d of now; below 0 the time has passed.
func expiring(t *testing.T, e *queuetest.Env, tier job.Tier, d time.Duration) job.Submission {
	t.Helper()
	s := queuetest.Job(tier)
	s.ExpiresMs = e.Now(t) + d.Milliseconds()
	return s
}

func expires(t *testing.T, e *queuetest.Env, want int) {
	t.Helper()
	if n, err := e.Queue.Expire(t.Context(), 0); n != want || err != nil {
		t.Fatalf("expire: %d, %v, want %d", n, err, want)
	}
}

// Jobs that wait in any way end EXPIRED when their time is over: in the outbox, without a dead letter's state. The
// others stay as they are.
func TestExpire(t *testing.T) {
	t.Parallel()
	var told sync.Map // the nonce of a test's queue -> *[]job.Tier
	tell := func(o *queue.Options) {
		tiers := new([]job.Tier)
		told.Store(o.Nonce, tiers)
		o.Expired = func(tier job.Tier) { *tiers = append(*tiers, tier) }
	}
	queuetest.EachWith(t, tell, func(t *testing.T, e *queuetest.Env) {
		ready, delayed := expiring(t, e, job.Paid, -time.Second), expiring(t, e, job.Unpaid, -time.Second)
		delayed.Delay, delayed.Owner = time.Hour, "ann"
		later, plain := expiring(t, e, job.Paid, time.Hour), queuetest.Job(job.Public)
		e.PutAll(t, ready, delayed, later, plain)
		waits := find(t, e, later.ID)
		same(t, "by when", waits.ExpiresAt().UnixMilli(), later.ExpiresMs)
		expires(t, e, 2)
		tiers, _ := told.Load(e.Options.Nonce)
		same(t, "told", fmt.Sprint(*tiers.(*[]job.Tier)), "[PAID UNPAID]")
		snap := e.Snapshot(t)
		for _, id := range []job.ID{ready.ID, delayed.ID} {
			same(t, "state", snap.State(id), job.Expired)
		}
		same(t, "not yet", snap.State(later.ID), job.Pending)
		same(t, "without", snap.State(plain.ID), job.Pending)
		same(t, "delayed", snap.Counters["delayed"], 0)
		same(t, "owner", snap.Owners["ann"], 0)
		expires(t, e, 0)
		for _, o := range e.Drain(t) {
			same(t, "outcome", fmt.Sprintf("%s %d %q %v", o.Status, o.Attempt, o.Cause, len(o.Payload) > 0), `EXPIRED 0 "" true`)
		}
		same(t, "kept", find(t, e, ready.ID).Status, job.Expired)
	})
}

// A claim hands out no job whose time is over. It ends the job, rings for the jobs behind it, and the next claim gets
// these.
func TestClaimEndsExpired(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		old, next := expiring(t, e, job.Paid, -time.Second), expiring(t, e, job.Paid, time.Hour)
		e.PutAll(t, old, next)
		e.Redis.Del(t.Context(), queue.Key(0, "doorbell"))
		request := e.NextClaim(1)
		for range 2 { // a repeat is answered alike
			reply, err := e.Claim(t.Context(), 0, request)
			if err != nil || len(reply.Leases) != 0 {
				t.Fatal(reply, err)
			}
		}
		snap := e.Snapshot(t)
		same(t, "state", snap.State(old.ID), job.Expired)
		same(t, "doorbell", snap.Doorbell, 1)
		l := e.Take(t, 1)[0]
		same(t, "claimed", l.ID, next.ID)
		same(t, "in expiries", len(e.Snapshot(t).Sets["expiries"]), 0)
		e.Drain(t)
		e.Finish(t, l)
	})
}

// A job that was claimed in time does not expire, although it waits again when its time is over.
func TestClaimedInTime(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		s := expiring(t, e, job.Paid, 200*time.Millisecond)
		e.PutAll(t, s)
		got, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: e.Take(t, 1)[0].Ref()}})
		ends(t, got, err, job.OK)
		for e.Now(t) <= s.ExpiresMs {
			expires(t, e, 0)
		}
		expires(t, e, 0)
		e.Finish(t, e.Take(t, 1)...)
	})
}

// An expired job frees its unique key: the job behind it is ready. A HELD job expires too. Replace gives the holder the
// time of the new submit.
func TestExpireAndUnique(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(*queue.Options) {}, func(t *testing.T, e *queuetest.Env) {
		holder, held := unique(job.WhileLiving, job.UniqueAfter), unique(job.WhileLiving, job.UniqueAfter)
		holder.ExpiresMs = e.Now(t) - 1
		replied(t, puts(t, e, holder)[0], job.OK, "")
		replied(t, puts(t, e, held)[0], job.IsHeld, "")
		expires(t, e, 1)
		same(t, "the next", find(t, e, held.ID).Status, job.Pending)
		third := unique(job.WhileLiving, job.UniqueAfter)
		third.ExpiresMs = e.Now(t) - 1
		replied(t, puts(t, e, third)[0], job.IsHeld, "")
		expires(t, e, 1)
		same(t, "it was HELD", find(t, e, third.ID).Status, job.Expired)
		again := unique(job.WhileLiving, job.UniqueReplace)
		again.ExpiresMs = e.Now(t) - 1
		replied(t, puts(t, e, again)[0], job.Replaced, held.ID)
		never := unique(job.WhileLiving, job.UniqueReplace)
		replied(t, puts(t, e, never)[0], job.Replaced, held.ID)
		expires(t, e, 0)
		again.ID = queuetest.NewID(0)
		replied(t, puts(t, e, again)[0], job.Replaced, held.ID)
		expires(t, e, 1)
	})
}

// Redis that lost its jobs gets the time back with a job that was never claimed, and not with another, or with the next
// generation.
func TestExpireAfterRestore(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		rows := []job.JournalRow{living(queuetest.NewID(0)), living(queuetest.NewID(0), ran), living(queuetest.NewID(0), due),
			living(queuetest.NewID(0)), living(queuetest.NewID(0))}
		for i := range rows {
			rows[i].ExpiresMs = e.Now(t) - 1
		}
		rows[3].Generation = 2
		rows[4].FirstTriedAt, rows[4].Attempt = time.UnixMilli(e.Now(t)-1000), 1
		got, err := e.Restore(t.Context(), 0, rows, time.Now())
		words(t, got, err, job.OK, job.OK, job.OK, job.OK, job.OK)
		expires(t, e, 2)
		snap := e.Snapshot(t)
		for i, want := range []job.Status{job.Expired, job.Processing, job.Expired, job.Pending, job.Pending} {
			same(t, fmt.Sprint("row ", i), snap.State(rows[i].ID), want)
		}
		next := find(t, e, rows[3].ID)
		same(t, "no time", next.ExpiresAt(), time.Time{})
	})
}

// The audit holds expiries to the jobs, and expire leaves alone what an edit put there.
func TestExpiriesAreAudited(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(*queue.Options) {}, func(t *testing.T, e *queuetest.Env) {
		key := queue.Key(0, "expiries")
		waits, runs := expiring(t, e, job.Paid, time.Hour), expiring(t, e, job.Paid, time.Hour)
		e.PutAll(t, runs)
		l := e.Take(t, 1)[0]
		e.PutAll(t, waits)
		ended := e.Put(t, job.Public)
		e.Cancels(t, ended)
		for name, breaks := range map[string]func(){
			"no entry":      func() { e.Redis.ZRem(t.Context(), key, string(waits.ID)) },
			"another time":  func() { e.Redis.ZAdd(t.Context(), key, redis.Z{Score: 1e15 + 1, Member: string(waits.ID)}) },
			"one that runs": func() { e.Redis.ZAdd(t.Context(), key, redis.Z{Score: 5, Member: string(runs.ID)}) },
			"one that ended": func() {
				e.Redis.ZAdd(t.Context(), key, redis.Z{Score: 1e15 + 1, Member: string(ended)})
			},
			"no job": func() { e.Redis.ZAdd(t.Context(), key, redis.Z{Score: 1e15 + 1, Member: string(queuetest.NewID(0))}) },
			"another type": func() {
				e.Redis.Del(t.Context(), key)
				e.Redis.Set(t.Context(), key, "x", 0)
			},
		} {
			breaks()
			if len(e.Audit(t)) == 0 {
				t.Errorf("%s: the test's own audit does not see it", name)
			}
			if name == "another type" {
				if _, err := e.Recount(t.Context(), 0, true); err != nil {
					t.Fatal(err)
				}
			}
			if findings := pass(t, e.Queue, func(job.ID) []job.Recorded { return nil }); len(findings) == 0 {
				t.Errorf("%s: no finding", name)
			}
			same(t, name, strings.Join(e.Audit(t), "\n"), "")
		}
		e.Redis.ZAdd(t.Context(), key, redis.Z{Score: 5, Member: string(runs.ID)})
		expires(t, e, 1) // the entry goes, and the job runs on
		e.Finish(t, l)
	})
}

// Scripts and readers take the same options of a class, in one order, and no others.
func TestClassOptionsAreStrict(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(*queue.Options) {}, func(t *testing.T, e *queuetest.Env) {
		key := "uniq=" + job.Unique(uniqueHash, job.WhileLiving)
		for options, good := range map[string]bool{
			"": true, " exp=5": true, " " + key: true, " " + key + " exp=5": true,
			" exp=x": false, " exp=": false, " exp=5 " + key: false, " " + key + " exp=": false, " exp=5 exp=6": false,
			"  exp=5": false, " exp=5 ": false, " " + key + "  exp=5": false, " lane=5": false,
		} {
			id := e.Put(t, job.Paid)
			e.Edit(t, "job", id, func(text string) string { return strings.Replace(text, "\n", options+"\n", 1) })
			j, err := e.Find(t.Context(), id)
			if (err == nil) != good || good && strings.Contains(options, "exp=5") != (j.ExpiresMs == 5) {
				t.Errorf("%q: found %+v, %v", options, j.Options, err)
			}
			if word := e.Cancels(t, id); (word == job.WasCancelled) != good {
				t.Errorf("%q: a cancel answers %s", options, word)
			}
		}
		e.Broken(t)
	})
}
