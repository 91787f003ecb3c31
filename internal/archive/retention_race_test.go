package archive_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

// Dead letters are deleted while a request promises to requeue them. Each is either gone, or promised and there,
// and never promised and gone.
func TestPromisesWhileLettersAreDeleted(t *testing.T) {
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		const n = 400
		w := start(t, s.Archive, nobody{}, archive.WriterOptions{})
		var letters []job.Outcome
		for i := range n {
			letters = append(letters, discarded(i, i))
		}
		record(t, w, letters...)
		age(t, s, 91, "1 = 1")
		jobs := old(t, s.Archive, job.Kind{Tier: job.Public, Status: job.Failed}, 90)
		if len(jobs) != n {
			t.Fatal(len(jobs))
		}
		var promised [n]bool
		var group sync.WaitGroup
		begin := make(chan struct{})
		group.Go(func() {
			<-begin
			for i := n - 1; i >= 0; i-- { // the two loops meet somewhere
				mine, err := s.PromiseRequeues(t.Context(), []job.JournalRow{next(i, 1)}, job.Request{ID: "request"})
				if err != nil {
					t.Error(err)
				}
				promised[i] = err == nil && mine[0]
			}
		})
		group.Go(func() {
			<-begin
			for part := range slices.Chunk(jobs, 10) {
				if _, err := s.DeleteJobs(t.Context(), part); err != nil {
					t.Error(err)
				}
			}
		})
		close(begin)
		group.Wait()
		kept := 0
		for i := range n {
			rows := rowsOf(t, s, id(i))
			switch {
			case promised[i] && rows != 2 || !promised[i] && rows != 0:
				t.Errorf("job %d: promised %v, and it has %d rows", i, promised[i], rows)
			case promised[i]:
				kept++
			}
		}
		t.Logf("%d promised, %d deleted", kept, n-kept)
	})
}

// Two processes may delete the same jobs at the same time: each row is deleted, and counted, once.
func TestTwoDeleteTheSame(t *testing.T) {
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, nobody{}, archive.WriterOptions{})
		record(t, w, many(600)...)
		age(t, s, 91, "1 = 1")
		var results atomic.Int64
		var group sync.WaitGroup
		begin := make(chan struct{})
		for _, a := range []*archive.Archive{s.Archive, s.Beside(t)} {
			jobs := old(t, a, job.Kind{Tier: job.Paid, Status: job.Completed}, 90)
			group.Go(func() {
				<-begin
				for page := range slices.Chunk(jobs, job.MaxBatch) {
					deleted, err := a.DeleteJobs(t.Context(), page)
					if err != nil {
						t.Error(err)
					}
					results.Add(deleted["job_results"])
				}
			})
		}
		close(begin)
		group.Wait()
		if left := s.CountOutcomes(t, ""); results.Load() != 600 || left != 0 {
			t.Errorf("%d results were counted, %d are left", results.Load(), left)
		}
	})
}

// A promise that is under way when its letter is to be deleted wins: the deletion waits for it, and then sees it.
func TestDeletionWaitsForAPromise(t *testing.T) {
	t.Run("mariadb", func(t *testing.T) {
		s := archivetest.New(t, databasetest.MariaDB(t))
		w := start(t, s.Archive, nobody{}, archive.WriterOptions{})
		record(t, w, discarded(1, 1), discarded(2, 2))
		age(t, s, 91, "1 = 1")
		jobs := old(t, s.Archive, job.Kind{Tier: job.Public, Status: job.Failed}, 90)
		tx, err := s.DB.Begin()
		if err != nil {
			t.Fatal(err)
		}
		execute(
			t,
			tx,
			"UPDATE failed_jobs SET requeue_requested_at = CURRENT_TIMESTAMP(6), requeue_request_id = 'r' WHERE job_id = ?",
			string(id(1)),
		)
		execute(
			t,
			tx,
			"INSERT INTO accepted_jobs (job_id, generation, tier, type, owner, priority, max_retries, attempt, "+
				"retry_count, worker, cancel_requested, run_id, trace_id) "+
				"VALUES (?, 2, 'PUBLIC', 'SIMULATION', '', 3, 1, 1, 0, '', 0, '', '')",
			string(id(1)),
		)
		before := innodb(t, s, "lock_row_lock_waits")
		done := make(chan error, 1)
		go func() {
			_, err := s.DeleteJobs(t.Context(), jobs)
			done <- err
		}()
		waits(t, s, before, 1)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if kept, gone := rowsOf(t, s, id(1)), rowsOf(t, s, id(2)); kept != 2 || gone != 0 {
			t.Errorf("the promised letter has %d rows, the open one %d", kept, gone)
		}
	})
}
