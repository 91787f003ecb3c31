package queue_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

const uniqueHash = "00000000000000000000000000000007"

// unique returns a submission with the unique key of these tests.
func unique(while job.UniqueWhile, on job.UniqueOn) job.Submission {
	s := queuetest.Job(job.Paid)
	s.Unique, s.UniqueOn = job.Unique(uniqueHash, while), on
	return s
}

// with returns a submission with another payload.
func with(s job.Submission, payload string) job.Submission {
	s.Payload = []byte(payload)
	return s
}

// puts sends submissions in one call and returns the replies.
func puts(t *testing.T, e *queuetest.Env, batch ...job.Submission) []job.SubmitReply {
	t.Helper()
	replies, err := e.Submit(t.Context(), 0, batch)
	if err != nil {
		t.Fatal(err)
	}
	return replies
}

func replied(t *testing.T, got job.SubmitReply, word job.Word, first job.ID) {
	t.Helper()
	if got.Word != word || got.First != first {
		t.Fatalf("submit answers %s %s, want %s %s", got.Word, got.First, word, first)
	}
}

func find(t *testing.T, e *queuetest.Env, id job.ID) job.Job {
	t.Helper()
	j, err := e.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// While the holder lives, a submit on return is answered with the holder, one on refuse is refused. Each end of the
// holder frees the key.
func TestUniqueReturnAndRefuse(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		endings := map[string]func(l job.Lease){
			"complete": func(l job.Lease) { e.Finish(t, l) },
			"fail":     func(l job.Lease) { e.Bury(t, l) },
			"cancel": func(l job.Lease) {
				same(t, "cancel", e.Cancels(t, l.ID), job.Cancel)
				got, err := e.Fail(t.Context(), 0, []job.Failure{failure(l, 0)})
				ends(t, got, err, job.WasCancelled)
			},
			"reclaim": func(l job.Lease) {
				same(t, "cancel", e.Cancels(t, l.ID), job.Cancel)
				same(t, "reclaim", e.Reap(t, job.Crashed, l.ID)[l.ID], job.WasCancelled)
			},
		}
		for name, end := range endings {
			first := unique(job.WhileLiving, job.UniqueReturn)
			got := puts(t, e, first, unique(job.WhileLiving, job.UniqueReturn), unique(job.WhileLiving, job.UniqueRefuse))
			replied(t, got[0], job.OK, "")
			replied(t, got[1], job.IsUnique, first.ID)
			replied(t, got[2], job.IsTaken, first.ID)
			replied(t, puts(t, e, first)[0], job.Duplicate, "")
			l := e.Take(t, 1)[0]
			same(t, name+": its unique key", l.Unique, first.Unique)
			replied(t, puts(t, e, unique(job.WhileLiving, job.UniqueReturn))[0], job.IsUnique, first.ID)
			end(l)
			if hash, _, _ := e.Snapshot(t).UniqueOf(uniqueHash); hash != "" {
				t.Fatalf("after %s the key is %s's", name, hash)
			}
		}
		for name, end := range map[string]func(id job.ID){
			"cancel": func(id job.ID) { same(t, "cancel", e.Cancels(t, id), job.WasCancelled) },
			"kill":   func(id job.ID) { same(t, "kill", e.Kills(t, id), job.Discarded) },
		} {
			first, other := unique(job.WhileLiving, job.UniqueReturn), unique(job.WhileLiving, job.UniqueRefuse)
			replied(t, puts(t, e, first)[0], job.OK, "")
			end(first.ID)
			replied(t, puts(t, e, other)[0], job.OK, "")
			end(other.ID)
			if hash, _, _ := e.Snapshot(t).UniqueOf(uniqueHash); hash != "" {
				t.Fatalf("after a %s the key is %s's", name, hash)
			}
		}
	})
}

