package queue_test

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// arrival is a fixed time long before any test runs.
var arrival = time.Date(2026, 5, 1, 10, 0, 0, 123e6, time.UTC)

// living returns a journal row.
func living(id job.ID, with ...func(*job.JournalRow)) job.JournalRow {
	l := job.JournalRow{Priority: 1, Job: job.Job{
		ID: id, Generation: 1, Tier: job.Paid, Type: "SIMULATION", Payload: []byte(`{"steps":[]}`), MaxRetries: 5,
		ArrivedAt: arrival,
	}}
	for _, f := range with {
		f(&l)
	}
	return l
}

func tried(l *job.JournalRow) {
	l.Attempt, l.RetryCount, l.FirstTriedAt = 2, 1, arrival.Add(time.Second)
}

func ran(l *job.JournalRow) {
	tried(l)
	l.StartedAt, l.Worker = arrival.Add(time.Minute), "host-1-dead"
}

// outside makes the row one of a job that an external worker runs.
func outside(l *job.JournalRow) { l.Token, l.LeaseFor = l.Worker+":c1.0-a", 5*time.Second }

func toCancel(l *job.JournalRow) { l.CancelRequested = true }

func toKill(l *job.JournalRow) { l.CancelRequested, l.KillReason = true, "no use" }

func due(l *job.JournalRow) { l.RunAt = time.Now().Add(time.Hour) }

func restore(t *testing.T, e *queuetest.Env, all []job.JournalRow, want ...job.Word) {
	t.Helper()
	got, err := e.Restore(t.Context(), 0, all, time.Now())
	words(t, got, err, want...)
}

// A restored job is where it was before: with the same arrival, score, attempts and retries, and counted.
func TestRestore(t *testing.T) {
	t.Attr("proves", "F17 F19")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		public := e.Put(t, job.Public)
		fresh, again, running, later := queuetest.NewID(0), queuetest.NewID(0), queuetest.NewID(0), queuetest.NewID(0)
		all := []job.JournalRow{
			living(fresh),
			living(again, tried),
			living(running, ran),
			living(later, due),
			living(fresh),
		}
		restore(t, e, all, job.OK, job.OK, job.OK, job.OK, job.Duplicate)
		restore(t, e, all[:4], job.Duplicate, job.Duplicate, job.Duplicate, job.Duplicate)
		restore(
			t,
			e,
			[]job.JournalRow{{Job: job.Job{ID: public, Generation: 1, Tier: job.Public}, Priority: 3}},
			job.Duplicate,
		)

		snap := e.Snapshot(t)
		same(t, "fresh", snap.Counters["fresh"], 2) // the restored job and the bystander
		same(t, "delayed", snap.Counters["delayed"], 1)
		same(t, "running", snap.Counters["PAID:running"], 1)
		same(t, "score", snap.Sets["queue"][string(fresh)], float64(10_000_000_000_000+arrival.UnixMilli()))
		f, err := e.Find(t.Context(), again)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "arrival", f.ArrivedAt, arrival)
		same(t, "attempt", f.Attempt, 2)
		same(t, "retries", f.RetryCount, 1)
		same(t, "first tried", f.FirstTriedAt, arrival.Add(time.Second))
		f, err = e.Find(t.Context(), running)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "status", f.Status, job.Processing)
		same(t, "holder", f.Worker, "host-1-dead")
		f, err = e.Find(t.Context(), later)
		if err != nil || f.Status != job.Scheduled {
			t.Errorf("%v, %s", err, f.Status)
		}
		leases := e.Take(t, 2)
		same(t, "first tried first: both are PAID, of the same arrival", len(leases), 2)
		for _, l := range leases {
			if l.ID == again {
				same(t, "attempt of the claim", l.Attempt, 3)
			}
		}
	})
}

// The journal row of a promised job exists before the job is in Redis, so the row has no arrival. If the job was
// tried meanwhile, it is restored with the time of its first attempt as its arrival: a job never arrives after its
// first attempt.
func TestRestoreArrivalOfTheOwed(t *testing.T) {
	t.Attr("proves", "F17")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		owed, untried := queuetest.NewID(0), queuetest.NewID(0)
		unstamped := func(l *job.JournalRow) { l.ArrivedAt = time.Time{} }
		began := time.Now().Add(-time.Minute)
		restore(t, e, []job.JournalRow{living(owed, tried, unstamped), living(untried, unstamped)}, job.OK, job.OK)
		f, err := e.Find(t.Context(), owed)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "arrival of the tried", f.ArrivedAt, f.FirstTriedAt)
		same(t, "first try", f.FirstTriedAt, arrival.Add(time.Second))
		if f, err = e.Find(t.Context(), untried); err != nil || f.ArrivedAt.Before(began) {
			t.Errorf("the untried arrived at %s: %v", f.ArrivedAt, err)
		}
	})
}

