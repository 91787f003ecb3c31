package archive_test

import (
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
)

// A first start that was killed after it had made the table of versions, and before the table's first row, is gone on with.
func TestMigrateAfterAKilledFirstStart(t *testing.T) {
	for backend, fresh := range map[string]func(testing.TB) archive.Options{"sqlite": archivetest.SQLite, "mariadb": archivetest.MariaDB} {
		t.Run(backend, func(t *testing.T) {
			o := fresh(t)
			db := archivetest.OpenSQL(t, o)
			id := map[bool]string{true: "BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY", false: "INTEGER PRIMARY KEY AUTOINCREMENT"}[o.MySQLDSN != ""]
			execute(t, db, "CREATE TABLE goose_db_version (id "+id+", version_id BIGINT NOT NULL, is_applied BOOLEAN NOT NULL, "+
				"tstamp TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP)")
			s := archivetest.New(t, o)
			facts, err := s.ReadFacts(t.Context())
			if zero, all := s.Count(t, "goose_db_version WHERE version_id = 0"), s.Count(t, "goose_db_version"); err != nil || zero != 1 || all != facts.Newest+1 {
				t.Errorf("%d rows, %d of version 0, newest %d, %v", all, zero, facts.Newest, err)
			}
		})
	}
}