// While waiting: the claim frees the key. A job that waits again takes the key, unless another job has it.
func TestUniqueWhileWaiting(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		first := unique(job.WhileWaiting, job.UniqueReturn)
		replied(t, puts(t, e, first)[0], job.OK, "")
		l := e.Take(t, 1)[0]
		got, err := e.Fail(t.Context(), 0, []job.Failure{failure(l, 0)})
		ends(t, got, err, job.OK)
		replied(t, puts(t, e, unique(job.WhileWaiting, job.UniqueReturn))[0], job.IsUnique, first.ID)
		l = e.Take(t, 1)[0]
		second := unique(job.WhileWaiting, job.UniqueReturn)
		replied(t, puts(t, e, second)[0], job.OK, "")
		same(t, "reclaim", e.Reap(t, job.Crashed, l.ID)[l.ID], job.OK)
		replied(t, puts(t, e, unique(job.WhileWaiting, job.UniqueReturn))[0], job.IsUnique, second.ID)
		e.Finish(t, e.Take(t, 2)...)
	})
}

// A key for seconds is held from now on if Redis' clock was ahead, and arrivals are ahead therefore.
func TestUniqueForSecondsAfterAClockAhead(t *testing.T) {
	t.Attr("proves", "F34")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		ahead := time.Now().Add(time.Hour).UnixMilli()
		if err := e.Redis.Set(t.Context(), queue.Key(0, "clock"), ahead, 0).Err(); err != nil {
			t.Fatal(err)
		}
		reply := puts(t, e, unique(job.WhileSeconds(time.Minute), job.UniqueRefuse))[0]
		if reply.Word != job.OK || reply.ArrivedAt.UnixMilli() != ahead {
			t.Fatalf("%+v", reply)
		}
		for _, key := range e.AllKeys(t, "*"+uniqueHash) {
			if ttl := e.Redis.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > time.Minute {
				t.Errorf("the key is held for %s", ttl)
			}
		}
	})
}

// For seconds: the key outlives its holder, and nobody is HELD behind it.
func TestUniqueForSeconds(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		first := unique(job.WhileSeconds(time.Hour), job.UniqueReturn)
		replied(t, puts(t, e, first)[0], job.OK, "")
		e.Finish(t, e.Take(t, 1)...)
		replied(t, puts(t, e, unique(job.WhileSeconds(time.Hour), job.UniqueReturn))[0], job.IsUnique, first.ID)
		for _, on := range []job.UniqueOn{job.UniqueRefuse, job.UniqueAfter, job.UniqueReplace} {
			replied(t, puts(t, e, unique(job.WhileLiving, on))[0], job.IsTaken, first.ID)
		}
		ttl, err := e.Redis.PTTL(t.Context(), queue.UniqueKey(0, uniqueHash)).Result()
		if err != nil || ttl > time.Hour || ttl < 59*time.Minute {
			t.Errorf("the key's time to live is %s, %v", ttl, err)
		}
		e.Redis.Del(t.Context(), queue.UniqueKey(0, uniqueHash)) // an hour later
		replied(t, puts(t, e, unique(job.WhileSeconds(time.Hour), job.UniqueReturn))[0], job.OK, "")
	})
}

// A job on after is HELD, counts as delayed, and is PENDING once the holder has ended. There is one such job: a newer
// submit gives it its payload.
func TestUniqueAfter(t *testing.T) {
	t.Parallel()
	small := func(o *queue.Options) { o.Capacity, o.ScheduledLimit = 2, 1 }
	queuetest.EachWith(t, small, func(t *testing.T, e *queuetest.Env) {
		first, second := unique(job.WhileLiving, job.UniqueAfter), unique(job.WhileLiving, job.UniqueAfter)
		replied(t, puts(t, e, first)[0], job.OK, "")
		replied(t, puts(t, e, second)[0], job.IsHeld, "")
		replied(t, puts(t, e, with(unique(job.WhileLiving, job.UniqueAfter), `"newest"`))[0], job.Replaced, second.ID)
		replied(t, puts(t, e, later(job.Paid, time.Hour))[0], job.Full, "")
		held := find(t, e, second.ID)
		if held.Status != job.Held || !held.RunAt.IsZero() || string(held.Payload) != `"newest"` {
			t.Fatalf("the job behind the holder: %+v", held)
		}
		got, _, err := e.List(t.Context(), job.Filter{Status: job.Held}, "", 10)
		if err != nil || len(got) != 1 || got[0].ID != second.ID {
			t.Fatalf("the list of the HELD: %v, %v", got, err)
		}
		holder, err := e.Holder(t.Context(), &held)
		if err != nil || holder != first.ID {
			t.Fatalf("the holder is %s, %v", holder, err)
		}
		snap := e.Snapshot(t)
		same(t, "delayed", snap.Counters["delayed"], 1)
		same(t, "fresh", snap.Counters["fresh"], 1)
		l := e.Take(t, 1)[0]
		if n, err := e.Promote(t.Context(), 0); err != nil || n != 0 {
			t.Fatalf("promote moved %d, %v", n, err)
		}
		same(t, "hasten", e.Hastens(t, second.ID), job.OK)
		same(t, "hastened", find(t, e, second.ID).Status, job.Held)
		e.Finish(t, l)
		next := e.Take(t, 1)[0]
		if next.ID != second.ID || string(next.Payload) != `"newest"` || next.Attempt != 1 {
			t.Fatalf("claimed %+v", next)
		}
		same(t, "delayed", e.Snapshot(t).Counters["delayed"], 0)
		replied(t, puts(t, e, unique(job.WhileLiving, job.UniqueReturn))[0], job.IsUnique, second.ID)
		e.Finish(t, next)
	})
}