// The crashed watch reclaims a job that an embedded server's pool ran with its two looks and counts the crash to those
// of the row; a job that has had all its crashes ends.
func TestRestoredRunIsTakenBack(t *testing.T) {
	t.Attr("proves", "F46")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		once, spent := queuetest.NewID(0), queuetest.NewID(0)
		limitCrashes(e, new(3))
		restore(
			t,
			e, []job.JournalRow{living(once, ran, func(l *job.JournalRow) { l.MaxRetries, l.Crashes = 1, 2 }),
				living(spent, ran, func(l *job.JournalRow) { l.Crashes = 3 })},
			job.OK,
			job.OK,
		)
		looked := e.Look(t, job.Crashed)
		same(t, "first look", looked[once], job.Suspect)
		if stuck := e.Look(t, job.Stuck); len(stuck) != 0 {
			t.Errorf("the other watch found %v", stuck)
		}
		e.Age(t, "suspects:crashed", queue.Patience)
		e.Age(t, "heartbeat_deadlines", queue.Patience)
		looked = e.Look(t, job.Crashed)
		same(t, "second look", looked[once], job.OK)
		same(t, "second look", looked[spent], job.Discarded)
		f, err := e.Find(t.Context(), once)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "retries", f.RetryCount, 1)
		same(t, "crashes", f.Crashes, 3)
		same(t, "cause", f.Cause, job.HeartbeatStopped)
		o := e.Drain(t)[0]
		same(t, "ended", o.ID, spent)
		same(t, "history", o.Attempts[0].Worker, "host-1-dead")
		same(t, "attempt", e.Take(t, 1)[0].Attempt, 3)
	})
}

// A lease that restore wrote after a loss of Redis is taken back once at no cost, whatever retries are left and
// whichever watch finds it. The history has the cause. The next crash is counted.
func TestRestoredLeaseIsFree(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for _, most := range []*int{nil, new(0)} {
			limitCrashes(e, most)
			for _, w := range watches {
				id := queuetest.NewID(0)
				spent := func(l *job.JournalRow) { l.MaxRetries, l.RetryCount, l.Crashes = 1, 1, 2 }
				restore(t, e, []job.JournalRow{living(id, ran, outside, spent)}, job.OK)
				e.Age(t, "run_deadlines", 2*time.Hour) // restore gives the holder an hour
				same(t, "word", e.Reap(t, w, id)[id], job.OK)
				j, err := e.Find(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				same(t, "retries", j.RetryCount, 1)
				same(t, "crashes", j.Crashes, 2)
				same(t, "cause", j.Cause, job.HeartbeatStopped)
				l := e.Take(t, 1)[0]
				same(t, "attempt", l.Attempt, 3)
				same(t, "crashes of the lease", l.Crashes, 2)
				same(t, "the next crash", e.Reap(t, job.Crashed, id)[id], job.Discarded)
				o := e.Drain(t)[0]
				same(t, "total retries", o.RetryCount, 1)
				same(t, "history", o.Attempts[0].Outcome+" "+o.Attempts[0].Worker, "HEARTBEAT_STOPPED host-1-dead")
			}
		}
	})
}

// A generation that Redis has, or a later one, stays. An ended and acknowledged earlier generation is replaced; a
// living one is not.
func TestRestoreGenerations(t *testing.T) {
	t.Attr("proves", "F19")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		j := dead(t, e, job.Unpaid)
		second := living(j.ID, tried, func(l *job.JournalRow) { l.Generation, l.Tier, l.Priority = 2, job.Unpaid, 2 })
		restore(t, e, []job.JournalRow{living(j.ID)}, job.Duplicate)
		restore(t, e, []job.JournalRow{second}, job.OK)
		same(t, "history", len(e.Snapshot(t).Histories), 0)
		third := second
		third.Generation = 3
		restore(t, e, []job.JournalRow{second, third}, job.Duplicate, job.Busy)
		e.Bury(t, e.Take(t, 1)[0])
		restore(t, e, []job.JournalRow{third}, job.Busy) // its failure is not in SQL yet
		e.Drain(t)
		restore(t, e, []job.JournalRow{third}, job.OK)
	})
}

// A waiting job with a requested cancel is restored as ended and is never claimed. A running job with a requested
// cancel ends with its attempt.
func TestRestoreCancelled(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		waits, delayed, again, running := queuetest.NewID(
			0,
		), queuetest.NewID(
			0,
		), queuetest.NewID(
			0,
		), queuetest.NewID(
			0,
		)
		all := []job.JournalRow{
			living(waits, toCancel),
			living(delayed, toCancel, due),
			living(again, toCancel, tried),
			living(running, toCancel, ran),
		}
		restore(t, e, all, job.OK, job.OK, job.OK, job.OK)
		before := e.Snapshot(t)
		restore(t, e, all, job.Duplicate, job.Duplicate, job.Duplicate, job.Duplicate)
		e.Unchanged(t, before)
		for _, id := range []job.ID{waits, delayed, again} {
			same(t, "state", before.State(id), job.Cancelled)
			same(t, "cancelled again", e.Cancels(t, id), job.WasCancelled)
		}
		same(t, "rung", before.Doorbell, 0)
		e.Take(t, 0)
		same(t, "the running one", e.Cancels(t, running), job.Cancel)
		same(t, "is taken back", e.Reap(t, job.Crashed, running)[running], job.WasCancelled)
		for _, o := range e.Drain(t) {
			same(t, "outcome", o.Status, job.Cancelled)
		}
	})
}
