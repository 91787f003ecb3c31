package queue_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// lives has the ids of jobs in every state.
type lives struct{ waiting, delayed, running, done, dead, acknowledged job.ID }

func everyState(t *testing.T, e *queuetest.Env) lives {
	t.Helper()
	acknowledged := e.Start(t, job.Paid)
	e.Finish(t, acknowledged)
	e.Drain(t)
	running, done, dead := e.Start(t, job.Paid), e.Start(t, job.Paid), e.Start(t, job.Paid)
	e.Finish(t, done)
	e.Bury(t, dead)
	delayed := later(job.Unpaid, time.Hour)
	delayed.Owner = "ann"
	e.PutAll(t, delayed)
	l := lives{waiting: e.Put(t, job.Public), delayed: delayed.ID, running: running.ID, done: done.ID, dead: dead.ID,
		acknowledged: acknowledged.ID}
	if wrong := e.Audit(t); len(wrong) > 0 {
		t.Fatalf("before anything was broken: %q", wrong)
	}
	return l
}

type breaker func(ctx context.Context, c redis.UniversalClient, l lives)

// corruption is one kind of edit by hand, and what the audit of queuetest says about it.
type corruption struct {
	broken breaker
	says   string
}

func corruptions() map[string]corruption {
	add := func(name string, id func(lives) job.ID, score float64) breaker {
		return func(ctx context.Context, c redis.UniversalClient, l lives) {
			c.ZAdd(ctx, queue.Key(0, name), redis.Z{Score: score, Member: string(id(l))})
		}
	}
	remove := func(name string, id func(lives) job.ID) breaker {
		return func(ctx context.Context, c redis.UniversalClient, l lives) {
			c.ZRem(ctx, queue.Key(0, name), string(id(l)))
		}
	}
	count := func(field string) breaker {
		return func(ctx context.Context, c redis.UniversalClient, _ lives) {
			c.HIncrBy(ctx, queue.Key(0, "counters"), field, 1)
		}
	}
	owner := func(name string, n any) breaker {
		return func(ctx context.Context, c redis.UniversalClient, _ lives) {
			c.HSet(ctx, queue.Key(0, "owners"), name, n)
		}
	}
	edit := func(of string, id func(lives) job.ID, change func(text string) string) breaker {
		return func(ctx context.Context, c redis.UniversalClient, l lives) {
			if err := queuetest.EditText(ctx, c, of, id(l), change); err != nil {
				panic(err)
			}
		}
	}
	set := func(of string, id func(lives) job.ID, text string) breaker {
		return func(ctx context.Context, c redis.UniversalClient, l lives) {
			c.HSet(ctx, queue.Key(0, of), string(id(l)), text)
		}
	}
	record := func(id func(lives) job.ID, text string) breaker {
		return func(ctx context.Context, c redis.UniversalClient, l lives) {
			if text == "" {
				c.Del(ctx, queue.JobKey(id(l)))
				return
			}
			c.Set(ctx, queue.JobKey(id(l)), text, 0)
		}
	}
	do := func(f func(ctx context.Context, c redis.UniversalClient, l lives)) breaker { return f }
	waiting := func(l lives) job.ID { return l.waiting }
	running := func(l lives) job.ID { return l.running }
	done := func(l lives) job.ID { return l.done }
	dead := func(l lives) job.ID { return l.dead }
	acknowledged := func(l lives) job.ID { return l.acknowledged }
	return map[string]corruption{
		"in two sets":         {add("scheduled", waiting, 1), "is in [queue scheduled], not in [scheduled]"},
		"running and waiting": {add("queue", running, 1), "is in [queue heartbeat_deadlines run_deadlines]"},
		"in no set":           {remove("queue", waiting), "is in [], not in [queue]"},
		"missing from run_deadlines": {remove("run_deadlines", running),
			"is in [heartbeat_deadlines], not in [heartbeat_deadlines run_deadlines]"},
		"missing from heartbeat_deadlines": {remove("heartbeat_deadlines", running),
			"is in [run_deadlines], not in [heartbeat_deadlines run_deadlines]"},
		"ended, not in the outbox":    {remove("outbox", done), "unacked of slice"},
		"acknowledged, in the outbox": {add("outbox", acknowledged, 1), "is not there, counted 1"},
		"wrong score":                 {add("queue", waiting, 5), "score 5 in the queue"},
		"quarantined":                 {add("quarantine", waiting, 1), "1 in quarantine"},
		"counter off by one":          {count("fresh"), "counter fresh is 2, counted 1"},
		"tier's counter off by one":   {count("PAID:running"), "counter PAID:running is 2, counted 1"},
		"counter of nothing":          {count("GOLD:ready"), "counter GOLD:ready is 1, counted 0"},
		"an owner of too many":        {owner("ann", 2), "counter of owner ann is 2, counted 1"},
		"an owner of nothing":         {owner("eve", 1), "counter of owner eve is 1, counted 0"},
		"an owner at nought":          {owner("eve", 0), "counter of owner eve is 0, counted 0"},
		"an owner below nought":       {owner("eve", -1), "counter of owner eve is -1, counted 0"},
		"an owner of words":           {owner("eve", "x"), "counter of owner eve is 0, counted 0"},
		"an owner forgotten": {do(func(ctx context.Context, c redis.UniversalClient, _ lives) {
			c.Del(ctx, queue.Key(0, "owners"))
		}), "counter of owner ann is not there, counted 1"},
		"outbox bytes":                  {count("outbox_bytes"), "counter outbox_bytes"},
		"bytes of the living":           {count("bytes"), "counter bytes is "},
		"a tier's bytes of the delayed": {count("PUBLIC:delayedbytes"), "counter PUBLIC:delayedbytes is "},
		"no record":                     {record(waiting, ""), "in queue without a job"},
		"a time to live on the living": {do(func(ctx context.Context, c redis.UniversalClient, l lives) {
			c.Expire(ctx, queue.JobKey(l.running), time.Hour)
		}), "its record has a time to live"},
		"a time to live on what SQL lacks": {do(func(ctx context.Context, c redis.UniversalClient, l lives) {
			c.Expire(ctx, queue.EndedKey(l.done), time.Hour)
		}), "in the outbox, its time to live is"},
		"none on the acknowledged": {do(func(ctx context.Context, c redis.UniversalClient, l lives) {
			c.Persist(ctx, queue.EndedKey(l.acknowledged))
		}), "0 jobs in the outbox, its time to live is"},
		"a slice of another type": {do(func(ctx context.Context, c redis.UniversalClient, _ lives) {
			c.Set(ctx, queue.Key(0, "ended")+"019de340-zz", "x", 0)
		}), "ended:019de340-zz is a string"},
		"a slice unacked too often": {do(func(ctx context.Context, c redis.UniversalClient, l lives) {
			c.HIncrBy(ctx, queue.Key(0, "unacked"), string(l.done[:11]), 1)
		}), "unacked of slice"},
		"a slice that nothing counts": {do(func(ctx context.Context, c redis.UniversalClient, _ lives) {
			c.Del(ctx, queue.Key(0, "unacked"))
		}), "is not there, counted"},
		"payload dropped early": {record(dead, ""), "has a record: false"},
		"payload kept for ever": {record(acknowledged, "PAID main 1 5 - 0\n1 1 1 X -\nx"), "has a record: true"},
		"no head":               {record(waiting, "x"), "torn: x"},
		"half a head":           {record(waiting, "PAID main 1 5 - 0\n1 1"), "torn: "},
		"half a lease":          {set("leases", running, "PAID main 1 5 - 0 1\n1 1 1 X -"), "torn: "},
		"a lease of another class": {
			edit("leases", running, queuetest.WithWord("leases", "max_retries", "7")), "of the record",
		},
		"too many retries": {
			edit("leases", running, queuetest.WithWord("leases", "retries", "6")), "6 retries of 5",
		},
		"a lease of a waiting job": {
			set("leases", waiting, "PAID main 1 5 - 0 1 0 1 1 0 x:1\n1 1 1 X -"), "PROCESSING is in [queue]",
		},
		"attempts of an ended job":       {set("tried", done, "1 0 1 1 0 - 0 0 0 0 - - 0 - "), "COMPLETED, and in tried"},
		"a checkpoint of an ended job":   {set("checkpoints", done, "1 1 x"), "COMPLETED, and in checkpoints"},
		"a checkpoint that is uncounted": {set("checkpoints", running, "1 1 x"), "counter bytes is "},
		"ended before it started": {edit("ended", done, func(text string) string {
			words := strings.SplitN(text, " ", 3)
			return words[0] + " 7 " + words[2]
		}), "ended 7"},
		"another attempt in the outbox": {do(func(ctx context.Context, c redis.UniversalClient, l lives) {
			c.ZRem(ctx, queue.Key(0, "outbox"), string(l.done))
			c.ZAdd(ctx, queue.Key(0, "outbox"), redis.Z{Score: 1, Member: string(l.done) + " 2 1"})
		}), "outbox has "},
		"history left": {do(func(ctx context.Context, c redis.UniversalClient, l lives) {
			c.RPush(ctx, queue.Key(0, "attempts")+string(l.acknowledged), "x")
		}), "history of a job that is acknowledged"},
		"history of nobody": {do(func(ctx context.Context, c redis.UniversalClient, _ lives) {
			c.RPush(ctx, queue.Key(0, "attempts")+"x", "x")
		}), "history of a job that is acknowledged or gone"},
		"a history of another type": {do(func(ctx context.Context, c redis.UniversalClient, l lives) {
			c.Set(ctx, queue.Key(0, "attempts")+string(l.dead), "x", 0)
		}), "is a string, not a \"list\""},
		"a running job's history of another type": {do(func(ctx context.Context, c redis.UniversalClient, l lives) {
			c.Set(ctx, queue.Key(0, "attempts")+string(l.running), "x", 0)
		}), "is a string, not a \"list\""},
		"two tokens": {do(func(ctx context.Context, c redis.UniversalClient, _ lives) {
			c.RPush(ctx, queue.Key(0, "doorbell"), "1", "1")
		}), "tokens on the doorbell"},
		"a key nobody knows": {do(func(ctx context.Context, c redis.UniversalClient,
			_ lives) {
			c.Set(ctx, "{tierq:0}:main:que", "1", 0)
		}), "key main:que is a string"},
		"a key of another type": {do(func(ctx context.Context, c redis.UniversalClient, _ lives) {
			c.HSet(ctx, "{tierq:0}:suspects:crashed", "1", 0)
		}), "suspects:crashed is a hash"},
		"a claim kept for ever": {do(func(ctx context.Context, c redis.UniversalClient, _ lives) {
			c.Set(ctx, "{tierq:0}:claims:x", "1 ", 0)
		}), "claims:x stays for ever"},
		"a time to live on a whole set": {do(func(ctx context.Context, c redis.UniversalClient, _ lives) {
			c.Expire(ctx, queue.Key(0, "queue"), time.Hour)
		}), "main:queue has a time to live"},
	}
}

