package archive_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
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

const within = 30 * time.Second

// outage makes SQL unreachable while outcomes arrive, and then reachable again.
func outage(t *testing.T, server *testkit.MariaDB, away, back func() error) {
	t.Helper()
	s := archivetest.New(t, database.Options{MySQLDSN: server.NewDatabase(t) + "?readTimeout=500ms&timeout=500ms"})
	r := &redis{}
	w := start(t, s.Archive, r, archive.WriterOptions{})
	record(t, w, many(10)...)

	if err := away(); err != nil {
		t.Fatal(err)
	}
	for n := 11; n <= 300; n++ {
		if !w.Offer(completed(n)) {
			t.Fatalf("outcome %d was not taken", n)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if err := w.Record(ctx, []job.Outcome{completed(301)}); !errors.Is(err, job.ErrUnavailable) || ctx.Err() != nil {
		t.Errorf("record without SQL: %v", err)
	}
	if st := w.Stats(); !st.Down || st.Waiting != 290 {
		t.Errorf("without SQL: %+v", st)
	}
	if _, err := s.Find(ctx, id(1)); !errors.Is(err, job.ErrUnavailable) || errors.Is(err, job.ErrNotFound) {
		t.Errorf("an outage is not an absent job: %v", err)
	}
	if err := s.Database.Ping(ctx); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("ping: %v", err)
	}

	if err := back(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, within, "all rows", func() (bool, string) {
		st := w.Stats()
		return st.Waiting == 0 && !st.Down && r.count() == 300, fmt.Sprintf("%+v, %d acknowledged", st, r.count())
	})
	record(t, w, completed(301))
	if n := s.Count(t, "job_results"); n != 301 || s.CountOutcomes(t, "") != 301 {
		t.Errorf("%d results, %d outcomes, want 301", n, s.CountOutcomes(t, ""))
	}
	if st := w.Stats(); st.Refused != 0 || st.Differences != 0 {
		t.Errorf("%+v", st)
	}
}

func TestSQLFrozen(t *testing.T) {
	t.Attr("proves", "F14")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		server := testkit.NewMariaDB(t)
		outage(t, server, server.Freeze, server.Thaw)
	})
}

func TestSQLKilled(t *testing.T) {
	t.Attr("proves", "F14 F36")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		server := testkit.NewMariaDB(t)
		outage(t, server, server.Kill, server.Restart)
	})
}

// With nothing to write, the writer itself finds out that SQL is back.
func TestDownEndsByItself(t *testing.T) {
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		server := testkit.NewMariaDB(t)
		s := archivetest.New(t, database.Options{MySQLDSN: server.NewDatabase(t)})
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := w.Record(t.Context(), many(1)); !errors.Is(err, job.ErrUnavailable) {
			t.Fatalf("record: %v", err)
		}
		if st := w.Stats(); !st.Down || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, within, "up", func() (bool, string) { return !s.Database.Down(), "down" })
	})
}

// A stop while SQL is unreachable ends soon and leaves the rest to the outbox.
func TestStopWithoutSQL(t *testing.T) {
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		server := testkit.NewMariaDB(t)
		s := archivetest.New(t, database.Options{MySQLDSN: server.NewDatabase(t)})
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		w.Offer(completed(1))
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		if err := w.Stop(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("stop: %v (%v)", err, ctx.Err())
		}
	})
}

// If the COMMIT succeeds and its answer is lost, a repeat finds the rows.
func TestCommitAnswerLost(t *testing.T) {
	t.Attr("proves", "F40")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		direct := databasetest.MariaDB(t)
		cfg, err := mysql.ParseDSN(direct.MySQLDSN)
		if err != nil {
			t.Fatal(err)
		}
		proxy := testkit.NewTCPProxy(t, cfg.Addr)
		cfg.Addr = proxy.Addr()
		s := archivetest.New(t, database.Options{MySQLDSN: cfg.FormatDSN()})
		r := &redis{}
		w := start(t, s.Archive, r, archive.WriterOptions{})
		record(t, w, completed(1000))

		proxy.DropReply("\x03COMMIT") // the whole statement: READ COMMITTED is another
		for n := range 100 {
			w.Offer(failed(n))
		}
		testkit.Eventually(t, within, "the acknowledgements", func() (bool, string) {
			return r.count() == 101, fmt.Sprintf("%d, %+v", r.count(), w.Stats())
		})
		if proxy.Cuts() != 1 {
			t.Fatalf("%d commits lost their answer, want 1", proxy.Cuts())
		}
		rows := map[string]int{"job_outcomes": 100, "job_results": 1, "failed_jobs": 100, "job_attempts": 200}
		for table, want := range rows {
			if n := s.Count(t, table); n != want {
				t.Errorf("%s has %d rows, want %d", table, n, want)
			}
		}
		st := w.Stats()
		if st.Differences != 0 || st.Refused != 0 || st.Written >= 101 {
			t.Errorf("%+v: some must have been found, as they were committed", st)
		}
	})
}

