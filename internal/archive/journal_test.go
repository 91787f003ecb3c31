package archive_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// living returns the row of a job that Redis has, in the incarnation run-1.
func living(n int) job.JournalRow {
	return job.JournalRow{
		Job: job.Job{
			ID: id(n), Generation: 1, Tier: job.Paid, Type: "SIMULATION", Owner: "key-1", TraceID: "trace-1",
			Payload: []byte(`{"steps":[]}`),
			Options: job.Options{CallbackURL: "https://example.com/"}, MaxRetries: 5, ArrivedAt: arrival,
		},
		Priority: 1, Incarnation: "run-1",
		Idempotency: job.Idempotency{Key: fmt.Sprintf("%032x", n), Body: strings.Repeat("b", 32)},
	}
}

// submitting returns that job's row as its submit writes it before Redis is asked.
func submitting(n int) job.JournalRow {
	l := living(n)
	l.Incarnation, l.Submitting = "", true
	return l
}

// submit writes rows. If a row meets another job's key, submit returns an error.
func submit(ctx context.Context, j *archive.Journal, rows ...job.JournalRow) error {
	held, err := j.Submit(ctx, rows)
	for i, h := range held {
		if h != (job.KeyHolder{}) {
			return fmt.Errorf("%s meets %+v", rows[i].ID, h)
		}
	}
	return err
}

// lease returns a claim of that job.
func lease(n, generation, attempt int) job.Lease {
	j := living(n).Job
	j.Generation, j.Status, j.Attempt, j.RetryCount, j.Worker = generation, job.Processing, attempt, attempt-1,
		fmt.Sprint("host:", attempt)
	j.Crashes = attempt / 2
	j.FirstTriedAt, j.StartedAt = arrival.Add(time.Second), arrival.Add(time.Duration(attempt)*time.Second)
	return job.Lease{Job: j, Token: "t", For: 5 * time.Second}
}

// journal starts a journal and stops it when the test ends. The timeout suits a busy machine, unless the test sets
// one.
func journal(t testing.TB, a *archive.Archive, o archive.JournalOptions) *archive.Journal {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = within
	}
	j := archive.NewJournal(a, o)
	if err := j.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := j.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return j
}