// A HELD job may be cancelled or killed, and may have a delay of its own. Then it is SCHEDULED once its key is free.
func TestUniqueHeldEndsAndWaits(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		first := unique(job.WhileLiving, job.UniqueAfter)
		replied(t, puts(t, e, first)[0], job.OK, "")
		for _, end := range []func(id job.ID){
			func(id job.ID) { same(t, "cancel", e.Cancels(t, id), job.WasCancelled) },
			func(id job.ID) { same(t, "kill", e.Kills(t, id), job.Discarded) },
		} {
			held := unique(job.WhileLiving, job.UniqueAfter)
			replied(t, puts(t, e, held)[0], job.IsHeld, "")
			end(held.ID)
			if _, _, behind := e.Snapshot(t).UniqueOf(uniqueHash); len(behind) > 0 {
				t.Fatalf("behind the holder: %v", behind)
			}
		}
		delayed := unique(job.WhileLiving, job.UniqueAfter)
		delayed.Delay = time.Hour
		replied(t, puts(t, e, delayed)[0], job.IsHeld, "")
		if j := find(t, e, delayed.ID); j.Status != job.Held || j.RunAt.Before(j.ArrivedAt.Add(59*time.Minute)) {
			t.Fatalf("the delayed job behind the holder: %+v", j)
		}
		same(t, "cancel", e.Cancels(t, first.ID), job.WasCancelled)
		if j := find(t, e, delayed.ID); j.Status != job.Scheduled || j.RunAt.Before(j.ArrivedAt.Add(59*time.Minute)) {
			t.Fatalf("the delayed job, let go: %+v", j)
		}
		same(t, "hasten", e.Hastens(t, delayed.ID), job.OK)
		e.Finish(t, e.Take(t, 1)...)
	})
}

// On replace a job that was never claimed gets the payload and the time of the new submit, and keeps its place and id.
// A claimed holder runs on, and the new job is HELD.
func TestUniqueReplace(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		first, bystander := unique(job.WhileLiving, job.UniqueReplace), queuetest.Job(job.Paid)
		got := puts(t, e, first, bystander, with(unique(job.WhileLiving, job.UniqueReplace), `"two"`))
		replied(t, got[0], job.OK, "")
		replied(t, got[2], job.Replaced, first.ID)
		place := e.Snapshot(t).Sets["queue"][string(first.ID)]
		delayed := with(unique(job.WhileLiving, job.UniqueReplace), `"three"`)
		delayed.Delay = time.Hour
		got = puts(t, e, delayed)
		replied(t, got[0], job.Replaced, first.ID)
		j := find(t, e, first.ID)
		if j.Status != job.Scheduled || !j.RunAt.Equal(got[0].Due) || string(j.Payload) != `"three"` || j.Generation != 1 {
			t.Fatalf("replaced with a delay: %+v, answered %+v", j, got[0])
		}
		bounded := delayed
		bounded.ID, bounded.MaxWait = queuetest.NewID(0), time.Minute
		got = puts(t, e, bounded)
		replied(t, got[0], job.Replaced, first.ID)
		if j = find(t, e, first.ID); !j.RunAt.Equal(j.ArrivedAt.Add(time.Minute)) || !got[0].Due.Equal(j.RunAt) {
			t.Fatalf("it arrived at %v and is due at %v, answered %v", j.ArrivedAt, j.RunAt, got[0].Due)
		}
		got = puts(t, e, with(unique(job.WhileLiving, job.UniqueReplace), `"four"`))
		replied(t, got[0], job.Replaced, first.ID)
		if !got[0].Due.IsZero() {
			t.Errorf("due at %v, not at once", got[0].Due)
		}
		same(t, "its place", e.Snapshot(t).Sets["queue"][string(first.ID)], place)
		l := e.Take(t, 1)[0]
		if l.ID != first.ID || string(l.Payload) != `"four"` {
			t.Fatalf("claimed %s with %s", l.ID, l.Payload)
		}
		last := with(unique(job.WhileLiving, job.UniqueReplace), `"five"`)
		replied(t, puts(t, e, last)[0], job.IsHeld, "")
		failed, err := e.Fail(t.Context(), 0, []job.Failure{failure(l, 0)}) // claimed once: it keeps its payload
		ends(t, failed, err, job.OK)
		replied(t, puts(t, e, with(unique(job.WhileLiving, job.UniqueReplace), `"six"`))[0], job.Replaced, last.ID)
		e.Finish(t, e.Take(t, 2)...)
		if l = e.Take(t, 1)[0]; l.ID != last.ID || string(l.Payload) != `"six"` {
			t.Fatalf("claimed %s with %s", l.ID, l.Payload)
		}
		e.Finish(t, l)
	})
}

