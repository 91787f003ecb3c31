package queue_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// The keys have these names and types: a user who looks into Redis sees them.
func TestKeys(t *testing.T) {
	t.Attr("proves", "S2-K1 S2-K2 S2-K3 S2-K4 S2-K5 S2-K6")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		if err := e.CheckSetup(t.Context()); err != nil {
			t.Fatal(err)
		}
		retried := e.Start(t, job.Paid)
		got, err := e.Fail(t.Context(), 0, []job.Failure{failure(retried, time.Minute)})
		ends(t, got, err, job.OK)
		crashed, stuck, done := e.Start(t, job.Paid), e.Start(t, job.Paid), e.Start(t, job.Paid)
		e.Finish(t, done)
		e.Expire(t, job.Crashed, crashed.ID)
		e.Look(t, job.Crashed)
		e.Expire(t, job.Stuck, stuck.ID)
		e.Look(t, job.Stuck)
		ready := e.Put(t, job.Public)
		want := map[string]string{
			"{tierq:0}:main:queue":                         "zset",
			"{tierq:0}:scheduled":                          "zset",
			"{tierq:0}:processing:by-heartbeat":            "zset",
			"{tierq:0}:processing:by-maxtime":              "zset",
			"{tierq:0}:suspects:crashed":                   "zset",
			"{tierq:0}:suspects:stuck":                     "zset",
			"{tierq:0}:outbox":                             "zset",
			"{tierq:0}:counters":                           "hash",
			"{tierq:0}:clock":                              "string",
			"{tierq:0}:doorbell":                           "list",
			"{tierq:0}:claims:" + e.Options.Nonce:          "string",
			"{tierq:0}:job:metadata:" + string(retried.ID): "string",
			"{tierq:0}:job:metadata:" + string(crashed.ID): "string",
			"{tierq:0}:job:metadata:" + string(stuck.ID):   "string",
			"{tierq:0}:job:metadata:" + string(ready):      "string",
			"{tierq:0}:leases":                             "hash",
			"{tierq:0}:tried":                              "hash",
			"{tierq:0}:unacked":                            "hash",
			"{tierq:0}:ended:" + string(done.ID[:11]):      "hash",
			"{tierq:0}:job:attempts:" + string(retried.ID): "list",
			"{tierq}:system:config":                        "hash",
			"{tierq}:system:config:tier:PAID":              "hash",
			"{tierq}:system:config:tier:UNPAID":            "hash",
			"{tierq}:system:config:tier:PUBLIC":            "hash",
		}
		found := map[string]string{}
		for _, key := range e.AllKeys(t, "*") {
			if key != "testkit:reserved" {
				found[key] = e.Redis.Type(t.Context(), key).Val()
			}
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			same(t, "type of "+key, found[key], want[key])
			delete(found, key)
		}
		for p := range e.Options.Partitions { // without jobs they have their mark
			delete(found, queue.Key(p, "counters"))
		}
		for key := range found {
			t.Errorf("a key nobody knows: %s", key)
		}

		// S2-K4: the texts hold everything that the seed's hash holds.
		h := e.Snapshot(t).Jobs[string(retried.ID)]
		same(t, "state", h["state"], "SCHEDULED")
		same(t, "retries", h["retries"], "1")
		same(t, "first", h["first"], strconv.FormatInt(retried.FirstTriedAt.UnixMilli(), 10))
		same(t, "tier", h["tier"], "PAID")
		same(t, "arrival", h["arrived"], strconv.FormatInt(retried.ArrivedAt.UnixMilli(), 10))
		// S2-K5: the thresholds are those of the seed.
		plan := e.Redis.HGetAll(t.Context(), "{tierq}:system:config:tier:PUBLIC").Val()
		same(t, "heartbeat timeout", plan["heartbeatTimeoutMs"], "3000")
		same(t, "max processing time", plan["maxProcessingTimeMs"], "10000")
		same(t, "priority base", e.Redis.HGet(t.Context(), "{tierq}:system:config", "priorityBase").Val(), "10000000000000")
		// S2-K6: the capacity counter.
		same(t, "fresh", e.Redis.HGet(t.Context(), "{tierq:0}:counters", "fresh").Val(), "1")
	})
}

// A call touches one partition, which the job's id names.
func TestPartitions(t *testing.T) {
	t.Attr("proves", "S4-M2")
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Partitions, o.Capacity = 3, 30 },
		func(t *testing.T, e *queuetest.Env) {
			for p := range 3 {
				var batch []job.Submission
				for range 11 {
					s := queuetest.Job(job.Paid)
					s.ID = queuetest.NewID(p)
					batch = append(batch, s)
				}
				got, err := e.Words(t.Context(), p, batch)
				words(t, got, err, append(repeat(job.OK, 10), job.Full)...) // each partition has its part of the capacity
				j, err := e.Find(t.Context(), batch[0].ID)
				if err != nil || j.ID != batch[0].ID {
					t.Fatal(j, err)
				}
			}
			for p := range 3 {
				reply, err := e.Claim(t.Context(), p, e.NextClaim(100))
				if err != nil || len(reply.Leases) != 10 {
					t.Fatal(len(reply.Leases), err)
				}
				same(t, "partition", reply.Leases[0].ID.Partition(), p)
			}
			l, err := e.Levels(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			same(t, "running", l.Tiers[job.Paid].Running, 30)
		})
}
