package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// arrival is long ago, and of no test's clock.
var arrival = time.Date(2026, 5, 1, 10, 0, 0, 123e6, time.UTC)

// living is a job as a journal may have it.
func living(id job.ID, with ...func(*job.JournalRow)) job.JournalRow {
	l := job.JournalRow{Priority: 1, Job: job.Job{
		ID: id, Generation: 1, Tier: job.Paid, Type: "SIMULATION", Payload: []byte(`{"steps":[]}`), MaxRetries: 5, ArrivedAt: arrival,
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

func toCancel(l *job.JournalRow) { l.CancelRequested = true }

func due(l *job.JournalRow) { l.RunAt = time.Now().Add(time.Hour) }

func restore(t *testing.T, e *queuetest.Env, all []job.JournalRow, want ...job.Word) {
	t.Helper()
	got, err := e.Restore(t.Context(), 0, all, time.Now())
	words(t, got, err, want...)
}

// What comes back is where it was: same arrival, same score, counted, with its attempts and retries.
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
		same(t, "fresh", snap.Counters["fresh"], 2) // the restored one and the bystander
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

// A job that a server owes has a row before it is in Redis, so the row has no arrival. If it was tried meanwhile, it is
// given back with the time of its first try: a job never arrives after it was tried.
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

// The crashed watch takes back what was running, by its two looks, and the retry is spent; a job whose retries are spent ends.
func TestRestoredRunIsTakenBack(t *testing.T) {
	t.Attr("proves", "F46")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		once, spent := queuetest.NewID(0), queuetest.NewID(0)
		restore(
			t,
			e,
			[]job.JournalRow{living(once, ran), living(spent, ran, func(l *job.JournalRow) { l.MaxRetries = 1 })},
			job.OK,
			job.OK,
		)
		looked := e.Look(t, job.Crashed)
		same(t, "first look", looked[once], job.Suspect)
		if stuck := e.Look(t, job.Stuck); len(stuck) != 0 {
			t.Errorf("the other watch found %v", stuck)
		}
		e.Age(t, "suspects:crashed", queue.Patience)
		e.Age(t, "beats", queue.Patience)
		looked = e.Look(t, job.Crashed)
		same(t, "second look", looked[once], job.OK)
		same(t, "second look", looked[spent], job.Discarded)
		f, err := e.Find(t.Context(), once)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "retries", f.RetryCount, 2)
		same(t, "cause", f.Cause, job.HeartbeatStopped)
		o := e.Drain(t)[0]
		same(t, "ended", o.ID, spent)
		same(t, "history", o.Attempts[0].Worker, "host-1-dead")
		same(t, "attempt", e.Take(t, 1)[0].Attempt, 3)
	})
}

// A generation that is there, or a later one, stands; an ended earlier one makes room; a living earlier one does not.
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
		e.Kill(t, e.Take(t, 1)[0])
		restore(t, e, []job.JournalRow{third}, job.Busy) // its failure is not in SQL yet
		e.Drain(t)
		restore(t, e, []job.JournalRow{third}, job.OK)
	})
}

// Keys come back with their jobs, and those that outlive their jobs come back alone; what is there stays.
func TestRestoreKeys(t *testing.T) {
	t.Attr("proves", "F19")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		if _, err := e.ReadClock(t.Context()); err != nil {
			t.Fatal(err)
		}
		first, again, ended := keyed("a", "1"), keyed("a", "1"), keyed("b", "1")
		restore(
			t,
			e,
			[]job.JournalRow{living(first.ID, func(l *job.JournalRow) { l.Idempotency = first.Idempotency })},
			job.OK,
		)
		kept := []job.KeyKept{
			{Idempotency: ended.Idempotency, ID: ended.ID, Expires: time.Now().Add(time.Hour)},
			{Idempotency: first.Idempotency, ID: ended.ID, Expires: time.Now().Add(time.Hour)},
			{Idempotency: keyed("c", "1").Idempotency, ID: ended.ID, Expires: time.Now().Add(-time.Hour)},
		}
		for range 2 {
			if err := e.RestoreKeys(t.Context(), kept, func(string) int { return 0 }); err != nil {
				t.Fatal(err)
			}
		}
		many := make([]job.KeyKept, 700)
		for i := range many {
			many[i] = job.KeyKept{Idempotency: job.Idempotency{Key: fmt.Sprintf("%032d", i), Body: "b"}, ID: ended.ID, Expires: time.Now().Add(time.Hour)}
		}
		if err := e.RestoreKeys(t.Context(), many, func(string) int { return 0 }); err != nil {
			t.Fatal(err)
		}
		late := keyed("b", "1")
		got, err := e.Submit(t.Context(), 0, []job.Submission{again, late, keyed("c", "1")})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "the job's key", got[0], job.SubmitReply{Word: job.Replay, First: first.ID})
		same(t, "the ended job's key", got[1], job.SubmitReply{Word: job.Replay, First: ended.ID})
		same(t, "a key that ran out", got[2].Word, job.OK)
	})
}

