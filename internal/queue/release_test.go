package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

func TestRelease(t *testing.T) {
	t.Attr("proves", "S2-P3")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		first, second := e.Put(t, job.Public), e.Put(t, job.Public)
		place := e.Snapshot(t).Sets["queue"][string(first)]
		l := e.Take(t, 1)[0]
		e.Take(t, 1)
		got, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: l.Ref()}})
		ends(t, got, err, job.OK)
		snap := e.Snapshot(t)
		same(t, "state", snap.State(first), job.Pending)
		same(t, "score", snap.Sets["queue"][string(first)], place)
		same(t, "fresh", snap.Counters["fresh"], 0) // the job was claimed before: it does not count as fresh
		same(t, "bystander", snap.State(second), job.Processing)
		again := e.Take(t, 1)[0]
		same(t, "id", again.ID, first)
		same(t, "retries", again.RetryCount, 0) // unharmed
		same(t, "attempt", again.Attempt, 2)
		same(t, "first tried", again.FirstTriedAt, l.FirstTriedAt)
	})
}

// A job that its workers give back five times in a row within a minute waits longer and longer. Other reports end the
// row, and a process that stops gives back what it has as often as it likes.
func TestReleaseAgainAndAgain(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		id := e.Put(t, job.Paid)
		gives := func(verb string) time.Duration {
			got, err := writes[verb](t.Context(), e.Queue, e.Take(t, 1)[0].Ref())
			ends(t, got, err, job.OK)
			due, waits := e.Snapshot(t).Sets["scheduled"][string(id)]
			if !waits {
				return 0
			}
			e.Age(t, "scheduled", 1000*time.Hour)
			if _, err := e.Promote(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			return time.Duration(int64(due)-got[0].At.UnixMilli()) * time.Millisecond
		}
		row := func(verb string, n int) string {
			var waits []time.Duration
			for range n {
				waits = append(waits, gives(verb))
			}
			return fmt.Sprint(waits)
		}
		same(t, "returned", row("return", 13), "[0s 0s 0s 0s 1s 2s 4s 8s 16s 32s 1m0s 1m0s 1m0s]")
		same(t, "released by a process that stops", row("release", 10), "[0s 0s 0s 0s 0s 0s 0s 0s 0s 0s]")
		same(t, "returned again", row("return", 4), "[0s 0s 0s 0s]")
		e.SetWord(t, "tried", id, "since", fmt.Sprint(e.Now(t)-time.Minute.Milliseconds()-1000))
		same(t, "the minute is over", row("return", 6), "[0s 0s 0s 0s 1s 2s]")
		same(t, "an unknown type", gives("unknown"), 2*time.Second)
		same(t, "returned by a worker that knows it", row("return", 5), "[0s 0s 0s 0s 1s]")
		o, err := e.Find(t.Context(), id)
		same(t, "error", err, nil)
		same(t, "retries", o.RetryCount, 0)
	})
}

func TestReleaseLater(t *testing.T) {
	t.Attr("proves", "S3-I11")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Public)
		got, err := e.Release(
			t.Context(),
			0,
			[]job.Release{{LeaseRef: l.Ref(), Delay: 90 * time.Second, Reason: "3 of 4 say wait"}},
		)
		ends(t, got, err, job.OK)
		j, err := e.Find(t.Context(), l.ID)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "status", j.Status, job.Scheduled)
		same(t, "due", j.RunAt, got[0].At.Add(90*time.Second))
		same(t, "retries", j.RetryCount, 0)
		e.Age(t, "scheduled", 2*time.Minute)
		if n, err := e.Promote(t.Context(), 0); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		same(t, "retries", e.Take(t, 1)[0].RetryCount, 0)
	})
}

// A job may be released without limit; its history keeps the last 50 attempts.
func TestReleaseHistory(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		id := e.Put(t, job.Public)
		for i := range 60 {
			g := job.Release{LeaseRef: func() job.LeaseRef { l := e.Take(t, 1)[0]; return l.Ref() }()}
			if i%2 == 1 {
				g.Delay = time.Minute
			}
			got, err := e.Release(t.Context(), 0, []job.Release{g})
			ends(t, got, err, job.OK)
			if g.Delay > 0 {
				e.Age(t, "scheduled", time.Hour)
				if n, err := e.Promote(t.Context(), 0); n != 1 || err != nil {
					t.Fatal(n, err)
				}
			}
		}
		e.Bury(t, e.Take(t, 1)[0])
		out := e.Drain(t)[0]
		same(t, "id", out.ID, id)
		same(t, "history", len(out.Attempts), 50)
		for i, a := range out.Attempts {
			n := 61 - 49 + i
			want := []string{"LATER", "RELEASED"}[n%2]
			if n == 61 {
				want = string(job.PermanentError)
			}
			same(t, "number", a.Number, n)
			same(t, fmt.Sprintf("outcome of %d", n), a.Outcome, want)
		}
	})
}

