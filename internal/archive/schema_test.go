package archive

import (
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/database/databasetest"
)

// The models, the inserts and the migrated schema have the same columns, with the same types, keys and NULLs.
func TestModelsFitTheSchema(t *testing.T) {
	databasetest.FitTheSchema(t, &outcomeRow{}, &resultRow{}, &failedRow{}, &attemptRow{}, &acceptedRow{},
		&cancelReasonRow{}, &keyRow{}, &planRow{}, &flowRow{}, &flowJobRow{}, &batchRow{}, &memberRow{})
}

// Every column of a table is inserted, except those that the database, a requeue or a dismissal fills in later.
func TestInsertsNameEveryColumn(t *testing.T) {
	later := map[string]bool{
		"job_outcomes.recorded_at": true, "accepted_jobs.recorded_at": true, "requeue_requested_at": true,
		"requeue_request_id": true, "requeue_reason": true, "requeued_at": true, "requeued_run_id": true, "open_at": true,
		"dismissed_at": true, "dismiss_reason": true,
	}
	a := New(databasetest.Open(t, databasetest.SQLite(t)), Options{})
	for _, model := range []any{&outcomeRow{}, &resultRow{}, &failedRow{}, &attemptRow{}, &acceptedRow{}, &keyRow{},
		&flowJobRow{}} {
		columns, table := databasetest.Columns(t, a.db, model)
		for name := range columns {
			inserted := strings.Contains(a.inserts[table][1], "`"+name+"`")
			if inserted == (later[name] || later[table+"."+name]) {
				t.Errorf("%s.%s: inserted is %v", table, name, inserted)
			}
		}
	}
}
