package archive_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// taken returns what a submit reports of the n-th job when Redis has it.
func taken(n int, run string) job.JournalRow {
	at := arrival.Add(9 * time.Millisecond)
	return job.JournalRow{Job: job.Job{ID: id(n), ArrivedAt: at, RunAt: at.Add(time.Minute)}, Incarnation: run}
}

// A row whose job Redis has accepted is updated within a moment: the submit can no longer take it back, and it has
// the script's times. Rows that a claim or a cancel changed before stay unchanged, and a job without a row gets
// none.
func TestSubmitted(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{Incarnation: func(int) string { return "run-3" }})
		done(t, submit(t.Context(), j, submitting(1), submitting(2), submitting(3), submitting(4), living(5)))
		done(t, j.Claimed(t.Context(), []job.Lease{lease(2, 1, 1)}))
		done(t, s.Cancelling(t.Context(), id(3), ""))
		claimed, cancelled := accepted(t, s, 2), accepted(t, s, 3)
		var rows []job.JournalRow
		for _, n := range []int{1, 2, 3, 5, 9} {
			rows = append(rows, taken(n, "run-2"))
		}
		j.Submitted(nil)
		j.Submitted(rows)
		testkit.Eventually(t, within, "it is noted", func() (bool, string) {
			n := s.Count(t, "accepted_jobs WHERE submitting = 1")
			return n == 1, fmt.Sprint(n, " rows are still their submits'")
		})
		check(t, "taken", accepted(t, s, 1), fresh(1, map[string]any{
			"run_id": "run-2", "arrived_at": "2025-11-24 16:00:00.132000", "due_at": "2025-11-24 16:01:00.132000",
		}))
		check(t, "claimed before", accepted(t, s, 2), claimed)
		check(t, "cancelled before", accepted(t, s, 3), cancelled)
		check(t, "the bystander", accepted(t, s, 4), fresh(4, map[string]any{"run_id": "", "submitting": int64(1)}))
		check(t, "it had a run", accepted(t, s, 5), fresh(5, nil))
		if n := s.Count(t, "accepted_jobs"); n != 5 {
			t.Errorf("%d rows", n)
		}
		back(t, j, []job.JournalRow{submitting(1)}, false)
		meets(t, s, j, under(6, 1), job.KeyHolder{ID: id(1)})
		if rows, err := s.LivingOf(t.Context(), []job.ID{id(1)}); err != nil || len(rows) != 1 {
			t.Errorf("Redis cannot be given it: %v, %v", rows, err)
		}
	})
}

// A stop that meets a write under way, and so ends it, writes the rows of that write too.
func TestSubmitted_StopDuringAWrite(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{Timeout: 20 * time.Second})
		done(t, submit(t.Context(), j, submitting(1), submitting(2)))
		locks, err := s.DB.BeginTx(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := locks.ExecContext(t.Context(), "UPDATE accepted_jobs SET attempt = attempt"); err != nil {
			t.Fatal(err)
		}
		j.Submitted([]job.JournalRow{taken(1, "run-0"), taken(2, "run-1")})
		<-time.After(500 * time.Millisecond) // the write has begun, and waits for the locks
		release := time.AfterFunc(500*time.Millisecond, func() { _ = locks.Rollback() })
		defer release.Stop()
		done(t, j.Stop(t.Context()))
		if left := s.Count(t, "accepted_jobs WHERE submitting = 1"); left != 0 {
			t.Errorf("%d of 2 rows are not noted", left)
		}
	})
}

// Stop writes all waiting rows, whatever incarnations they name.
func TestSubmitted_Stop(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{})
		const rows = 333
		var all, told []job.JournalRow
		for n := range rows {
			all, told = append(all, submitting(n)), append(told, taken(n, fmt.Sprint("run-", n%2)))
		}
		slices.Reverse(told)
		done(t, submit(t.Context(), j, all...))
		j.Submitted(told)
		done(t, j.Stop(t.Context()))
		even := s.Count(t, "accepted_jobs WHERE run_id = 'run-0'")
		odd := s.Count(t, "accepted_jobs WHERE run_id = 'run-1'")
		if left := s.Count(t, "accepted_jobs WHERE submitting = 1"); left != 0 || even != rows/2+1 || odd != rows/2 {
			t.Errorf("%d and %d are noted, %d are not", even, odd, left)
		}
		row := accepted(t, s, 300) // from the middle of a padded statement
		if row["arrived_at"] != "2025-11-24 16:00:00.132000" || row["due_at"] != "2025-11-24 16:01:00.132000" {
			t.Errorf("%v", row)
		}
	})
}
