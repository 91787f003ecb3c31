package queue_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// heavy returns a submission with a payload of so many bytes.
func heavy(tier job.Tier, bytes int) job.Submission {
	s := queuetest.Job(tier)
	s.Payload = []byte(strings.Repeat("1", bytes))
	return s
}

// submits submits n equal jobs. It returns how many were accepted, and whether the others were refused by a limit
// of living jobs.
func submits(t *testing.T, e *queuetest.Env, like job.Submission, n int) (accepted int, living bool) {
	t.Helper()
	batch := make([]job.Submission, n)
	for i := range batch {
		batch[i] = like
		batch[i].ID = queuetest.NewID(0)
	}
	got, err := e.Submit(t.Context(), 0, batch)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range got {
		if r.Word == job.OK {
			accepted++
		}
		living = living || r.Word == job.Full && r.Living
	}
	return accepted, living
}

// Jobs that were claimed once count for as long as they live: a flood of jobs that are later or retried uses up
// only its own tier's share.
func TestLiving_AFloodThatIsLaterLeavesRoom(t *testing.T) {
	t.Attr("proves", "A29")
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.LivingLimit = 20 }, func(t *testing.T, e *queuetest.Env) {
		want := func(what string, tier job.Tier, n, most int) {
			t.Helper()
			if got, living := submits(t, e, queuetest.Job(tier), n); got != most || living != (most < n) {
				t.Errorf("%s: %d of %d, living %v, want %d", what, got, n, living, most)
			}
		}
		want("a first flood", job.Public, 5, 5)
		for i, l := range e.Take(t, 5) { // two are later, one backs off, one is ready again, one runs
			var err error
			switch i {
			case 0, 1:
				_, err = e.Release(t.Context(), 0, []job.Release{{LeaseRef: l.Ref(), Delay: time.Hour, Reason: "busy"}})
			case 2:
				_, err = e.Fail(t.Context(), 0, []job.Failure{{LeaseRef: l.Ref(), Cause: job.HandlerError, Delay: time.Hour}})
			case 3:
				_, err = e.Fail(t.Context(), 0, []job.Failure{{LeaseRef: l.Ref(), Cause: job.HandlerError}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		want("the flood goes on", job.Public, 20, 7) // 60 % of 20
		want("UNPAID", job.Unpaid, 20, 5)            // 85 %
		want("PAID", job.Paid, 20, 3)
		want("PAID once more", job.Paid, 1, 0)

		owed := living(queuetest.NewID(0), func(l *job.JournalRow) { l.Tier, l.ArrivedAt = job.Public, time.Time{} })
		waits, runs := living(queuetest.NewID(0)), living(queuetest.NewID(0), ran)
		restore(t, e, []job.JournalRow{owed, waits, runs}, job.OK, job.OK, job.OK)
		e.Finish(t, e.Take(t, 18)...)
		want("PUBLIC after most have ended", job.Public, 20, 7) // five live: two run, three are scheduled
	})
}

// The bytes of payloads and checkpoints count against the limit, and jobs scheduled at submit may use half of it.
func TestLiving_Bytes(t *testing.T) {
	t.Attr("proves", "A29")
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.LivingBytes = 10_000 }, func(t *testing.T, e *queuetest.Env) {
		late := heavy(job.Public, 1000)
		late.Delay = time.Hour
		if n, _ := submits(t, e, late, 10); n != 3 { // 60 % of 5000
			t.Errorf("%d for later, want 3", n)
		}
		if n, living := submits(t, e, heavy(job.Public, 1000), 10); n != 3 || !living {
			t.Errorf("%d of PUBLIC, want 3; living: %v", n, living)
		}
		if n, _ := submits(t, e, heavy(job.Paid, 0), 10); n != 10 {
			t.Errorf("%d of PAID without payload, want 10", n)
		}
		l := e.Take(t, 1)[0]
		beat := job.Beat{LeaseRef: l.Ref(), Timeout: time.Minute, Save: 1, Checkpoint: []byte(strings.Repeat("c", 5000))}
		if _, err := e.Heartbeat(t.Context(), 0, []job.Beat{beat}); err != nil {
			t.Fatal(err)
		}
		if n, _ := submits(t, e, heavy(job.Paid, 1), 1); n != 0 {
			t.Error("a checkpoint that fills the limit is not counted")
		}
		e.Finish(t, l)
		if n, _ := submits(t, e, heavy(job.Paid, 4000), 2); n != 1 {
			t.Errorf("%d of PAID, want 1", n)
		}
	})
}