func done(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// accepted reads the row of a job without recorded_at, which it checks.
func accepted(t *testing.T, s *archivetest.Store, n int) map[string]any {
	t.Helper()
	row := s.Row(t, "accepted_jobs WHERE job_id = ?", string(id(n)))
	recorded, err := time.Parse("2006-01-02 15:04:05.000000", row["recorded_at"].(string))
	if age := time.Since(recorded); err != nil || age < -time.Second || age > time.Minute {
		t.Errorf("recorded_at %v: %v", row["recorded_at"], err)
	}
	delete(row, "recorded_at")
	return row
}

// fresh returns the columns of living(n), with changes.
func fresh(n int, changes map[string]any) map[string]any {
	row := map[string]any{
		"job_id": string(id(n)), "generation": int64(1), "tier": "PAID", "type": "SIMULATION", "owner": "key-1",
		"trace_id": "trace-1", "priority": int64(1),
		"payload": `{"steps":[]}`, "options": `{"callbackUrl":"https://example.com/"}`, "max_retries": int64(5),
		"arrived_at": "2025-11-24 16:00:00.123000",
		"due_at":     nil, "attempt": int64(0), "retry_count": int64(0), "first_tried_at": nil, "started_at": nil,
		"crash_count":      int64(0),
		"worker":           "",
		"lease_token":      "",
		"lease_ms":         int64(0),
		"cancel_requested": int64(0),
		"run_id":           "run-1", "idempotency_key": fmt.Sprintf("%032x", n), "idempotency_body": strings.Repeat("b", 32),
		"submitting": int64(0), "kill_reason": "",
	}
	maps.Copy(row, changes)
	return row
}

// A row follows its job: submitted, claimed, waiting, claimed again, cancelled. A note of an earlier attempt or
// generation changes nothing.
func TestJournalRow(t *testing.T) {
	t.Attr("proves", "F17 F19")
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{Incarnation: func(int) string { return "run-2" }})
		bystander := fresh(2, map[string]any{"run_id": "", "submitting": int64(1)})
		later := submitting(1)
		later.RunAt = arrival.Add(time.Hour)
		done(t, submit(t.Context(), j, later, submitting(2)))
		submitted := map[string]any{"due_at": "2025-11-24 17:00:00.123000", "run_id": "", "submitting": int64(1)}
		check(t, "submitted", accepted(t, s, 1), fresh(1, submitted))
		other := living(1)
		other.Type, other.Incarnation = "OTHER", "run-9"
		done(t, submit(t.Context(), j, other))
		check(t, "submitted twice", accepted(t, s, 1), fresh(1, submitted))

		claimed := fresh(1, map[string]any{
			"attempt": int64(1), "first_tried_at": "2025-11-24 16:00:01.123000", "started_at": "2025-11-24 16:00:01.123000",
			"worker": "host:1", "lease_token": "t", "lease_ms": int64(5000), "run_id": "run-2",
			"arrived_at": "2025-11-24 16:00:00.130000", // by Redis' clock
		})
		arrives := func(l job.Lease) job.Lease {
			l.ArrivedAt = arrival.Add(7 * time.Millisecond)
			return l
		}
		done(t, j.Claimed(t.Context(), []job.Lease{arrives(lease(1, 1, 1))}))
		check(t, "claimed", accepted(t, s, 1), claimed)
		repeated := arrives(lease(1, 1, 1))
		repeated.Token = "t2"
		done(t, j.Claimed(t.Context(), []job.Lease{repeated}))
		claimed["lease_token"] = "t2"
		check(t, "the claim is repeated", accepted(t, s, 1), claimed)
		for name, w := range map[string]job.Waits{
			"another attempt": {ID: id(1), Attempt: 2, Spent: 9}, "no such job": {ID: id(9), Attempt: 1, Spent: 9},
		} {
			done(t, j.Waits(t.Context(), []job.Waits{w}))
			check(t, name, accepted(t, s, 1), claimed)
		}
		for range 2 {
			done(t, j.Waits(t.Context(), []job.Waits{{ID: id(1), Attempt: 1, Spent: 1, Crashed: 1,
				Due: arrival.Add(5 * time.Second)}}))
		}
		waits := map[string]any{"started_at": nil, "worker": "", "retry_count": int64(1),
			"lease_token": "", "lease_ms": int64(0), "crash_count": int64(1),
			"due_at": "2025-11-24 16:00:05.123000"}
		maps.Copy(claimed, waits)
		check(t, "waits", accepted(t, s, 1), claimed)
		done(t, j.Claimed(t.Context(), []job.Lease{lease(1, 1, 1)})) // a late copy
		check(t, "claimed late", accepted(t, s, 1), claimed)

		again := arrives(lease(1, 1, 2))
		again.Own = true
		done(t, j.Claimed(t.Context(), []job.Lease{again}))
		maps.Copy(claimed, map[string]any{"attempt": int64(2), "due_at": nil, "started_at": "2025-11-24 16:00:02.123000",
			"crash_count": int64(1), "worker": "host:2", "lease_token": "", "lease_ms": int64(0)})
		check(t, "claimed again", accepted(t, s, 1), claimed)
		done(t, s.Cancelling(t.Context(), id(1), "run-9"))
		done(t, s.Cancelling(t.Context(), id(9), "run-9"))
		claimed["cancel_requested"] = int64(1)
		check(t, "cancelling", accepted(t, s, 1), claimed)
		done(t, j.Claimed(t.Context(), []job.Lease{lease(1, 2, 3)}))
		check(t, "the next generation is claimed, and has no row", accepted(t, s, 1), claimed)

		// The row of the next generation replaces the whole row; late notes of the earlier generation change nothing.
		second := living(1)
		second.Generation, second.Priority, second.Incarnation, second.Idempotency = 2, 7, "run-3", job.Idempotency{}
		done(t, submit(t.Context(), j, second))
		done(t, j.Claimed(t.Context(), []job.Lease{lease(1, 2, 3)}))
		row := fresh(1, map[string]any{
			"generation": int64(2), "priority": int64(7), "run_id": "run-3", "attempt": int64(3), "retry_count": int64(2),
			"crash_count": int64(1), "worker": "host:3", "lease_token": "t", "lease_ms": int64(5000),
			"first_tried_at": "2025-11-24 16:00:01.123000", "started_at": "2025-11-24 16:00:03.123000",
			"idempotency_key": nil, "idempotency_body": nil,
		})
		check(t, "the next generation", accepted(t, s, 1), row)
		done(t, j.Claimed(t.Context(), []job.Lease{lease(1, 1, 9)}))
		done(t, submit(t.Context(), j, living(1)))
		check(t, "the earlier generation", accepted(t, s, 1), row)
		third := living(1)
		third.Generation = 3
		done(t, submit(t.Context(), j, third))
		check(t, "written over an earlier one", accepted(t, s, 1), fresh(1, map[string]any{"generation": int64(3)}))
		check(t, "the bystander", accepted(t, s, 2), bystander)
		if n := s.Count(t, "accepted_jobs"); n != 2 {
			t.Errorf("%d rows", n)
		}
	})
}