// A submit with a key that Redis does not know waits until the journal's keys are there: in this life of Redis, whatever an older one had.
func TestSubmitBehind(t *testing.T) {
	t.Attr("proves", "F17 F19 S13")
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Journal = true }, func(t *testing.T, e *queuetest.Env) {
		send := func(want job.Word, s job.Submission) {
			t.Helper()
			got, err := e.Submit(t.Context(), 0, []job.Submission{s})
			if err != nil {
				t.Fatal(err)
			}
			same(t, "word", got[0].Word, want)
		}
		first := keyed("a", "1")
		send(job.Behind, first)
		send(job.OK, queuetest.Job(job.Paid))
		runs, err := e.Incarnations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.MarkKeys(t.Context(), []string{"another.life"}); err != nil {
			t.Fatal(err)
		}
		send(job.Behind, first)
		if _, err := e.MarkKeys(t.Context(), []string{""}); err != nil { // its server did not answer when the keys were read
			t.Fatal(err)
		}
		send(job.Behind, first)
		if _, err := e.MarkKeys(t.Context(), runs); err != nil {
			t.Fatal(err)
		}
		send(job.OK, first)
		mark := queue.Key(0, "mark")
		if err := e.Redis.Set(t.Context(), mark, "the run before a restart", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		send(job.Behind, keyed("b", "1"))
		send(job.Replay, keyed("a", "1"))
		send(job.Duplicate, first)
		if err := e.Redis.Del(t.Context(), mark).Err(); err != nil { // as after a FLUSHALL
			t.Fatal(err)
		}
		send(job.Behind, keyed("b", "1"))
	})
}

// A withdrawn job frees its key, unless the key has become another job's.
func TestCancelFreesTheKey(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		mine, again := keyed("a", "1"), keyed("a", "1")
		e.PutAll(t, mine)
		withdraw := func(s job.Submission, want job.Word) {
			t.Helper()
			got, err := e.Cancel(t.Context(), 0, []job.Cancellation{{ID: s.ID, Generation: 1, Untried: true, Once: s.Idempotency.Key}})
			words(t, got, err, want)
		}
		withdraw(mine, job.WasCancelled)
		got, err := e.Words(t.Context(), 0, []job.Submission{mine, again}) // a late copy of the first finds its remains
		words(t, got, err, job.Duplicate, job.OK)
		withdraw(mine, job.WasCancelled) // sent twice: the key is another's now
		got, err = e.Words(t.Context(), 0, []job.Submission{keyed("a", "1")})
		words(t, got, err, job.Replay)
		e.Take(t, 1)
		withdraw(again, job.Busy)
	})
}

// A job that a repeat was answered with is not withdrawn any more, nor one that was given back: somebody has its row. Without a journal nobody
// withdraws, and nothing is written.
func TestWithdrawTheAnswered(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*queue.Options){
		"journal":  func(o *queue.Options) { o.Journal = true },
		"embedded": func(o *queue.Options) { o.Journal, o.Embedded = true, true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queuetest.EachWith(t, change, func(t *testing.T, e *queuetest.Env) {
				runs, err := e.Incarnations(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := e.MarkKeys(t.Context(), runs); err != nil {
					t.Fatal(err)
				}
				withdraw := func(s job.Submission, want job.Word) {
					t.Helper()
					got, err := e.Cancel(t.Context(), 0, []job.Cancellation{{ID: s.ID, Generation: 1, Untried: true, Once: s.Idempotency.Key}})
					words(t, got, err, want)
				}
				send := func(s job.Submission, want job.Word) {
					t.Helper()
					got, err := e.Words(t.Context(), 0, []job.Submission{s})
					words(t, got, err, want)
				}
				alone, answered, ended := keyed("a", "1"), keyed("b", "1"), keyed("c", "1")
				e.PutAll(t, alone, answered, ended)
				send(keyed("a", "2"), job.Mismatch) // was answered with nobody's job
				send(alone, job.Duplicate)
				withdraw(alone, job.WasCancelled)
				send(keyed("b", "1"), job.Replay)
				before := e.Snapshot(t)
				send(keyed("b", "1"), job.Replay)
				withdraw(answered, job.Busy)
				e.Unchanged(t, before)
				// Whoever was answered may have cancelled it by now. The key stays that job's.
				send(keyed("c", "1"), job.Replay)
				same(t, "a user's cancel", e.Cancels(t, ended.ID), job.WasCancelled)
				withdraw(ended, job.Busy)
				send(keyed("c", "1"), job.Replay)

				back := keyed("d", "1")
				restore(
					t,
					e,
					[]job.JournalRow{living(back.ID, func(l *job.JournalRow) { l.Idempotency = back.Idempotency })},
					job.OK,
				)
				withdraw(back, job.Busy)
				same(t, "what runs", len(e.Take(t, 2)), 2)
			})
		})
	}
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		e.PutAll(t, keyed("a", "1"))
		before := e.Snapshot(t)
		got, err := e.Words(t.Context(), 0, []job.Submission{keyed("a", "1")})
		words(t, got, err, job.Replay)
		e.Unchanged(t, before)
	})
}

// What somebody was told is cancelled ends at once and never waits for a claim; what was running ends with its attempt.
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
