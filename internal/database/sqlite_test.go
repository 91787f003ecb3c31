package database

import (
	"fmt"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

func TestSQLiteVerdicts(t *testing.T) {
	for code, want := range map[sqlite3.ErrorCode]Verdict{
		sqlite3.BUSY: Conflict, sqlite3.LOCKED: Conflict, sqlite3.CONSTRAINT: BadData, sqlite3.TOOBIG: BadData,
		sqlite3.MISMATCH: BadData,
		sqlite3.FULL:     Outage, sqlite3.IOERR: Outage, sqlite3.READONLY: Outage, sqlite3.CORRUPT: Outage,
	} {
		if got := sqliteVerdict(fmt.Errorf("insert: %w", code)); got != want {
			t.Errorf("%v: %d, want %d", code, got, want)
		}
	}
}