// A claim of a job without a row writes no row and no key. (Redis has a claimed job, so its row was there before
// the claim.)
func TestClaimWithoutARow(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{Incarnation: func(int) string { return "run-2" }})
		done(t, submit(t.Context(), j, submitting(2)))
		done(t, j.Claimed(t.Context(), []job.Lease{lease(1, 1, 1), lease(2, 1, 1), lease(3, 2, 1)}))
		ran := map[string]any{
			"attempt": int64(1), "first_tried_at": "2025-11-24 16:00:01.123000", "started_at": "2025-11-24 16:00:01.123000",
			"worker": "host:1", "lease_token": "t", "lease_ms": int64(5000), "run_id": "run-2",
		}
		check(t, "the one that has a row", accepted(t, s, 2), fresh(2, ran))
		done(t, j.Waits(t.Context(), []job.Waits{{ID: id(1), Attempt: 1, Spent: 1}}))
		if rows, keys := s.Count(t, "accepted_jobs"), s.Count(t, "idempotency_keys"); rows != 1 || keys != 1 {
			t.Errorf("%d rows, %d keys", rows, keys)
		}
	})
}

// An ended job is no longer in the journal, and a claim that arrives after the outcome does not bring it back.
func TestJournalForgetsTheEnded(t *testing.T) {
	t.Attr("proves", "F17 F19")
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{})
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		third := failed(3)
		third.Generation, third.Attempts = 3, nil
		done(t, submit(t.Context(), j, living(1), submitting(2), living(3), living(9)))
		record(t, w, completed(1), cancelled(2), third)
		check(t, "the bystander", accepted(t, s, 9), fresh(9, nil))
		if n := s.Count(t, "accepted_jobs"); n != 1 {
			t.Errorf("%d rows after the outcomes", n)
		}
		done(t, j.Claimed(t.Context(), []job.Lease{lease(2, 1, 1), lease(3, 2, 1)}))
		if n := s.Count(t, "accepted_jobs"); n != 1 {
			t.Errorf("%d rows written after the outcomes", n)
		}
		if n := s.Count(t, "idempotency_keys"); n != 4 {
			t.Errorf("%d keys: they live longer than their jobs", n)
		}

		// A repeat of an earlier generation's outcome does not remove the row of a later generation.
		second, fourth := living(1), living(3)
		second.Generation, fourth.Generation = 2, 4
		done(t, submit(t.Context(), j, second, fourth))
		record(t, w, completed(1), third) // a repeat
		if n := s.Count(t, "accepted_jobs"); n != 3 {
			t.Errorf("%d rows: the new lives are missing", n)
		}
		last := failed(3)
		last.Generation, last.Attempts = 4, nil
		record(t, w, last)
		if n := s.Count(t, "accepted_jobs WHERE job_id = ?", string(id(3))); n != 0 {
			t.Error("the outcome of the new life left its row")
		}
	})
}

// Without Options.Journal, outcomes remove only the rows of owed jobs: of later generations and of callbacks.
func TestJournalOff(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		second := living(3)
		second.Generation = 2
		j := journal(t, s.Archive, archive.JournalOptions{})
		done(t, submit(t.Context(), j, living(1), living(2), second))
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		ended := []job.Outcome{completed(1), completed(2), failed(3)}
		ended[1].Type, ended[2].Generation = job.CallbackType, 2
		record(t, w, ended...)
		left := s.Count(t, "accepted_jobs WHERE job_id = ?", string(id(1)))
		if n := s.Count(t, "accepted_jobs"); n != 1 || left != 1 {
			t.Errorf("%d rows, of the ordinary job %d", n, left)
		}
	})
}

// owes returns, for each completed job, an owed job whose number is higher by 100.
func owes(o *job.Outcome) (job.JournalRow, bool) {
	var n int
	_, _ = fmt.Sscanf(string(o.ID[24:]), "%x", &n)
	l := living(n>>8 + 100)
	l.Incarnation, l.ArrivedAt = "run-7", time.Time{}
	return l, o.Status == job.Completed
}
