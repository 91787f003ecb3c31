package archive

import (
	"database/sql"
	"os"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/database/databasetest"
)

// API keys that an earlier version has made have no list of queues after an upgrade: it is NULL, which means all. MySQL
// commits each statement of a migration by itself. A start that was cut off behind the new column goes on at the next
// start.
func TestUpgrade_QueuesOfKeys(t *testing.T) {
	t.Attr("proves", "S1-T2")
	t.Parallel()
	upgrading(t, 12, func(t *testing.T, a *Archive) { keepsKeys(t, a, nil) })
	text, err := os.ReadFile("../database/migrations/mysql/00013_key_queues.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, up, _ := strings.Cut(string(text), "-- +goose Up\n")
	statements := strings.Split(strings.TrimSuffix(strings.TrimSpace(up), ";"), ";\n")
	t.Run("mariadb, cut off", func(t *testing.T) {
		keepsKeys(t, atVersion(t, databasetest.MariaDB(t), 12), statements)
	})
}

// keepsKeys stores a key, runs some statements of migration 13 by hand, and then the whole migration.
func keepsKeys(t *testing.T, a *Archive, done []string) {
	pool, err := a.db.Write.DB()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Conn(t.Context()) // prepared statements belong to a connection
	if err != nil {
		t.Fatal(err)
	}
	const insert = "INSERT INTO api_keys (id, name, role, tiers, types, rate, burst, in_flight, hash, created_at, " +
		"created_by, version) VALUES ('abcdefghijklmnop', 'w', 'worker', '[]', '[]', 0, 0, 0, " +
		"X'0000000000000000000000000000000000000000000000000000000000000000', '2026-05-01 10:00:00.000000', '', 1)"
	for _, statement := range append([]string{insert}, done...) {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var name string
	var queues sql.NullString
	row := pool.QueryRowContext(t.Context(), "SELECT name, queues FROM api_keys WHERE id = 'abcdefghijklmnop'")
	if err := row.Scan(&name, &queues); err != nil || name != "w" || queues.Valid {
		t.Errorf("the key %q has the queues %+v, %v", name, queues, err)
	}
}