// The audit of queuetest reports each kind of corruption, one at a time.
func TestAuditSeesCorruption(t *testing.T) {
	t.Attr("proves", "F53")
	t.Parallel()
	for name, c := range corruptions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := queuetest.Embedded(t, func(*queue.Options) {})
			l := everyState(t, e)
			c.broken(t.Context(), e.Redis, l)
			e.Broken(t, c.says)
		})
	}
}

// Missing names the ids that Redis does not have, in order, whether all of them, some or none are missing.
func TestMissing(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		ids := make([]job.ID, 2*job.MaxBatch)
		for i := range ids {
			ids[i] = queuetest.NewID(0)
		}
		ask := func(want ...job.ID) {
			t.Helper()
			got, err := e.Missing(t.Context(), ids)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%d of %d are missing, %v; want %d", len(got), len(ids), err, len(want))
			}
		}
		ask(ids...)
		var want []job.ID
		for i, id := range ids {
			if i == 3 || i == 64 || i > 150 && i%3 == 0 {
				want = append(want, id)
				continue
			}
			s := queuetest.Job(job.Paid)
			s.ID = id
			e.PutAll(t, s)
		}
		ask(want...)
		for _, id := range want {
			s := queuetest.Job(job.Paid)
			s.ID = id
			e.PutAll(t, s)
		}
		ask()
	})
}
