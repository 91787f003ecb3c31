package queue_test

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

func TestClaim(t *testing.T) {
	t.Attr("proves", "S2-S5 S2-G1 S0-S3 S3-S4")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		s, bystander := queuetest.Job(job.Unpaid), e.Put(t, job.Public)
		e.PutAll(t, s)
		before := e.Now(t)
		l := e.Take(t, 1)[0]
		after := e.Now(t)
		same(t, "id", l.ID, s.ID)
		same(t, "status", l.Status, job.Processing)
		same(t, "attempt", l.Attempt, 1)
		same(t, "retries", l.RetryCount, 0)
		same(t, "token", l.Token, e.Options.Nonce+":1")
		same(t, "payload", string(l.Payload), string(s.Payload))
		same(t, "max retries", l.MaxRetries, 2)
		same(t, "first tried", l.FirstTriedAt, l.StartedAt)
		if at := l.StartedAt.UnixMilli(); at < before || at > after {
			t.Errorf("started at %d, Redis' clock went from %d to %d", at, before, after)
		}
		snap := e.Snapshot(t)
		same(t, "state", snap.State(s.ID), job.Processing)
		same(t, "bystander", snap.State(bystander), job.Pending)
		same(t, "queued", len(snap.Sets["queue"]), 1)
		same(t, "running", snap.Counters["UNPAID:running"], 1)
		same(t, "ready", snap.Counters["UNPAID:ready"], 0)
		same(t, "fresh", snap.Counters["fresh"], 1)
	})
}

func TestClaimDeadlines(t *testing.T) {
	t.Attr("proves", "S2-N5 S2-N6 S2-K2 S2-K3 T-4")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for _, c := range []struct {
			tier            job.Tier
			beat, processed time.Duration
		}{
			{job.Paid, 15 * time.Second, 50 * time.Second},
			{job.Unpaid, 6 * time.Second, 20 * time.Second},
			{job.Public, 3 * time.Second, 10 * time.Second},
		} {
			l := e.Start(t, c.tier)
			snap, started := e.Snapshot(t), float64(l.StartedAt.UnixMilli())
			same(t, string(c.tier)+" beat deadline", snap.Sets["heartbeat_deadlines"][string(l.ID)]-started,
				float64(c.beat.Milliseconds()))
			same(t, string(c.tier)+" max time deadline", snap.Sets["run_deadlines"][string(l.ID)]-started,
				float64(c.processed.Milliseconds()))
		}

		// A process that has not read a plan uses the times of the first default plan for that plan's jobs.
		gold := job.DefaultPlans()[2]
		gold.Tier, gold.HeartbeatTimeout = "GOLD", time.Second
		if _, err := e.StorePlan(t.Context(), gold, queue.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if err := e.LoadPlans(t.Context()); err != nil {
			t.Fatal(err)
		}
		id := e.Put(t, "GOLD")
		e.Plans.Set(job.DefaultPlans())
		l := e.Take(t, 1)[0]
		same(t, "unknown tier's beat deadline",
			e.Snapshot(t).Sets["heartbeat_deadlines"][string(id)]-float64(l.StartedAt.UnixMilli()), 15_000.0)
	})
}

func TestClaimTwice(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		e.PutAll(t, queuetest.Job(job.Paid), queuetest.Job(job.Paid), queuetest.Job(job.Paid), queuetest.Job(job.Paid))
		r := e.NextClaim(3)
		first, err := e.Claim(t.Context(), 0, r)
		if err != nil || len(first.Leases) != 3 {
			t.Fatal(first, err)
		}
		before := e.Snapshot(t)
		again, err := e.Claim(t.Context(), 0, r)
		if err != nil {
			t.Fatal(err)
		}
		if again.Now.Before(first.Now) {
			t.Errorf("Redis' time is %s, and was %s", again.Now, first.Now)
		}
		again.Now = first.Now
		same(t, "the same answer", fmt.Sprintf("%+v", again), fmt.Sprintf("%+v", first))
		e.Unchanged(t, before)

		// A job that has ended or was lost meanwhile is not handed out again.
		e.Finish(t, first.Leases[0])
		e.Reap(t, job.Crashed, first.Leases[1].ID)
		before = e.Snapshot(t)
		again, err = e.Claim(t.Context(), 0, r)
		if err != nil || len(again.Leases) != 1 || again.Leases[0].ID != first.Leases[2].ID {
			t.Fatal(again, err)
		}
		e.Unchanged(t, before)

		// A late copy of a claim before the last one gets no leases.
		e.Take(t, 1)
		before = e.Snapshot(t)
		again, err = e.Claim(t.Context(), 0, r)
		if err != nil || len(again.Leases) != 0 || !math.IsInf(again.Next, 1) {
			t.Fatal(again, err)
		}
		e.Unchanged(t, before)
	})
}

