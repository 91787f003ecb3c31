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
	const insert = "INSERT INTO api_keys (id, name, role, tiers, types, rate, burst, in_flight, hash, created_at, " +
		"created_by, version) VALUES ('abcdefghijklmnop', 'w', 'worker', '[]', '[]', 0, 0, 0, " +
		"X'0000000000000000000000000000000000000000000000000000000000000000', '2026-05-01 10:00:00.000000', '', 1)"
	migrateAfter(t, a, append([]string{insert}, done...))
	var name string
	var queues sql.NullString
	row := a.db.Write.Raw("SELECT name, queues FROM api_keys WHERE id = 'abcdefghijklmnop'").Row()
	if err := row.Scan(&name, &queues); err != nil || name != "w" || queues.Valid {
		t.Errorf("the key %q has the queues %+v, %v", name, queues, err)
	}
}
