// Package databasetest gives tests a database of each kind that tierq supports, and access to its rows.
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

// Store is a fresh database of one test.
type Store struct {
	Database *database.DB // migrated
	Options  database.Options
	DB       *sql.DB // a second connection, to read rows and to disturb the Database
}

// Backends make the Options of a fresh database of each kind.
var Backends = map[string]func(testing.TB) database.Options{"sqlite": SQLite, "mariadb": MariaDB}

// Each runs test with a fresh migrated database on every backend: /sqlite and /mariadb.
func Each(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, New(t, SQLite(t))) })
	t.Run("mariadb", func(t *testing.T) { test(t, New(t, MariaDB(t))) })
}

// SQLite returns the Options of a file that does not exist yet.
func SQLite(t testing.TB) database.Options {
	return database.Options{SQLitePath: filepath.Join(t.TempDir(), "tierq.db"), Log: slog.New(slog.DiscardHandler)}
}

// MariaDB returns the Options of a fresh database on the shared server of the test process.
func MariaDB(t testing.TB) database.Options {
	t.Helper()
	return database.Options{MySQLDSN: testkit.SharedMariaDB(t), Log: slog.New(slog.DiscardHandler)}
}

// New opens and migrates the database that o describes. Both handles are closed when the test ends.
func New(t testing.TB, o database.Options) *Store {
	t.Helper()
	db := Open(t, o)
	if err := fill(o); err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(context.Background()); err != nil { // a database that had tables
		t.Fatal(err)
	}
	return &Store{Database: db, Options: o, DB: OpenSQL(t, o)}
}

// OpenSQL opens the database of o without a DB.
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

// Count returns SELECT COUNT(*) FROM from.
func (s *Store) Count(t testing.TB, from string, args ...any) int {
	t.Helper()
	var n int
	if err := s.DB.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM "+from, args...).Scan(&n); err != nil {
		t.Fatal(fmt.Errorf("count %s: %w", from, err))
	}
	return n
}

// Row reads the one row of SELECT * FROM from, by column. Times are text in UTC with microseconds, bytes are text,
// NULL is nil.
func (s *Store) Row(t testing.TB, from string, args ...any) map[string]any {
	t.Helper()
	return s.one(t, "SELECT * FROM "+from, args)
}

// Explain reads MariaDB's or MySQL's plan for a query, by column. The plan must have one step.
func (s *Store) Explain(t testing.TB, query string, args ...any) map[string]any {
	t.Helper()
	return s.one(t, "EXPLAIN FORMAT=TRADITIONAL "+query, args) // MySQL's default format is a tree
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
