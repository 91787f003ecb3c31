package archive

import (
	"fmt"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

func TestSQLiteVerdicts(t *testing.T) {
	for code, want := range map[sqlite3.ErrorCode]verdict{
		sqlite3.BUSY: again, sqlite3.LOCKED: again, sqlite3.CONSTRAINT: badData, sqlite3.TOOBIG: badData, sqlite3.MISMATCH: badData,
		sqlite3.FULL: down, sqlite3.IOERR: down, sqlite3.READONLY: down, sqlite3.CORRUPT: down,
	} {
		if got := sqliteVerdict(fmt.Errorf("insert: %w", code)); got != want {
			t.Errorf("%v: %d, want %d", code, got, want)
		}
	}
}
