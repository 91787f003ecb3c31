package queue_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

func TestSubmit(t *testing.T) {
	t.Attr("proves", "S2-S4 S2-P13 S0-S2 S3-S3 S3-Q1 S3-I2")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		bystander := e.Put(t, job.Paid)
		e.Take(t, 1)
		s := queuetest.Job(job.Unpaid)
		s.Owner = "key-7"
		before := e.Now(t)
		e.PutAll(t, s)
		after := e.Now(t)

		snap := e.Snapshot(t)
		same(t, "state", snap.State(s.ID), job.Pending)
		same(t, "ready", snap.Counters["UNPAID:ready"], 1)
		same(t, "fresh of the tier", snap.Counters["UNPAID:fresh"], 1)
		same(t, "fresh", snap.Counters["fresh"], 1)
		same(t, "doorbell", snap.Doorbell, 1)
		same(t, "bystander", snap.State(bystander), job.Processing)

		j, err := e.Find(t.Context(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		arrived := j.ArrivedAt.UnixMilli()
		if arrived < before || arrived > after {
			t.Errorf("arrived at %d, Redis' clock went from %d to %d", arrived, before, after)
		}
		same(t, "score", snap.Sets["queue"][string(s.ID)], float64(2*10_000_000_000_000+arrived))
		same(t, "owner", j.Owner, "key-7")
		same(t, "type", j.Type, s.Type)
		same(t, "trace", j.TraceID, s.TraceID)
		same(t, "generation", j.Generation, 1)
		same(t, "max retries", j.MaxRetries, 2)
		same(t, "attempt", j.Attempt, 0)
		same(t, "payload", string(j.Payload), string(s.Payload))
	})
}

func TestSubmitTwice(t *testing.T) {
	t.Attr("proves", "S3-I6")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		s := queuetest.Job(job.Paid)
		got, err := e.Words(t.Context(), 0, []job.Submission{s, s})
		words(t, got, err, job.OK, job.Duplicate)
		before := e.Snapshot(t)
		changed := s
		changed.Payload, changed.Tier = []byte(`{"other":1}`), job.Public
		got, err = e.Words(t.Context(), 0, []job.Submission{s, changed})
		words(t, got, err, job.Duplicate, job.Duplicate)
		e.Unchanged(t, before)

		// The answer is the same in every later state of the job.
		for _, move := range []func(){
			func() { e.Take(t, 1) },
			func() { e.Reap(t, job.Crashed, s.ID) },
			func() { e.Finish(t, e.Take(t, 1)...) },
			func() { e.Drain(t) },
		} {
			move()
			before := e.Snapshot(t)
			got, err = e.Words(t.Context(), 0, []job.Submission{s})
			words(t, got, err, job.Duplicate)
			e.Unchanged(t, before)
		}
	})
}

func TestSubmitScoreIsExact(t *testing.T) {
	t.Attr("proves", "S2-N1 S2-N2 S2-N3")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for _, priority := range []int{1, 2, 3, 9, 10, 99, 100, 899} {
			tier := job.Tier(fmt.Sprintf("TIER%d", priority))
			switch priority {
			case 1, 2, 3: // the seed's values
				tier = []job.Tier{"", job.Paid, job.Unpaid, job.Public}[priority]
			default:
				p := job.DefaultPlans()[0]
				p.Tier, p.Priority = tier, priority
				if _, err := e.StorePlan(t.Context(), p, queue.AnyVersion); err != nil {
					t.Fatal(err)
				}
				if err := e.LoadPlans(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			id := e.Put(t, tier)
			j, err := e.Find(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			// The score is exact: a lost millisecond would be visible in the text.
			want := strconv.FormatInt(int64(priority)*10_000_000_000_000+j.ArrivedAt.UnixMilli(), 10)
			stored := e.Redis.Do(t.Context(), "ZSCORE", queue.Key(0, "queue"), string(id)).Val()
			same(t, fmt.Sprintf("score at priority %d", priority), fmt.Sprint(stored), want)
			same(t, "score in the head", e.Snapshot(t).Jobs[string(id)]["score"], want)

			// The score is also exact in a claim's next and after a release.
			r := e.NextClaim(0)
			r.Bound = 0
			reply, err := e.Claim(t.Context(), 0, r)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "next", strconv.FormatFloat(reply.Next, 'f', 0, 64), want)
			l := e.Take(t, 1)[0]
			got, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: l.Ref()}})
			ends(t, got, err, job.OK)
			same(t, "score after a release",
				fmt.Sprint(e.Redis.Do(t.Context(), "ZSCORE", queue.Key(0, "queue"), string(id)).Val()), want)
			e.Cancels(t, id)
		}
	})
}

