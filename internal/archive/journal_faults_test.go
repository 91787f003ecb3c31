package archive_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// proxied returns an archive with the journal on that reaches its database through a proxy.
func proxied(t *testing.T) (*archivetest.Store, *testkit.TCPProxy) {
	t.Helper()
	direct := databasetest.MariaDB(t).MySQLDSN
	cfg, err := mysql.ParseDSN(direct)
	done(t, err)
	proxy := testkit.NewTCPProxy(t, cfg.Addr)
	cfg.Addr = proxy.Addr()
	s := archivetest.NewJournal(t, database.Options{MySQLDSN: cfg.FormatDSN()})
	s.DB = open(t, direct) // reads the rows without the proxy
	return s, proxy
}

// If the COMMIT succeeds and its answer is lost, the caller gets job.ErrAmbiguous, and a repeat is right.
func TestJournalCommitLost(t *testing.T) {
	t.Attr("proves", "F40")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		s, proxy := proxied(t)
		var heard atomic.Value
		j := journal(t, s.Archive, archive.JournalOptions{Observe: func(err error) { heard.Store(&err) }})
		done(t, submit(t.Context(), j, living(0)))
		proxy.DropReply("\x03COMMIT") // only the command COMMIT, not READ COMMITTED
		if err := submit(t.Context(), j, living(1)); !lost(err) || proxy.Cuts() != 1 {
			t.Fatalf("%v after %d cuts", err, proxy.Cuts())
		}
		if err := *heard.Load().(*error); !lost(err) || !j.Down() {
			t.Errorf("the gate heard %v, down %v", err, j.Down())
		}
		check(t, "committed", accepted(t, s, 1), fresh(1, nil))
		done(t, submit(t.Context(), j, living(1)))
		if err := *heard.Load().(*error); err != nil || j.Down() || s.Count(t, "accepted_jobs") != 2 {
			t.Errorf("the gate heard %v, down %v, %d rows", err, j.Down(), s.Count(t, "accepted_jobs"))
		}

		// The same happens to a take back: it is in doubt, and its repeat says that it did not remove the row.
		done(t, submit(t.Context(), j, submitting(2)))
		proxy.DropReply("\x03COMMIT")
		gone, err := j.TakeBack(t.Context(), []job.JournalRow{submitting(2)})
		if gone != nil || !lost(err) || proxy.Cuts() != 2 {
			t.Fatalf("%v, %v after %d cuts", gone, err, proxy.Cuts())
		}
		if rows, keys := there(t, s, 2); rows != 0 || keys != 0 {
			t.Errorf("committed, and %d rows and %d keys are there", rows, keys)
		}
		back(t, j, []job.JournalRow{submitting(2)}, false)
	})
}

// The connection may break at any point of a transaction: the error tells the caller the truth, and nothing is
// half done.
func TestJournalCutAnywhere(t *testing.T) {
	t.Attr("proves", "F40")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		s, proxy := proxied(t)
		j := journal(t, s.Archive, archive.JournalOptions{})
		done(t, submit(t.Context(), j, living(0))) // the statements are prepared
		failures := 0
		for round := 1; round <= 15; round++ {
			proxy.CutAfter(60 * round)
			err := submit(t.Context(), j, living(round))
			there := s.Count(t, "accepted_jobs WHERE job_id = ?", string(id(round))) == 1
			keyThere := s.Count(t, "idempotency_keys WHERE job_id = ?", string(id(round))) == 1
			if err == nil && !there || refused(err) && there || err != nil && !refused(err) && !lost(err) || there != keyThere {
				t.Errorf("round %d: %v, the row is there: %v, its key %v", round, err, there, keyThere)
			}
			if err != nil {
				failures++
				testkit.Eventually(t, within, "again", func() (bool, string) {
					err := submit(t.Context(), j, living(round))
					return err == nil, fmt.Sprint(err)
				})
			}
		}
		if failures == 0 || proxy.Cuts() < 8 {
			t.Errorf("%d calls failed, %d cuts landed", failures, proxy.Cuts())
		}
		if n := s.Count(t, "accepted_jobs"); n != 16 {
			t.Errorf("%d rows", n)
		}
	})
}

