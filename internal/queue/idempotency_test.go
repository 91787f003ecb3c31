package queue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

func keyed(key, body string) job.Submission {
	s := queuetest.Job(job.Paid)
	s.Idempotency = job.Idempotency{Key: strings.Repeat(key, 32), Body: strings.Repeat(body, 32)}
	return s
}

// A repeat of an Idempotency-Key gets the first submit's job, whatever became of it. A repeat with another body is
// refused. No job runs twice.
func TestIdempotency(t *testing.T) {
	t.Attr("proves", "S4-P1 S4-P2 T-9")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		first, again, other, bystander := keyed("a", "1"), keyed("a", "1"), keyed("a", "2"), keyed("b", "1")
		submit := func(all ...job.Submission) []job.SubmitReply {
			t.Helper()
			got, err := e.Submit(t.Context(), 0, all)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		got := submit(first, again, other, bystander) // in one call as in several calls
		if age := e.Now(t) - got[0].ArrivedAt.UnixMilli(); age < 0 || age > 60_000 {
			t.Errorf("arrived %d ms ago", age)
		}
		arrived := got[0].ArrivedAt
		for i, want := range []job.SubmitReply{{Word: job.OK, ArrivedAt: arrived}, {Word: job.Replay, First: first.ID},
			{Word: job.Mismatch}, {Word: job.OK, ArrivedAt: arrived}} {
			same(t, "reply", got[i], want)
		}
		ttl := e.Redis.PTTL(t.Context(), queue.Key(0, "idempotency")+first.Idempotency.Key).Val()
		if ttl < time.Hour-time.Minute || ttl > time.Hour {
			t.Errorf("the key is kept for %s", ttl)
		}
		l := e.Take(t, 1)[0]
		same(t, "the job that runs", l.ID, first.ID)
		e.Finish(t, l)
		e.Drain(t)
		same(t, "after its end", submit(again)[0], job.SubmitReply{Word: job.Replay, First: first.ID})
		e.Redis.Del(t.Context(), queue.EndedKey(first.ID)) // as with retention 0, or a day later
		same(t, "its own second copy", submit(first)[0], job.SubmitReply{Word: job.Duplicate})
		same(t, "another, its hash gone", submit(again)[0], job.SubmitReply{Word: job.Replay, First: first.ID})
		same(t, "what ran is left", len(e.Take(t, 1)), 1) // only the bystander
	})
}

// A refused submit stores no key: the same key can be accepted later.
func TestIdempotency_RefusedIsNotRemembered(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Capacity = 1 }, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid)
		e.Put(t, job.Paid)
		s := keyed("a", "1")
		got, err := e.Words(t.Context(), 0, []job.Submission{s})
		words(t, got, err, job.Full)
		next := e.Take(t, 1)[0]
		s.ID = queuetest.NewID(0)
		got, err = e.Words(t.Context(), 0, []job.Submission{s})
		words(t, got, err, job.OK)
		e.Finish(t, l)
		e.Finish(t, next)
	})
}

// RunAt is a time of Redis' clock, however late the submit is sent again.
func TestRunAt(t *testing.T) {
	t.Attr("proves", "S3-Q2 S3-S2 T-10")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		now, err := e.ReadClock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		later, past := queuetest.Job(job.Paid), queuetest.Job(job.Paid)
		later.RunAt, past.RunAt = now.Add(time.Hour), now.Add(-time.Hour)
		e.PutAll(t, later, past)
		j, err := e.Find(t.Context(), later.ID)
		if err != nil || j.Status != job.Scheduled || j.RunAt.Sub(later.RunAt).Abs() > time.Second {
			t.Errorf("%v, %s due %s, not %s", err, j.Status, j.RunAt, later.RunAt)
		}
		same(t, "what was due runs", e.Take(t, 1)[0].ID, past.ID)
		e.Age(t, "scheduled", time.Hour)
		got, err := e.Promote(t.Context(), 0)
		if err != nil || got != 1 {
			t.Fatalf("%d promoted, %v", got, err)
		}
		same(t, "what became due runs", e.Take(t, 1)[0].ID, later.ID)
	})
}

// A job keeps its options through a requeue, and its checkpoint until the generation ends.
func TestOptionsAndCheckpoint(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		s := queuetest.Job(job.Public)
		s.MaxRetries = 1
		s.Options = job.Options{CallbackURL: "https://example.com/done?a=b%20c", SpanID: "0123456789abcdef"}
		e.PutAll(t, s)
		l := e.Take(t, 1)[0]
		same(t, "options claimed", l.Options, s.Options)
		same(t, "nothing saved", len(l.Checkpoint), 0)
		stale := l.Ref()
		stale.Token = "other:1"
		got, err := e.Heartbeat(t.Context(), 0,
			[]job.Beat{{LeaseRef: stale, Timeout: time.Minute, Save: 9, Checkpoint: []byte("stolen")},
				{LeaseRef: l.Ref(), Timeout: time.Minute, Save: 2, Checkpoint: []byte("half way\n")},
				{LeaseRef: l.Ref(), Timeout: time.Minute}})
		words(t, got, err, job.Lost, job.OK, job.OK)
		late, err := e.Heartbeat(t.Context(), 0,
			[]job.Beat{{LeaseRef: l.Ref(), Timeout: time.Minute, Save: 1, Checkpoint: []byte("began")}})
		words(t, late, err, job.OK) // a late copy of an earlier heartbeat
		if _, err := e.Fail(t.Context(), 0, []job.Failure{{LeaseRef: l.Ref(), Cause: job.HandlerError}}); err != nil {
			t.Fatal(err)
		}
		l = e.Take(t, 1)[0]
		same(t, "saved", string(l.Checkpoint), "half way\n")
		same(t, "holder", l.Worker, e.Options.Nonce)
		if _, err := e.Fail(t.Context(), 0, []job.Failure{{LeaseRef: l.Ref(), Cause: job.HandlerError}}); err != nil {
			t.Fatal(err)
		}
		out := e.Drain(t)
		same(t, "options of the outcome", out[0].Options, s.Options)
		same(t, "its holder", out[0].Worker, e.Options.Nonce)
		again := out[0].Job
		again.Generation = 2
		got, err = e.Requeue(t.Context(), 0, []job.Job{again})
		words(t, got, err, job.OK)
		l = e.Take(t, 1)[0]
		same(t, "options of the new life", l.Options, s.Options)
		same(t, "nothing saved in the new life", len(l.Checkpoint), 0)
	})
}
