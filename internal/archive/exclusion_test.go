package archive_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// oneOutcomeEach checks that each of these jobs has one outcome, with the rows of that outcome only, and that both
// processes acknowledged it.
func oneOutcomeEach(t *testing.T, s *archivetest.Store, acks [2]*redis, ids []job.ID) (completed int) {
	t.Helper()
	if n := s.CountOutcomes(t, ""); n != len(ids) {
		t.Errorf("%d outcomes of %d jobs", n, len(ids))
	}
	for _, id := range ids {
		results := s.Count(t, "job_results WHERE job_id = ?", string(id))
		letters := s.Count(t, "failed_jobs WHERE job_id = ?", string(id))
		j, err := s.Find(t.Context(), id)
		if err != nil || results != b2i(j.Status == job.Completed) || letters != b2i(j.Status == job.Failed) {
			t.Errorf("%s is %s, with %d results and %d dead letters, %v", id, j.Status, results, letters, err)
		}
		for i, r := range acks {
			if got := r.ack(id).Status; got != j.Status {
				t.Errorf("process %d acknowledged %s as %q, SQL has %s", i, id, got, j.Status)
			}
		}
		completed += results
	}
	return completed
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Two processes record different outcomes of the same generations at the same time: one COMPLETED, the other FAILED
// or CANCELLED. One outcome of each stands, and both processes acknowledge that one.
func TestCompletedAndFailedExcludeEachOther(t *testing.T) {
	t.Attr("proves", "F26")
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		const rounds, size = 40, 12
		var writers [2]*archive.Writer
		var acks [2]*redis
		for i := range writers {
			acks[i] = &redis{}
			writers[i] = start(t, s.Beside(t), acks[i], archive.WriterOptions{})
		}
		var ids []job.ID
		for round := range rounds {
			var batches [2][]job.Outcome
			for n := round * size; n < (round+1)*size; n++ {
				other := failed(n)
				if n%3 == 0 {
					other = cancelled(n)
				}
				batches[n%2] = append(batches[n%2], completed(n))
				batches[1-n%2] = append(batches[1-n%2], other)
				ids = append(ids, id(n))
			}
			var both sync.WaitGroup
			for i, w := range writers {
				both.Go(func() { record(t, w, batches[i]...) })
			}
			both.Wait()
		}
		completed := oneOutcomeEach(t, s, acks, ids)
		one, two := writers[0].Stats(), writers[1].Stats()
		if one.Written+two.Written != rounds*size || one.Differences+two.Differences != rounds*size {
			t.Errorf("%+v %+v", one, two)
		}
		t.Logf("%d of %d are completed; inserted %d and %d", completed, len(ids), one.Written, two.Written)
	})
}

// Two processes write different outcomes of one generation, one COMPLETED and one FAILED. The second writer waits until
// the first transaction has ended. If the first one commits, its outcome stands. If it rolls back, the second one's
// outcome stands.
func TestOutcomesWaitForEachOther(t *testing.T) {
	t.Attr("proves", "F26")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		server := testkit.NewMariaDB(t) // its counters count only this test
		const result = "INSERT INTO job_results (job_id, generation, tier, type, owner, retry_count, max_retries, " +
			"attempts, trace_id) VALUES (?, 1, 'PAID', 'SIMULATION', '', 0, 5, 3, '')"
		cancels := func(t *testing.T, tx *sql.Tx) { execute(t, tx, outcomeOf, string(id(1))) }
		completes := func(t *testing.T, tx *sql.Tx) { execute(t, tx, result, string(id(1))) }
		for _, c := range []struct {
			name   string
			ours   job.Outcome
			theirs func(t *testing.T, tx *sql.Tx)
			stands job.Status // if they commit
		}{
			{"ours-completed", completed(1), cancels, job.Cancelled},
			{"ours-failed", failed(1), completes, job.Completed},
			{"ours-cancelled", cancelled(1), completes, job.Completed},
		} {
			for _, commits := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/commits-%v", c.name, commits), func(t *testing.T) {
					s := archivetest.New(t, database.Options{MySQLDSN: server.NewDatabase(t)})
					r := &redis{}
					w := start(t, s.Archive, r, archive.WriterOptions{})
					before := innodb(t, s, "lock_row_lock_waits")
					other := rival(t, s)
					c.theirs(t, other)
					recorded := make(chan error, 1)
					go func() { recorded <- w.Record(context.Background(), []job.Outcome{c.ours}) }()
					waits(t, s, before, 1)
					end, want := other.Rollback, c.ours.Status
					if commits {
						end, want = other.Commit, c.stands
					}
					if err := end(); err != nil {
						t.Fatal(err)
					}
					if err := <-recorded; err != nil {
						t.Fatal(err)
					}
					if got := oneOutcomeEach(t, s, [2]*redis{r, r}, []job.ID{id(1)}); got != b2i(want == job.Completed) {
						t.Errorf("%d results, want %s", got, want)
					}
				})
			}
		}
	})
}

// A failed generation may be recorded in one batch with the completed one after it, and again long after it.
func TestGenerationsInOneBatch(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		r := &redis{}
		w := start(t, s.Archive, r, archive.WriterOptions{})
		first, second, third := failed(1), lifeOf(failed(1), 2), lifeOf(completed(1), 3)
		record(t, w, third, first, second, completed(2))
		for range 2 {
			if n := s.CountOutcomes(t, "job_id = ?", string(id(1))); n != 3 {
				t.Errorf("%d outcomes, want 3", n)
			}
			if j, err := s.Find(t.Context(), id(1)); err != nil || j.Generation != 3 || j.Status != job.Completed {
				t.Errorf("%+v, %v", j, err)
			}
			record(t, w, second, first)
		}
		if st := w.Stats(); st.Differences != 0 || st.Written != 4 {
			t.Errorf("%+v", st)
		}
	})
}

// A COMPLETED outcome finds the FAILED outcome of its generation also if more than a thousand other outcomes have ids
// between those of its batch.
func TestRivalAmongMany(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		dead := make([]job.Outcome, 1500)
		for n := range dead {
			dead[n] = cancelled(n + 1)
		}
		record(t, w, dead...)
		record(t, w, completed(0), completed(1400), completed(1600))
		if n := s.Count(t, "job_results"); n != 2 || s.CountOutcomes(t, "") != 1502 {
			t.Errorf("%d results, %d outcomes", n, s.CountOutcomes(t, ""))
		}
		if st := w.Stats(); st.Differences != 1 {
			t.Errorf("%+v", st)
		}
	})
}