// The same holds for a take back: row and key are both there or both gone, and job.ErrUnavailable means that both
// are there.
func TestTakeBackCutAnywhere(t *testing.T) {
	t.Attr("proves", "F40")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		s, proxy := proxied(t)
		j := journal(t, s.Archive, archive.JournalOptions{})
		for n := range 16 {
			done(t, submit(t.Context(), j, submitting(n)))
		}
		back(t, j, []job.JournalRow{submitting(0)}, true) // the statements are prepared
		failures := 0
		for round := 1; round <= 15; round++ {
			proxy.CutAfter(20 * round)
			gone, err := j.TakeBack(t.Context(), []job.JournalRow{submitting(round)})
			rows, keys := there(t, s, round)
			if err == nil && !slices.Equal(gone, []bool{rows == 0}) || refused(err) && rows == 0 ||
				err != nil && !refused(err) && !lost(err) || rows != keys {
				t.Errorf("round %d: %v, %v; %d rows, %d keys", round, gone, err, rows, keys)
			}
			if err != nil {
				failures++
				testkit.Eventually(t, within, "again", func() (bool, string) {
					_, err := j.TakeBack(t.Context(), []job.JournalRow{submitting(round)})
					return err == nil, fmt.Sprint(err)
				})
			}
			if rows, keys := there(t, s, round); rows != 0 || keys != 0 {
				t.Errorf("round %d: %d rows and %d keys are left", round, rows, keys)
			}
		}
		if failures == 0 || proxy.Cuts() < 8 {
			t.Errorf("%d calls failed, %d cuts landed", failures, proxy.Cuts())
		}
	})
}

// Without SQL nothing is written, and every caller gets an error soon, whether its rows were sent or waited. Down
// ends by itself.
func TestJournalWithoutSQL(t *testing.T) {
	t.Attr("proves", "F14 F36")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		server := testkit.NewMariaDB(t)
		s := archivetest.NewJournal(t, database.Options{MySQLDSN: server.NewDatabase(t)})
		accept := func(j *archive.Journal) {
			testkit.Eventually(t, within, "an accepted job", func() (bool, string) {
				err := submit(t.Context(), j, submitting(0)) // SQL could take back this row
				return err == nil, fmt.Sprint(err)
			})
		}
		j := journal(t, s.Archive, archive.JournalOptions{Timeout: time.Second})
		accept(j)
		for name, away := range map[string]struct{ go_, back func() error }{"killed": {server.Kill, server.Restart},
			"frozen": {server.Freeze, server.Thaw}} {
			done(t, away.go_())
			begin := time.Now()
			var all sync.WaitGroup
			for n := 1; n <= 20; n++ {
				all.Go(func() {
					if err := submit(context.Background(), j, living(n)); !refused(err) {
						t.Errorf("%s: %v", name, err)
					}
				})
				all.Go(func() {
					gone, err := j.TakeBack(context.Background(), []job.JournalRow{submitting(0)})
					if gone != nil || !refused(err) {
						t.Errorf("%s: %v, %v", name, gone, err)
					}
				})
			}
			all.Wait()
			if took := time.Since(begin); took > 10*time.Second || !j.Down() {
				t.Errorf("%s: it took %v, down %v", name, took, j.Down())
			}
			if err := j.Probe(t.Context()); !errors.Is(err, job.ErrUnavailable) {
				t.Errorf("%s: probe: %v", name, err)
			}
			done(t, away.back())
			testkit.Eventually(t, within, "up", func() (bool, string) { return !j.Down(), "down" })
			accept(j)
			if n := s.Count(t, "accepted_jobs"); n != 1 {
				t.Errorf("%s: %d rows: some callers were told wrongly", name, n)
			}
		}
	})
}

