package access

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

// Keys that an earlier version has made have no list of queues, which means all of them. MySQL commits each statement
// of a migration by itself: a start that was cut off behind the new column goes on at the next start.
func TestUpgrade_QueuesOfKeys(t *testing.T) {
	t.Attr("proves", "S1-T2")
	t.Parallel()
	for backend, fresh := range databasetest.Backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			keepsKeys(t, fresh(t), nil)
		})
	}
	text, err := os.ReadFile("../database/migrations/mysql/00013_key_queues.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, up, _ := strings.Cut(string(text), "-- +goose Up\n")
	statements := strings.Split(strings.TrimSuffix(strings.TrimSpace(up), ";"), ";\n")
	t.Run("cut off/mariadb", func(t *testing.T) {
		t.Parallel()
		keepsKeys(t, databasetest.MariaDB(t), statements)
	})
}

// keepsKeys stores a key in a database of version 12, runs some statements of migration 13 by hand, and then the whole
// migration.
func keepsKeys(t *testing.T, o database.Options, done []string) {
	dialect, files := goose.DialectSQLite3, "../database/migrations/sqlite"
	if o.MySQLDSN != "" {
		dialect, files = goose.DialectMySQL, "../database/migrations/mysql"
	}
	db := databasetest.OpenSQL(t, o)
	p, err := goose.NewProvider(dialect, db, os.DirFS(files), goose.WithLogger(goose.NopLogger()),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), 12); err != nil {
		t.Fatal(err)
	}
	insert := "INSERT INTO api_keys (id, name, role, tiers, types, rate, burst, in_flight, hash, created_at, created_by, " +
		"version) VALUES ('abcdefghijklmnop', 'w', 'worker', '[]', '[]', 0, 0, 0, X'" + strings.Repeat("0a", 32) +
		"', '2026-05-01 10:00:00.000000', '', 1)"
	if _, err := db.ExecContext(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context()) // prepared statements belong to a connection
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range done {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	s := New(databasetest.New(t, o).Database)
	old, err := s.APIKey(t.Context(), "abcdefghijklmnop")
	if err != nil || old.Role != job.RoleWorker || len(old.Queues) != 0 || !old.RevokedAt.IsZero() {
		t.Errorf("the key of an earlier version: %+v, %v", old, err)
	}
	bound := job.StoredKey{Key: job.Key{
		ID: "bcdefghijklmnopq", Name: "b", Role: job.RoleWorker, Queues: []string{"a", "b"},
	}}
	if added, err := s.AddAPIKey(t.Context(), bound); err != nil || !slices.Equal(added.Queues, bound.Queues) {
		t.Errorf("a bound key: %+v, %v", added, err)
	}
}
