package database_test

import (
	"testing"

	"github.com/tierq/tierq/internal/database/databasetest"
)

// Migrate goes on after a first start that was killed between making the table of versions and inserting its first
// row.
func TestMigrateAfterAKilledFirstStart(t *testing.T) {
	for backend, fresh := range databasetest.Backends {
		t.Run(backend, func(t *testing.T) {
			o := fresh(t)
			db := databasetest.OpenSQL(t, o)
			id := "INTEGER PRIMARY KEY AUTOINCREMENT"
			if o.MySQLDSN != "" {
				id = "BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY"
			}
			create := "CREATE TABLE goose_db_version (id " + id + ", version_id BIGINT NOT NULL, " +
				"is_applied BOOLEAN NOT NULL, tstamp TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP)"
			if _, err := db.ExecContext(t.Context(), create); err != nil {
				t.Fatal(err)
			}
			s := databasetest.New(t, o)
			files := len(databasetest.Migrations(t))
			zero, all := s.Count(t, "goose_db_version WHERE version_id = 0"), s.Count(t, "goose_db_version")
			if zero != 1 || all != files+1 {
				t.Errorf("%d rows, %d of version 0, %d migrations", all, zero, files)
			}
		})
	}
}
