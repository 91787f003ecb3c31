package archive_test

import (
	"context"
	"sync"
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// Two processes may submit and record the same fresh jobs at the same time: all calls succeed, and Sweep removes
// rows that crossed their outcome.
func TestJournalAndOutcomesAtOnce(t *testing.T) {
	t.Attr("proves", "F38")
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		const rounds, jobs = 25, 20
		other := s.Beside(t)
		var all sync.WaitGroup
		step := make([]sync.WaitGroup, rounds) // all four begin a round at once
		for i := range step {
			step[i].Add(4)
		}
		for side, a := range []*archive.Archive{s.Archive, other} {
			j := journal(t, a, archive.JournalOptions{})
			w := start(t, a, &redis{}, archive.WriterOptions{})
			all.Go(func() {
				for round := range step {
					step[round].Done()
					step[round].Wait()
					rows := make([]job.JournalRow, jobs)
					for i := range rows {
						rows[i] = living(round*jobs + i) // both sides have the same rows
					}
					if err := submit(context.Background(), j, rows...); err != nil {
						t.Error(err)
					}
				}
			})
			all.Go(func() {
				for round := range step {
					step[round].Done()
					step[round].Wait()
					var outcomes []job.Outcome
					for i := range jobs {
						outcomes = append(outcomes, completed(round*jobs+(i+side*jobs/2)%jobs))
					}
					if err := w.Record(context.Background(), outcomes); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		left := s.Count(t, "accepted_jobs")
		next, swept, err := s.Sweep(t.Context(), "", 1000)
		if n := s.Count(t, "accepted_jobs"); err != nil || next != "" || int(swept) != left || n != 0 {
			t.Errorf("%d of %d swept, %d left, %v", swept, left, n, err)
		}
		if n := s.CountOutcomes(t, ""); n != rounds*jobs {
			t.Errorf("%d outcomes", n)
		}
		t.Logf("%d of %d rows crossed their outcome", left, rounds*jobs)
	})
}

// A transaction of outcomes does not lock the gaps of rows that it did not find.
func TestJournalLocksNoGaps(t *testing.T) {
	t.Attr("proves", "F39")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		// The counters of this server count only this test.
		s := archivetest.NewJournal(t, database.Options{MySQLDSN: testkit.NewMariaDB(t).NewDatabase(t)})
		j := journal(t, s.Archive, archive.JournalOptions{})
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		done(t, submit(t.Context(), j, living(9)))
		waited := innodb(t, s, "lock_row_lock_waits")
		other := rival(t, s)
		execute(t, other, "UPDATE accepted_jobs SET worker = 'x' WHERE job_id = ?", string(id(9)))
		recorded := make(chan error, 1)
		go func() { recorded <- w.Record(context.Background(), []job.Outcome{completed(1), completed(9)}) }()
		waits(
			t,
			s,
			waited,
			1,
		) // the transaction has looked for 1 and waits for 9
		done(t, submit(t.Context(), j, living(0), living(2), living(5))) // on both sides of 1
		done(t, other.Commit())
		done(t, <-recorded)
		if n := s.Count(t, "accepted_jobs"); n != 3 {
			t.Errorf("%d rows", n)
		}
	})
}

// A row and its outcome that are written at the same moment do not wait for each other. The row remains; no reader
// takes it for a living job, and Sweep removes it.
func TestJournalCrossed(t *testing.T) {
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		s := archivetest.NewJournal(t, databasetest.MariaDB(t))
		j := journal(t, s.Archive, archive.JournalOptions{})
		other := rival(t, s, id(1))
		done(t, submit(t.Context(), j, living(1), living(2)))
		done(t, other.Commit())
		if n := s.Count(t, "accepted_jobs"); n != 2 {
			t.Fatalf("%d rows: nothing crossed", n)
		}
		if got := lostIDs(t, s, "run-2"); len(got) != 1 || got[0] != id(2) {
			t.Errorf("lost: %v", got)
		}
		if _, swept, err := s.Sweep(t.Context(), "", 10); swept != 1 || err != nil {
			t.Errorf("%d swept, %v", swept, err)
		}
		done(t, submit(t.Context(), j, living(1))) // a late submit: its row remains too
		if got := lostIDs(t, s, "run-2"); len(got) != 1 || got[0] != id(2) {
			t.Errorf("lost: %v", got)
		}
		if rows, err := s.LivingOf(t.Context(), []job.ID{id(1)}); len(rows) != 0 || err != nil {
			t.Errorf("living: %v, %v", rows, err)
		}
		if _, swept, err := s.Sweep(t.Context(), "", 10); swept != 1 || err != nil {
			t.Errorf("%d swept, %v", swept, err)
		}
		if n := s.Count(t, "accepted_jobs WHERE job_id = ?", string(id(2))); n != 1 || s.Count(t, "accepted_jobs") != 1 {
			t.Errorf("%d rows", s.Count(t, "accepted_jobs"))
		}
	})
}