func TestSubmitBigBatch(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		batch := make([]job.Submission, job.MaxBatch)
		for i := range batch {
			batch[i] = queuetest.Job(job.Unpaid)
			batch[i].Payload = bytes.Repeat([]byte{byte(i), 0, '\r', '\n', 0xff}, 2000) // any bytes, 10 kB
		}
		e.PutAll(t, batch...)
		leases := e.Take(t, job.MaxBatch)
		for i, l := range leases {
			if l.ID != batch[i].ID || !bytes.Equal(l.Payload, batch[i].Payload) {
				t.Fatalf("job %d came back as another", i)
			}
		}
	})
}

func TestSubmitTiesByID(t *testing.T) {
	t.Attr("proves", "S2-G7")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		batch := make([]job.Submission, 50)
		for i := range batch {
			batch[i] = queuetest.Job(job.Paid)
		}
		want := make([]job.ID, len(batch))
		for i := range batch {
			want[i] = batch[i].ID // the ids are in order
		}
		slices.Reverse(batch)
		e.PutAll(t, batch...) // one call, one millisecond
		for i, l := range e.Take(t, len(batch)) {
			same(t, fmt.Sprintf("job %d", i), l.ID, want[i])
		}
	})
}

func TestSubmitClockNeverGoesBack(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		first := e.Put(t, job.Paid)
		ahead := e.Now(t) + 5000
		e.Redis.Set(t.Context(), queue.Key(0, "clock"), ahead, 0) // an arrival of a clock that was 5 s fast
		second := e.Put(t, job.Paid)
		third := e.Put(t, job.Paid)
		for _, id := range []job.ID{second, third} {
			j, err := e.Find(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "arrival", j.ArrivedAt.UnixMilli(), ahead)
		}
		same(t, "clock", e.Redis.Get(t.Context(), queue.Key(0, "clock")).Val(), strconv.FormatInt(ahead, 10))
		for i, l := range e.Take(t, 3) {
			same(t, "order", l.ID, []job.ID{first, second, third}[i])
		}
	})
}

func TestSubmitLate(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		known, s := e.Put(t, job.Paid), queuetest.Job(job.Paid)
		before := e.Snapshot(t)
		there := queuetest.Job(job.Paid)
		there.ID = known
		e.SetClock(time.UnixMilli(e.Now(t)).Add(-16 * time.Second)) // a copy that was under way for 16 s
		got, err := e.Words(t.Context(), 0, []job.Submission{s, there})
		words(t, got, err, job.Late, job.Duplicate)
		e.Unchanged(t, before)
		e.PutAll(t, s) // the queue has read the clock again

		e.SetClock(time.UnixMilli(e.Now(t)).Add(-14 * time.Second))
		e.Put(t, job.Paid) // still in time
	})
}

func TestSubmitUnknownTier(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		before := e.Snapshot(t)
		if _, err := e.Words(t.Context(), 0,
			[]job.Submission{queuetest.Job(job.Paid), queuetest.Job("GOLD")}); !errors.Is(err, job.ErrUnknownTier) {
			t.Errorf("error %v", err)
		}
		if _, err := e.Words(t.Context(), e.Options.Partitions, []job.Submission{queuetest.Job(job.Paid)}); err == nil {
			t.Error("a partition that is not there was taken")
		}
		e.Unchanged(t, before)
	})
}