// Each partition has its part of the limit of living jobs.
func TestLiving_OfAPartition(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Partitions, o.LivingLimit = 2, 20 },
		func(t *testing.T, e *queuetest.Env) {
			if n, _ := submits(t, e, queuetest.Job(job.Paid), 20); n != 10 {
				t.Errorf("%d jobs live in one of two partitions, want 10", n)
			}
		})
}

// again claims the only job, releases it for later, and makes it due.
func again(t *testing.T, e *queuetest.Env) job.Word {
	t.Helper()
	give := []job.Release{{LeaseRef: e.Take(t, 1)[0].Ref(), Delay: time.Hour, Reason: notYet}}
	got, err := e.Release(t.Context(), 0, give)
	if err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	e.Age(t, "scheduled", 2*time.Hour)
	if _, err := e.Promote(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	return got[0].Word
}

// A job may be later without a retry for a number of times and for a time. After that each later costs a retry,
// and without a retry left the job fails.
func TestLater_HasBounds(t *testing.T) {
	t.Parallel()
	small := func(o *queue.Options) { o.LaterLimit, o.LaterAge = 3, 24*time.Hour }
	queuetest.EachWith(t, small, func(t *testing.T, e *queuetest.Env) {
		once := queuetest.Job(job.Paid)
		once.MaxRetries = 1
		e.PutAll(t, once)
		attempts := 0
		for word := job.OK; word == job.OK && attempts < 16; attempts++ {
			word = again(t, e)
		}
		j := e.Drain(t)[0]
		same(t, "attempts", attempts, 5)
		same(t, "retries", j.RetryCount, 1)
		same(t, "cause", j.Cause, job.LaterLimit)
		same(t, "error", j.LastError, "later more than 3 times: "+notYet)
		same(t, "bytes", e.Snapshot(t).Counters["bytes"], 0)

		aged := queuetest.Job(job.Paid)
		aged.MaxRetries = 0
		e.PutAll(t, aged)
		l := e.Take(t, 1)[0]
		e.SetWord(t, "leases", l.ID, "first", fmt.Sprint(e.Now(t)-24*time.Hour.Milliseconds()))
		got, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: l.Ref(), Delay: time.Minute, Reason: notYet}})
		ends(t, got, err, job.Discarded)
		same(t, "error", e.Drain(t)[0].LastError, "later than 86400 s after its first attempt: "+notYet)
	})
}

