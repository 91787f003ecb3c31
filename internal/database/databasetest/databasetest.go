// Package databasetest gives tests a database of each kind that tierq supports, and a look at its rows.
package databasetest

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/testkit"
)

// Store is one fresh database of a test.
type Store struct {
	Database *database.DB // migrated
	Options  database.Options
	DB       *sql.DB // past the Database, to look at rows and to get in its way
}

// Backends name a fresh database of each kind.
var Backends = map[string]func(testing.TB) database.Options{"sqlite": SQLite, "mariadb": MariaDB}

// Each runs test with a migrated database of its own on every backend: /sqlite and /mariadb.
func Each(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, New(t, SQLite(t))) })
	t.Run("mariadb", func(t *testing.T) { test(t, New(t, MariaDB(t))) })
}

// SQLite names a file that is not there yet.
func SQLite(t testing.TB) database.Options {
	return database.Options{SQLitePath: filepath.Join(t.TempDir(), "tierq.db"), Log: slog.New(slog.DiscardHandler)}
}

// MariaDB names a fresh database on the test process' shared server.
func MariaDB(t testing.TB) database.Options {
	t.Helper()
	return database.Options{MySQLDSN: testkit.SharedMariaDB(t), Log: slog.New(slog.DiscardHandler)}
}

// New opens and migrates the database of o; both its handles are closed when the test ends.
func New(t testing.TB, o database.Options) *Store {
	t.Helper()
	db := Open(t, o)
	if err := db.Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return &Store{Database: db, Options: o, DB: OpenSQL(t, o)}
}

// OpenSQL opens the database of o past any DB.
func OpenSQL(t testing.TB, o database.Options) *sql.DB {
	t.Helper()
	db, err := openSQL(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Open opens one more DB on the same database.
func Open(t testing.TB, o database.Options) *database.DB {
	t.Helper()
	db, err := database.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// Exec runs a statement.
func (s *Store) Exec(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := s.DB.ExecContext(context.Background(), query, args...); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", query, err))
	}
}

// Count is SELECT COUNT(*) of what follows FROM.
func (s *Store) Count(t testing.TB, from string, args ...any) int {
	t.Helper()
	var n int
	if err := s.DB.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM "+from, args...).Scan(&n); err != nil {
		t.Fatal(fmt.Errorf("count %s: %w", from, err))
	}
	return n
}

// Row reads the one row that follows FROM, by column. Times are text in UTC with microseconds, bytes are text, NULL is
// nil.
func (s *Store) Row(t testing.TB, from string, args ...any) map[string]any {
	t.Helper()
	return s.one(t, "SELECT * FROM "+from, args)
}

// Explain reads the plan, of one step, that MariaDB or MySQL has for a query, by column.
func (s *Store) Explain(t testing.TB, query string, args ...any) map[string]any {
	t.Helper()
	return s.one(t, "EXPLAIN FORMAT=TRADITIONAL "+query, args) // MySQL's default is a tree
}

// one reads the one row of a query, by column.
func (s *Store) one(t testing.TB, query string, args []any) map[string]any {
	t.Helper()
	rows, err := s.DB.QueryContext(context.Background(), query, args...)
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", query, err))
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	if !rows.Next() {
		t.Fatalf("%s: no row (%v)", query, rows.Err())
	}
	values := make([]any, len(names))
	for i := range values {
		values[i] = new(any)
	}
	if err := rows.Scan(values...); err != nil {
		t.Fatal(err)
	}
	if rows.Next() {
		t.Fatalf("%s: more than one row", query)
	}
	row := make(map[string]any, len(names))
	for i, name := range names {
		row[name] = plain(*values[i].(*any))
	}
	return row
}