// A submit to another tier or queue replaces no waiting holder: its job is HELD. A HELD job gets the new tier.
func TestUniqueReplaceInAnotherTier(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		first, held := unique(job.WhileLiving, job.UniqueReplace), unique(job.WhileLiving, job.UniqueReplace)
		held.Tier, held.MaxRetries, held.Owner = job.Public, 1, "ann"
		again := unique(job.WhileLiving, job.UniqueReplace)
		again.Tier, again.MaxRetries, again.Owner = job.Unpaid, 2, "ann"
		replied(t, puts(t, e, first)[0], job.OK, "")
		replied(t, puts(t, e, held)[0], job.IsHeld, "")
		same(t, "PUBLIC", e.Snapshot(t).Counters["PUBLIC:delayed"], 1)
		replied(t, puts(t, e, again)[0], job.Replaced, held.ID)
		snap := e.Snapshot(t)
		same(t, "PUBLIC", snap.Counters["PUBLIC:delayed"], 0)
		same(t, "UNPAID", snap.Counters["UNPAID:delayed"], 1)
		e.Finish(t, e.Take(t, 1)...)
		same(t, "tier", find(t, e, held.ID).Tier, job.Unpaid)
		e.Finish(t, e.Take(t, 1)...)
	})
}

// A requeued dead letter whose key a living job holds is HELD behind it, and behind the job that is HELD already; a
// submit replaces neither. Redis that lost all jobs gets them back with their keys.
func TestUniqueRequeueAndRestore(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		dead := unique(job.WhileLiving, job.UniqueAfter)
		replied(t, puts(t, e, dead)[0], job.OK, "")
		e.Bury(t, e.Take(t, 1)[0])
		e.Drain(t)
		holder, held := unique(job.WhileLiving, job.UniqueAfter), unique(job.WhileLiving, job.UniqueAfter)
		replied(t, puts(t, e, holder)[0], job.OK, "")
		replied(t, puts(t, e, held)[0], job.IsHeld, "")
		next := job.Job{ID: dead.ID, Generation: 2, Tier: job.Paid, Type: "SIMULATION", MaxRetries: 5, Attempt: 1,
			Payload: []byte(`"dead"`), Options: dead.Options}
		got, err := e.Requeue(t.Context(), 0, []job.Job{next})
		words(t, got, err, job.OK)
		same(t, "requeued", find(t, e, dead.ID).Status, job.Held)
		newest := with(unique(job.WhileLiving, job.UniqueAfter), `"newest"`)
		replied(t, puts(t, e, newest)[0], job.IsHeld, "")
		for _, id := range []job.ID{holder.ID, held.ID, dead.ID, newest.ID} {
			l := e.Take(t, 1)[0]
			same(t, "runs", l.ID, id)
			e.Finish(t, l)
		}

		rows := make([]job.JournalRow, 3)
		for i, s := range []job.Submission{unique(job.WhileLiving, ""), unique(job.WhileLiving, ""),
			unique(job.WhileSeconds(time.Hour), "")} {
			rows[i] = job.JournalRow{Job: job.Job{ID: s.ID, Generation: 1, Tier: s.Tier, Type: s.Type, Payload: s.Payload,
				MaxRetries: 5, Options: s.Options, ArrivedAt: time.UnixMilli(e.Now(t))}}
		}
		rows[0].Attempt, rows[0].FirstTriedAt, rows[0].Worker = 1, time.UnixMilli(e.Now(t)-1000), "dead"
		rows[0].StartedAt = rows[0].FirstTriedAt
		rows[2].Unique = job.Unique(strings.Repeat("a", 32), job.WhileSeconds(time.Hour))
		got, err = e.Restore(t.Context(), 0, rows, time.Now())
		words(t, got, err, job.OK, job.OK, job.OK)
		same(t, "runs", find(t, e, rows[0].ID).Status, job.Processing)
		same(t, "behind it", find(t, e, rows[1].ID).Status, job.Held)
		replied(t, puts(t, e, unique(job.WhileLiving, job.UniqueReturn))[0], job.IsUnique, rows[0].ID)
		ttl, err := e.Redis.PTTL(t.Context(), queue.UniqueKey(0, strings.Repeat("a", 32))).Result()
		if err != nil || ttl <= 0 || ttl > time.Hour {
			t.Errorf("the key for seconds has a time to live of %s, %v", ttl, err)
		}
		same(t, "reclaim", e.Reap(t, job.Crashed, rows[0].ID)[rows[0].ID], job.OK)
		e.Finish(t, e.Take(t, 2)...)
		l := e.Take(t, 1)[0]
		same(t, "the last", l.ID, rows[1].ID)
		e.Finish(t, l)
	})
}

