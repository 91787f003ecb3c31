package archive_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// Several processes boot at once on an empty database.
func TestMigrateAtOnce(t *testing.T) {
	t.Attr("proves", "S3-I12")
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) archive.Options{"sqlite": archivetest.SQLite, "mariadb": archivetest.MariaDB} {
		t.Run(name, func(t *testing.T) {
			o := fresh(t)
			var all sync.WaitGroup
			begin := make(chan struct{})
			for range 4 {
				a := archivetest.Open(t, o)
				all.Go(func() {
					<-begin
					ctx, cancel := context.WithTimeout(t.Context(), within)
					defer cancel()
					if err := a.Migrate(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			close(begin)
			all.Wait()
			s := archivetest.New(t, o) // once more
			facts, err := s.ReadFacts(t.Context())
			if n := s.Count(t, "goose_db_version WHERE version_id > 0"); n != facts.Newest || err != nil {
				t.Errorf("%d migrations were applied %d times, %v", facts.Newest, n, err)
			}
			w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
			record(t, w, failed(1))
		})
	}
}

// Migrations that were cut off, two before their last table, one before its version was noted, go on.
func TestMigrateGoesOn(t *testing.T) {
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		s := archivetest.New(t, archivetest.MariaDB(t))
		execute(t, s.DB, "DROP TABLE job_attempts")
		execute(t, s.DB, "DROP TABLE idempotency_keys")
		execute(t, s.DB, "DELETE FROM goose_db_version WHERE version_id > 0")
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := s.Count(t, "job_attempts") + s.Count(t, "idempotency_keys"); n != 0 {
			t.Error(n)
		}
	})
}

func TestMigrateWithoutSQL(t *testing.T) {
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		server := testkit.NewMariaDB(t)
		a := archivetest.Open(t, archive.Options{MySQLDSN: server.NewDatabase(t)})
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := a.Migrate(t.Context()); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("%v", err)
		}
	})
}

func TestSQLiteFileIsPrivate(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "a folder, with %20 ? and #")
		s := archivetest.New(t, archive.Options{SQLitePath: filepath.Join(dir, "tierq.db")})
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		record(t, w, completed(1))
		for name, want := range map[string]fs.FileMode{"": 0o700, "tierq.db": 0o600, "tierq.db-wal": 0o600} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Error(err)
			} else if mode := info.Mode().Perm(); mode != want {
				t.Errorf("%q has mode %v, want %v", name, mode, want)
			}
		}
	})
}

func TestPing(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		if err := a.Ping(t.Context()); err != nil || a.Down() {
			t.Errorf("%v, down %v", err, a.Down())
		}
	})
}

func TestPingSaysThatSQLModeIsNotStrict(t *testing.T) {
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		o := archivetest.MariaDB(t)
		o.MySQLDSN += "?sql_mode=''"
		if err := archivetest.Open(t, o).Ping(t.Context()); !errors.Is(err, archive.ErrNotStrict) {
			t.Errorf("%v", err)
		}
	})
}

// The constructor does not connect.
func TestOpen(t *testing.T) {
	begin := time.Now()
	archivetest.Open(t, archive.Options{MySQLDSN: "u:p@tcp(192.0.2.1:3306)/tierq"})
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it took %v", took)
	}
	for name, o := range map[string]archive.Options{
		"neither":     {},
		"both":        {MySQLDSN: "root@/x", SQLitePath: "x"},
		"no database": {MySQLDSN: "root:hush@tcp(127.0.0.1)/"},
		"not a DSN":   {MySQLDSN: "root:hush@tcp(127.0.0.1"},
	} {
		if _, err := archive.Open(o); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
