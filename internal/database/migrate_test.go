package database_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// Migrations that were interrupted go on: two before their last table, one before its version was stored.
func TestMigrateGoesOn(t *testing.T) {
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		s := databasetest.New(t, databasetest.MariaDB(t))
		s.Exec(t, "DROP TABLE job_attempts")
		s.Exec(t, "DROP TABLE idempotency_keys")
		s.Exec(t, "DELETE FROM goose_db_version WHERE version_id > 0")
		if err := s.Database.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := s.Count(t, "job_attempts") + s.Count(t, "idempotency_keys"); n != 0 {
			t.Error(n)
		}
	})
}

// Most tests use copies of the schema. A copy is the same as what Migrate makes.
func TestCopiesOfTheSchema(t *testing.T) {
	t.Parallel()
	for backend, fresh := range databasetest.Backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			migrated := fresh(t)
			if err := databasetest.Open(t, migrated).Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := databasetest.Schema(t, migrated)
			if len(want) < 10 {
				t.Fatalf("only %d tables and indexes", len(want))
			}
			for range 2 { // the first one may be migrated itself
				if diff := cmp.Diff(want, databasetest.Schema(t, databasetest.New(t, fresh(t)).Options)); diff != "" {
					t.Errorf("-migrated +copied:\n%s", diff)
				}
			}
		})
	}
}

func TestMigrateWithoutSQL(t *testing.T) {
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		server := testkit.NewMariaDB(t)
		db := databasetest.Open(t, database.Options{MySQLDSN: server.NewDatabase(t)})
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := db.Migrate(t.Context()); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("%v", err)
		}
	})
}

func TestSQLiteFileIsPrivate(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "a folder, with %20 ? and #")
		s := databasetest.New(t, database.Options{SQLitePath: filepath.Join(dir, "tierq.db")})
		insert := "INSERT INTO plans (tier, version, plan, changed_at) VALUES ('PAID', 1, '{}', CURRENT_TIMESTAMP)"
		if _, err := s.Database.Exec(t.Context(), insert, nil); err != nil {
			t.Fatal(err)
		}
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
	databasetest.Each(t, func(t *testing.T, s *databasetest.Store) {
		if err := s.Database.Ping(t.Context()); err != nil || s.Database.Down() {
			t.Errorf("%v, down %v", err, s.Database.Down())
		}
	})
}

func TestPingSaysThatSQLModeIsNotStrict(t *testing.T) {
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		o := databasetest.MariaDB(t)
		o.MySQLDSN += "?sql_mode=''"
		if err := databasetest.Open(t, o).Ping(t.Context()); !errors.Is(err, database.ErrNotStrict) {
			t.Errorf("%v", err)
		}
	})
}

// Open does not connect.
func TestOpen(t *testing.T) {
	begin := time.Now()
	databasetest.Open(t, database.Options{MySQLDSN: "u:p@tcp(192.0.2.1:3306)/tierq"})
	if took := time.Since(begin); took > 5*time.Second { // the address does not answer: a dial would take longer
		t.Errorf("it took %v", took)
	}
	for name, o := range map[string]database.Options{
		"neither":     {},
		"both":        {MySQLDSN: "root@/x", SQLitePath: "x"},
		"no database": {MySQLDSN: "root:hush@tcp(127.0.0.1)/"},
		"not a DSN":   {MySQLDSN: "root:hush@tcp(127.0.0.1"},
	} {
		if _, err := database.Open(o); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