// A database that can be read but not written is down for the journal, even if a ping succeeds.
func TestJournalReadOnly(t *testing.T) {
	t.Attr("proves", "F37")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		server := testkit.NewMariaDB(t)
		dsn := server.NewDatabase(t)
		root := open(t, dsn)
		execute(t, root, "CREATE USER tierq@'%' IDENTIFIED BY 'secret'")
		execute(t, root, "GRANT ALL ON "+databaseOf(t, dsn)+".* TO tierq@'%'")
		s := archivetest.NewJournal(t, database.Options{MySQLDSN: strings.Replace(dsn, "root@", "tierq:secret@", 1)})
		j := journal(t, s.Archive, archive.JournalOptions{})
		execute(t, root, "SET GLOBAL read_only = 1")
		if err := submit(t.Context(), j, living(1)); !refused(err) {
			t.Errorf("accept: %v", err)
		}
		if err := j.Probe(t.Context()); !refused(err) || !j.Down() {
			t.Errorf("probe: %v, down %v", err, j.Down())
		}
		execute(t, root, "SET GLOBAL read_only = 0")
		testkit.Eventually(t, within, "up", func() (bool, string) { return !j.Down(), "down" })
		done(t, submit(t.Context(), j, living(1)))
	})
}

// A row that SQL refuses for its data is an error for its own caller only, and the gate does not count it.
func TestJournalBadRow(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		var heard atomic.Int64
		o := archive.JournalOptions{Observe: func(err error) {
			if err != nil {
				heard.Add(1)
			}
		}}
		j := journal(t, s.Archive, o)
		bad := living(4)
		bad.Type = strings.Repeat("x", 101)
		var all sync.WaitGroup
		for n := range 9 {
			l := living(n)
			if n == 4 {
				l = bad
			}
			all.Go(func() {
				if err := submit(t.Context(), j, l); (err != nil) != (n == 4) ||
					n == 4 && !refused(err) {
					t.Errorf("row %d: %v", n, err)
				}
			})
		}
		all.Wait()
		// In a call with good rows the error is job.ErrAmbiguous: the good rows are written.
		if err := submit(t.Context(), j, living(10), bad, living(11)); !lost(err) {
			t.Errorf("together: %v", err)
		}
		if rows, keys := there(t, s, 4); rows != 0 || keys != 0 {
			t.Errorf("the refused one has %d rows, %d keys", rows, keys)
		}
		if n := s.Count(t, "accepted_jobs"); n != 10 || j.Stats().Refused != 2 || heard.Load() != 0 || j.Down() {
			t.Errorf("%d rows, %+v, the gate heard of %d errors, down %v", n, j.Stats(), heard.Load(), j.Down())
		}
	})
}

// Rows that wait behind a failed transaction are refused with it: they have waited as long, and would only fail
// later.
func TestJournalFailsWhatWaits(t *testing.T) {
	t.Attr("proves", "F14")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		s, proxy := proxied(t)
		reached, goOn := make(chan struct{}, 1), make(chan struct{})
		var failed atomic.Int64
		j := journal(t, s.Archive, archive.JournalOptions{Observe: func(err error) {
			if err != nil {
				failed.Add(1)
				return
			}
			reached <- struct{}{}
			<-goOn
		}})
		first := make(chan error, 1)
		go func() { first <- submit(context.Background(), j, living(0)) }()
		<-reached
		many := make([]job.JournalRow, 500) // a whole transaction
		for n := range many {
			many[n] = living(1 + n)
		}
		next := later(t, j, 500, func() error { return submit(context.Background(), j, many...) })
		behind := later(
			t,
			j,
			501,
			func() error { return submit(context.Background(), j, living(900)) },
		)
		proxy.Refuse(true)
		proxy.Cut()
		close(goOn)
		done(t, <-first)
		for _, told := range []<-chan error{next, behind} {
			if err := <-told; !refused(err) {
				t.Errorf("%v", err)
			}
		}
		if n := failed.Load(); n != 1 || s.Count(t, "accepted_jobs") != 1 {
			t.Errorf("%d transactions failed, %d rows", n, s.Count(t, "accepted_jobs"))
		}
		proxy.Refuse(false)
	})
}