// The connection may break at any point of a transaction without losing or doubling an outcome.
func TestConnectionCutAnywhere(t *testing.T) {
	t.Attr("proves", "F40")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		cfg, err := mysql.ParseDSN(databasetest.MariaDB(t).MySQLDSN)
		if err != nil {
			t.Fatal(err)
		}
		proxy := testkit.NewTCPProxy(t, cfg.Addr)
		cfg.Addr = proxy.Addr()
		s := archivetest.New(t, database.Options{MySQLDSN: cfg.FormatDSN()})
		r := &redis{}
		w := start(t, s.Archive, r, archive.WriterOptions{})
		const rounds = 12
		for round := range rounds {
			proxy.CutAfter(1 + 400*round)
			for n := range 10 {
				w.Offer(failed(round*10 + n))
			}
			testkit.Eventually(t, within, "the acknowledgements", func() (bool, string) {
				return r.count() == 10*(round+1), fmt.Sprintf("%d, %+v", r.count(), w.Stats())
			})
		}
		if proxy.Cuts() < rounds/2 {
			t.Errorf("only %d cuts landed", proxy.Cuts())
		}
		if o, f := s.CountOutcomes(t, ""), s.Count(t, "failed_jobs"); o != 10*rounds || f != 10*rounds {
			t.Errorf("%d outcomes, %d dead letters", o, f)
		}
	})
}

func TestReadOnly(t *testing.T) {
	t.Attr("proves", "F37")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		server := testkit.NewMariaDB(t)
		dsn := server.NewDatabase(t)
		root := open(t, dsn)
		// root may write on a read-only server; a user with rights on one database only may not.
		execute(t, root, "CREATE USER tierq@'%' IDENTIFIED BY 'secret'")
		execute(t, root, "GRANT ALL ON "+databaseOf(t, dsn)+".* TO tierq@'%'")
		s := archivetest.New(t, database.Options{MySQLDSN: strings.Replace(dsn, "root@", "tierq:secret@", 1)})
		r := &redis{}
		w := start(t, s.Archive, r, archive.WriterOptions{})
		record(t, w, completed(1))

		before := connections(t, root, "tierq")
		execute(t, root, "SET GLOBAL read_only = 1")
		w.Offer(completed(2))
		if err := w.Record(t.Context(), []job.Outcome{completed(3)}); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("record: %v", err)
		}
		if st := w.Stats(); !st.Down || st.Waiting != 1 || st.Refused != 0 {
			t.Errorf("%+v", st)
		}
		testkit.Eventually(t, within, "the connections from before are given up", func() (bool, string) {
			now := connections(t, root, "tierq")
			return len(before) > 0 && !slices.ContainsFunc(before, func(id int) bool { return slices.Contains(now, id) }),
				fmt.Sprint(before, " before, now ", now)
		})
		execute(t, root, "SET GLOBAL read_only = 0")
		testkit.Eventually(t, within, "the row", func() (bool, string) {
			return r.count() == 2, fmt.Sprintf("%+v", w.Stats())
		})
		record(t, w, completed(3))
		if n := s.Count(t, "job_results"); n != 3 {
			t.Errorf("%d results", n)
		}
	})
}

// connections returns the server's ids of a user's connections.
func connections(t *testing.T, db *sql.DB, user string) (ids []int) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT id FROM information_schema.processlist WHERE user = ?", user)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return ids
}

// databaseOf returns the name of a DSN's database.
func databaseOf(t *testing.T, dsn string) string {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.DBName
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

type executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func execute(t *testing.T, db executor, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}
