package archive_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

const outcomeOf = "INSERT INTO job_outcomes (job_id, generation, outcome, attempt, tier, type, owner, retry_count, " +
	"max_retries, trace_id) " +
	"VALUES (?, 1, 'CANCELLED', 3, 'PAID', 'SIMULATION', '', 0, 5, '')"

// rival returns a second session that has inserted some outcomes and not yet committed.
func rival(t *testing.T, s *archivetest.Store, ids ...job.ID) *sql.Tx {
	t.Helper()
	tx, err := s.DB.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() }) // already over, unless the test failed before
	for _, id := range ids {
		execute(t, tx, outcomeOf, string(id))
	}
	return tx
}

// innodb returns one of InnoDB's live counters, by a name that MariaDB and MySQL share. (Its tables of locks are a
// cache that frequent reading keeps from being refreshed.)
func innodb(t *testing.T, s *archivetest.Store, counter string) (n int) {
	t.Helper()
	const metric = "SELECT count FROM information_schema.innodb_metrics WHERE name = ?"
	if err := s.DB.QueryRow(metric, counter).Scan(&n); err != nil {
		t.Fatalf("%s: %v", counter, err)
	}
	return n
}

// waits returns when transactions have waited for row locks n times more than before, and one is waiting now.
func waits(t *testing.T, s *archivetest.Store, before, n int) {
	t.Helper()
	testkit.Eventually(t, within, "our transaction waits for the lock", func() (bool, string) {
		all, now := innodb(t, s, "lock_row_lock_waits")-before, innodb(t, s, "lock_row_lock_current_waits")
		return all >= n && now > 0, fmt.Sprintf("%d waits, %d now", all, now)
	})
}

func TestDeadlock(t *testing.T) {
	t.Attr("proves", "F38")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		// The counters of this server count only this test.
		s := archivetest.New(t, database.Options{MySQLDSN: testkit.NewMariaDB(t).NewDatabase(t)})
		r := &redis{}
		w := start(t, s.Archive, r, archive.WriterOptions{})
		before, waited := innodb(t, s, "lock_deadlocks"), innodb(t, s, "lock_row_lock_waits")

		// The rival has more to undo, so that InnoDB chooses our transaction as the victim.
		heavy := []job.ID{id(900)}
		for n := range 1500 {
			heavy = append(heavy, id(1000+n))
		}
		other := rival(t, s, heavy...)
		recorded := make(chan error, 1)
		go func() { recorded <- w.Record(context.Background(), []job.Outcome{failed(100), failed(900)}) }()
		waits(t, s, waited, 1)                        // we hold 100 and wait for 900
		execute(t, other, outcomeOf, string(id(100))) // the rival wants 100: a deadlock, and then it gets 100
		if got := innodb(t, s, "lock_deadlocks") - before; got != 1 {
			t.Fatalf("%d deadlocks, want 1", got)
		}
		if err := other.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := <-recorded; err != nil {
			t.Fatal(err)
		}
		if n := s.Count(t, "job_outcomes"); n != 2 || s.Count(t, "failed_jobs") != 2 || r.count() != 2 {
			t.Errorf("%d outcomes, %d acknowledged", n, r.count())
		}
		if st := w.Stats(); st.Written != 2 || st.Down || st.Refused != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestLockWait(t *testing.T) {
	t.Attr("proves", "F39")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		server := testkit.NewMariaDB(t) // its counters count only this test
		for name, commit := range map[string]bool{"rival-commits": true, "rival-rolls-back": false} {
			t.Run(name, func(t *testing.T) { lockWait(t, server.NewDatabase(t)+"?innodb_lock_wait_timeout=1", commit) })
		}
	})
}

func lockWait(t *testing.T, dsn string, commit bool) {
	s := archivetest.New(t, database.Options{MySQLDSN: dsn})
	r := &redis{}
	w := start(t, s.Archive, r, archive.WriterOptions{})
	before := innodb(t, s, "lock_row_lock_waits")
	other := rival(t, s, id(2))
	recorded := make(chan error, 1)
	go func() { recorded <- w.Record(context.Background(), []job.Outcome{failed(1), failed(2)}) }()
	waits(t, s, before, 2) // the first try got error 1205: the next one waits
	end, want, wantDead := other.Rollback, job.Failed, 2
	if commit {
		end, want, wantDead = other.Commit, job.Cancelled, 1
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if err := <-recorded; err != nil {
		t.Fatal(err)
	}
	if got := r.ack(id(2)).Status; got != want {
		t.Errorf("acknowledged %s, want %s", got, want)
	}
	if got := s.Row(t, "job_outcomes WHERE job_id = ?", string(id(2)))["outcome"]; got != string(want) {
		t.Errorf("SQL has %v, want %s", got, want)
	}
	if n := s.Count(t, "failed_jobs"); n != wantDead {
		t.Errorf("%d dead letters, want %d", n, wantDead)
	}
	if st := w.Stats(); st.Refused != 0 || st.Down {
		t.Errorf("%+v", st)
	}
}
