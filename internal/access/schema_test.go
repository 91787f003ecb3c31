package access

import (
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/database/databasetest"
)

// The models and the migrated schema name the same columns, with the same types, keys and NULLs.
func TestModelsFitTheSchema(t *testing.T) {
	databasetest.FitTheSchema(t, &apiKeyRow{}, &changeRow{})
}

// Every column of the log of changes is inserted, except the number, which the database sets.
func TestInsertsNameEveryColumn(t *testing.T) {
	columns, _ := databasetest.Columns(t, databasetest.Open(t, databasetest.SQLite(t)), &changeRow{})
	for name := range columns {
		if inserted := strings.Contains(changeInsert, "`"+name+"`"); inserted == (name == "seq") {
			t.Errorf("changes.%s: inserted is %v", name, inserted)
		}
	}
}