// The audit repairs a key that nobody holds, one whose holder Redis does not have, and a HELD job behind nobody.
func TestUniqueIsAudited(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(*queue.Options) {}, func(t *testing.T, e *queuetest.Env) {
		key := queue.UniqueKey(0, uniqueHash)
		first := unique(job.WhileLiving, job.UniqueAfter)
		wrong := map[string]func(ctx context.Context){
			"no key":        func(ctx context.Context) { e.Redis.Del(ctx, key) },
			"another's":     func(ctx context.Context) { e.Redis.Set(ctx, key, string(queuetest.NewID(0))+" 1 ", 0) },
			"no list":       func(ctx context.Context) { e.Redis.Set(ctx, key, string(first.ID)+" 1 ", 0) },
			"another type":  func(ctx context.Context) { e.Redis.Del(ctx, key); e.Redis.LPush(ctx, key, "x") },
			"a list, twice": func(ctx context.Context) { e.Redis.Set(ctx, key, string(first.ID)+" 1 "+string(first.ID), 0) },
		}
		for name, breaks := range wrong {
			first = unique(job.WhileLiving, job.UniqueAfter)
			held := unique(job.WhileLiving, job.UniqueAfter)
			replied(t, puts(t, e, first)[0], job.OK, "")
			replied(t, puts(t, e, held)[0], job.IsHeld, "")
			l := e.Take(t, 1)[0]
			breaks(t.Context())
			findings := pass(t, e.Queue, func(job.ID) []job.Recorded { return nil })
			findings = append(findings, pass(t, e.Queue, func(job.ID) []job.Recorded { return nil })...)
			if len(findings) == 0 {
				t.Errorf("%s: no finding", name)
			}
			if again := pass(t, e.Queue, func(job.ID) []job.Recorded { return nil }); len(again) > 0 {
				t.Errorf("%s: found again: %v", name, again)
			}
			same(t, name, strings.Join(e.Audit(t), "\n"), "")
			e.Finish(t, l)
			e.Finish(t, e.Take(t, 1)...)
		}
		e.Redis.Set(t.Context(), key, string(queuetest.NewID(0))+" 1 ", 0)
		findings := pass(t, e.Queue, func(job.ID) []job.Recorded { return nil })
		if len(findings) != 1 || findings[0].Kind != "unique" {
			t.Errorf("a key of a job that is not there: %v", findings)
		}
	})
}