func TestClaimIsForgotten(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		key := "claims:" + e.Options.Nonce
		e.Start(t, job.Paid)
		if ttl := e.Snapshot(t).Keys[key].TTL; ttl <= 59*time.Second || ttl > time.Minute {
			t.Errorf("the claim is kept for %s", ttl)
		}
		e.Elapse(t, time.Minute)
		if _, there := e.Snapshot(t).Keys[key]; there {
			t.Error("the claim is still there after a minute")
		}
	})
}

func TestClaimByTwoProcesses(t *testing.T) {
	t.Attr("proves", "S0-S3 S0-P3")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		a, b := e.Put(t, job.Paid), e.Put(t, job.Paid)
		other := e.Process("other")
		r := job.ClaimRequest{Number: 1, Max: 1, Bound: math.Inf(1)}
		one, err := e.Claim(t.Context(), 0, r)
		if err != nil || len(one.Leases) != 1 || one.Leases[0].ID != a {
			t.Fatal(one, err)
		}
		two, err := other.Claim(t.Context(), 0, r) // another process counts its claims by itself
		if err != nil || len(two.Leases) != 1 || two.Leases[0].ID != b {
			t.Fatal(two, err)
		}
		same(t, "other's token", two.Leases[0].Token, "other:1")
	})
}

func TestClaimBoundAndNext(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		paid, unpaid := e.Put(t, job.Paid), e.Put(t, job.Unpaid)
		scores := e.Snapshot(t).Sets["queue"]
		r := e.NextClaim(10)
		r.Bound = scores[string(unpaid)] - 1
		reply, err := e.Claim(t.Context(), 0, r)
		if err != nil || len(reply.Leases) != 1 || reply.Leases[0].ID != paid {
			t.Fatal(reply, err)
		}
		same(t, "next", reply.Next, scores[string(unpaid)])
		r = e.NextClaim(10)
		r.Bound = scores[string(unpaid)] // the bound is inclusive
		reply, err = e.Claim(t.Context(), 0, r)
		if err != nil || len(reply.Leases) != 1 {
			t.Fatal(reply, err)
		}
		if !math.IsInf(reply.Next, 1) {
			t.Errorf("next is %f in an empty queue", reply.Next)
		}
	})
}

func TestClaimBytes(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for range 2 {
			batch := make([]job.Submission, 15)
			for i := range batch {
				batch[i] = queuetest.Job(job.Paid)
				batch[i].Payload = bytes.Repeat([]byte("x"), 64<<10)
			}
			e.PutAll(t, batch...)
		}
		reply, err := e.Claim(t.Context(), 0, e.NextClaim(100))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "jobs of 64 KiB in one claim", len(reply.Leases), 15) // with their heads just below 1 MiB
		e.Take(t, 15)
	})
}

func TestClaimHundred(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		batch := make([]job.Submission, 100)
		for i := range batch {
			batch[i] = queuetest.Job(job.Public)
		}
		e.PutAll(t, batch...)
		e.Put(t, job.Public)
		e.Take(t, 100)
		e.Take(t, 1)
		same(t, "running", e.Snapshot(t).Counters["PUBLIC:running"], 101)
	})
}

func TestClaimQuarantines(t *testing.T) {
	t.Attr("proves", "F53")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		running := e.Start(t, job.Paid).ID
		gone, torn, good := e.Put(t, job.Paid), e.Put(t, job.Paid), e.Put(t, job.Paid)
		e.Redis.Del(t.Context(), queue.JobKey(gone))
		e.Edit(t, "job", torn, func(text string) string { return text[:20] })
		e.Redis.ZAdd(t.Context(), queue.Key(0, "queue"), redis.Z{Score: 1, Member: string(running)})
		reply, err := e.Claim(t.Context(), 0, e.NextClaim(10))
		if err != nil || len(reply.Leases) != 1 || reply.Leases[0].ID != good {
			t.Fatal(reply, err)
		}
		snap := e.Snapshot(t)
		same(t, "queued", len(snap.Sets["queue"]), 0) // no worker claims them again
		e.Broken(t, "3 in quarantine", fmt.Sprintf("%s: in quarantine without a job", gone))
	})
}

func TestClaimKeepsFirstTriedAt(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid)
		back := l.FirstTriedAt.Add(-time.Hour).UnixMilli() // as if the first claim had been an hour ago
		e.SetWord(t, "leases", l.ID, "first", strconv.FormatInt(back, 10))
		e.Reap(t, job.Crashed, l.ID)
		again := e.Take(t, 1)[0]
		same(t, "first tried", again.FirstTriedAt.UnixMilli(), back)
		same(t, "attempt", again.Attempt, 2)
		same(t, "retries", again.RetryCount, 1)
		same(t, "crashes", again.Crashes, 1)
		if again.Token == l.Token {
			t.Error("the second claim has the token of the first")
		}
	})
}