// A job whose type no worker knows costs no retry, waits twice as long each time, and is a dead letter in the end. A
// worker that knows the type begins the wait anew.
func TestUnknownType_WaitsForAWorker(t *testing.T) {
	t.Parallel()
	patient := func(o *queue.Options) { o.UnknownFor = time.Hour }
	queuetest.EachWith(t, patient, func(t *testing.T, e *queuetest.Env) {
		e.PutAll(t, queuetest.Job(job.Paid))
		id := job.ID("")
		delay := func() time.Duration { // of the next attempt, to the second
			l := e.Take(t, 1)[0]
			id = l.ID
			got, err := writes["unknown"](t.Context(), e.Queue, l.Ref())
			ends(t, got, err, job.OK)
			due, err := e.Redis.ZScore(t.Context(), queue.Key(0, "scheduled"), string(l.ID)).Result()
			if err != nil {
				t.Fatal(err)
			}
			e.Age(t, "scheduled", 1000*time.Hour)
			if _, err := e.Promote(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			return time.Duration(int64(due)-got[0].At.UnixMilli()) * time.Millisecond
		}
		var delays []time.Duration
		for range 10 {
			delays = append(delays, delay())
		}
		same(t, "delays", fmt.Sprint(delays), "[2s 4s 8s 16s 32s 1m4s 2m8s 4m16s 5m0s 5m0s]")
		o, err := e.Find(t.Context(), id)
		same(t, "error", err, nil)
		same(t, "retries", o.RetryCount, 0)
		same(t, "what it waits for", fmt.Sprint(o.Cause, " ", o.LastError), "UNKNOWN_JOB_TYPE no worker knows it")
		if word := again(t, e); word != job.OK {
			t.Fatalf("a worker that knows the type: %s", word)
		}
		known, err := e.Find(t.Context(), id)
		same(t, "error", err, nil)
		same(t, "what a worker that knows the type leaves", fmt.Sprint(known.Cause, known.LastError), "")
		same(t, "the delay after it", delay(), 2*time.Second)

		l := e.Take(t, 1)[0]
		long := e.Now(t) - time.Hour.Milliseconds()
		e.SetWord(t, "tried", l.ID, "since", fmt.Sprint(long))
		got, err := writes["unknown"](t.Context(), e.Queue, l.Ref())
		ends(t, got, err, job.Discarded)
		dead := e.Drain(t)[0]
		same(t, "retries", dead.RetryCount, 0)
		same(t, "cause", dead.Cause, job.UnknownJobType)
	})
}

// The jobs of a caller without a key count for the caller's network, in all their transitions; they do not count
// for other networks or for owners.
func TestQuotaOfStrangers(t *testing.T) {
	t.Attr("proves", "A29")
	t.Parallel()
	queuetest.EachWith(t, func(*queue.Options) {}, func(t *testing.T, e *queuetest.Env) {
		of := func(from, callback string) job.Submission {
			s := owned("", 2)
			s.From, s.CallbackURL = from, callback
			return s
		}
		const one, two = "~0123456789abcdef", "~fedcba9876543210"
		liar := of(one, `https://example.com/?"from":"`+two+`"`)
		got, err := e.Words(
			t.Context(), 0,
			[]job.Submission{of(one, ""), liar, of(one, ""), of(two, ""), owned("ann", 1), owned("", 1)},
		)
		words(t, got, err, job.OK, job.OK, job.Quota, job.OK, job.OK, job.OK)
		owners(t, e, "three callers", map[string]int64{one: 2, two: 1, "ann": 1})
		leases := e.Take(t, 5)
		e.Finish(t, leases[0])
		e.Bury(t, leases[1])
		owners(t, e, "two have ended, one has a callback", map[string]int64{one: 1, two: 1, "ann": 1})
		for _, o := range e.Drain(t) {
			if o.Status != job.Failed {
				continue
			}
			next := o.Job
			next.Generation++
			if _, err := e.Requeue(t.Context(), 0, []job.Job{next}); err != nil {
				t.Fatal(err)
			}
		}
		owners(t, e, "one was requeued", map[string]int64{one: 2, two: 1, "ann": 1})
	})
}

// FitMemory sets the limit of bytes to half of what the smallest server may use, unless the options set it.
func TestFitMemory(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		fits := func(what string, want int64) {
			t.Helper()
			if err := e.FitMemory(t.Context()); err != nil {
				t.Fatal(err)
			}
			same(t, what, e.LivingBytes(), want)
		}
		fits("no limit of the server", 1<<30)
		limited := false // the embedded server has no settings
		e.Servers(t, func(ctx context.Context, server *redis.Client) error {
			limited = server.ConfigSet(ctx, "maxmemory", "64mb").Err() == nil
			return nil
		})
		if limited {
			fits("servers with 64 MiB", 32<<20)
		}
		e.Servers(t, func(ctx context.Context, server *redis.Client) error {
			_ = server.ConfigSet(ctx, "maxmemory", "0").Err()
			return nil
		})
	})
	queuetest.EachWith(t, func(o *queue.Options) { o.LivingBytes = 12 }, func(t *testing.T, e *queuetest.Env) {
		if err := e.FitMemory(t.Context()); err != nil || e.LivingBytes() != 12 {
			t.Errorf("%d bytes, %v", e.LivingBytes(), err)
		}
	})
	queuetest.EachWith(t, func(o *queue.Options) { o.Embedded = true }, func(t *testing.T, e *queuetest.Env) {
		if err := e.FitMemory(t.Context()); err != nil || e.LivingBytes() != 256<<20 {
			t.Errorf("%d bytes, %v", e.LivingBytes(), err)
		}
	})
}