func TestReleaseCancelled(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		a, b := e.Start(t, job.Paid), e.Start(t, job.Paid)
		e.Cancels(t, a.ID)
		e.Cancels(t, b.ID)
		got, err := e.Release(
			t.Context(),
			0,
			[]job.Release{{LeaseRef: a.Ref()}, {LeaseRef: b.Ref(), Delay: time.Minute}},
		)
		ends(t, got, err, job.WasCancelled, job.WasCancelled)
		same(t, "outcomes", len(e.Drain(t)), 2)
	})
}

func TestReleaseBatch(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for range 100 {
			e.Put(t, job.Paid)
		}
		leases := e.Take(t, 100)
		batch := make([]job.Release, 100)
		want := repeat(job.OK, 100)
		for i, l := range leases {
			batch[i] = job.Release{LeaseRef: l.Ref()}
		}
		batch[3].Token, want[3] = "x:1", job.Lost
		batch[99] = batch[98]
		got, err := e.Release(t.Context(), 0, batch)
		ends(t, got, err, want...)
		same(t, "ready", e.Snapshot(t).Counters["PAID:ready"], 98)
	})
}

// The history says why the handler asked for later, until when, and in which generation, both in Redis and in the
// outbox's outcome. A LATER without a reason has only the time; a RELEASED and a CANCELLED have neither.
func TestHistoryTellsLater(t *testing.T) {
	t.Parallel()
	t.Attr("proves", "S3-I16 S3-Q5")
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		again := func() job.Lease {
			t.Helper()
			e.Age(t, "scheduled", time.Hour)
			if _, err := e.Promote(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			return e.Take(t, 1)[0]
		}
		l := e.Start(t, job.Public)
		reason := "2 of 3 endpoints say SUBMITTED:\nb.example.org \u00e9"
		told, err := e.Release(
			t.Context(),
			0,
			[]job.Release{{LeaseRef: l.Ref(), Delay: 90 * time.Second, Reason: reason}},
		)
		ends(t, told, err, job.OK)
		l = again()
		silent, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: l.Ref(), Delay: time.Minute}})
		ends(t, silent, err, job.OK)
		l = again()
		drained, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: l.Ref(), Reason: "nobody reads it"}})
		ends(t, drained, err, job.OK)
		l = e.Take(t, 1)[0]
		e.Cancels(t, l.ID)
		over, err := e.Release(
			t.Context(),
			0,
			[]job.Release{{LeaseRef: l.Ref(), Delay: time.Minute, Reason: "too late"}},
		)
		ends(t, over, err, job.WasCancelled)

		want := []job.Attempt{
			{
				Number:     1,
				Generation: 1,
				FinishedAt: told[0].At,
				Outcome:    "LATER",
				Error:      reason,
				Until:      told[0].At.Add(90 * time.Second),
			},
			{
				Number:     2,
				Generation: 1,
				FinishedAt: silent[0].At,
				Outcome:    "LATER",
				Until:      silent[0].At.Add(time.Minute),
			},
			{Number: 3, Generation: 1, FinishedAt: drained[0].At, Outcome: "RELEASED"},
			{Number: 4, Generation: 1, FinishedAt: over[0].At, Outcome: "CANCELLED"},
		}
		live, err := e.Attempts(t.Context(), l.ID)
		if err != nil {
			t.Fatal(err)
		}
		for where, got := range map[string][]job.Attempt{"in Redis": live, "from the outbox": e.Drain(t)[0].Attempts} {
			same(t, "attempts "+where, len(got), len(want))
			for i := range want {
				a := got[i]
				a.Worker, a.StartedAt = "", time.Time{}
				same(t, fmt.Sprintf("attempt %d %s", i+1, where), a, want[i])
			}
		}
	})
}

// A LATER line of an earlier build has neither reason nor time.
func TestHistoryOfAnOlderBuild(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Public)
		key := queue.Key(0, "attempts") + string(l.ID)
		if err := e.Redis.RPush(t.Context(), key, "1 1700000000000 1700000000500 LATER w ").Err(); err != nil {
			t.Fatal(err)
		}
		got, err := e.Attempts(t.Context(), l.ID)
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		same(t, "until", got[0].Until, time.Time{})
		same(t, "reason", got[0].Error, "")
	})
}
