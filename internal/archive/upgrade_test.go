package archive

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

// everywhere runs test with an archive on each backend, before any migration.
func everywhere(t *testing.T, test func(t *testing.T, a *Archive)) {
	for backend, fresh := range databasetest.Backends {
		t.Run(backend, func(t *testing.T) { test(t, New(databasetest.Open(t, fresh(t)), Options{})) })
	}
}

// upgrading runs test with an archive on each backend, whose database has an older version.
func upgrading(t *testing.T, version int64, test func(t *testing.T, a *Archive)) {
	for backend, fresh := range databasetest.Backends {
		t.Run(backend, func(t *testing.T) { test(t, atVersion(t, fresh(t), version)) })
	}
}

// atVersion makes an archive in a database and migrates that database to an older version.
func atVersion(t *testing.T, o database.Options, version int64) *Archive {
	t.Helper()
	a := New(databasetest.Open(t, o), Options{})
	dialect, files := goose.DialectSQLite3, "../database/migrations/sqlite"
	if o.MySQLDSN != "" {
		dialect, files = goose.DialectMySQL, "../database/migrations/mysql"
	}
	p, err := goose.NewProvider(dialect, databasetest.OpenSQL(t, o), os.DirFS(files),
		goose.WithLogger(goose.NopLogger()), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	return a
}

// The schema has versions, each database stores its own, and rows of an older tierq are still there after an
// upgrade.
func TestUpgrade(t *testing.T) {
	t.Attr("proves", "S1-T2 S4-T4")
	t.Parallel()
	upgrading(t, 1, func(t *testing.T, a *Archive) {
		const id, deadID = "019a0000-0000-7000-8000-000000000100", "019a0000-0000-7000-8000-000000000200"
		for _, insert := range []string{
			"INSERT INTO job_outcomes (job_id, generation, outcome, attempt, tier, type, owner, retry_count, max_retries, trace_id) " +
				"VALUES ('" + id + "', 1, 'COMPLETED', 1, 'PAID', 'SIMULATION', '', 0, 5, '')",
			"INSERT INTO job_results (job_id, generation, tier, type, owner, result, retry_count, max_retries, attempts, trace_id) " +
				"VALUES ('" + id + "', 1, 'PAID', 'SIMULATION', '', '{\"old\":true}', 0, 5, 1, '')",
			"INSERT INTO job_outcomes (job_id, generation, outcome, attempt, tier, type, owner, retry_count, max_retries, trace_id) " +
				"VALUES ('" + deadID + "', 1, 'FAILED', 1, 'PAID', 'SIMULATION', '', 0, 5, '')",
			"INSERT INTO failed_jobs (job_id, generation, tier, type, owner, payload, total_retries, max_retries, attempts, " +
				"discarded_at, " +
				"failure_cause, last_error, trace_id) VALUES ('" + deadID +
				"', 1, 'PAID', 'SIMULATION', 'key-1', '{\"old\":1}', 3, 5, 4, " +
				"'2026-05-01 10:00:00.123000', 'HANDLER_ERROR', 'boom', 'trace-1')",
		} {
			if err := a.db.Write.Exec(insert).Error; err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := a.db.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var versions []int
		const applied = "SELECT version_id FROM goose_db_version WHERE version_id > 0 ORDER BY id"
		if err := a.db.Write.Raw(applied).Scan(&versions).Error; err != nil {
			t.Fatal(err)
		}
		if all := databasetest.Migrations(t); !slices.Equal(versions, all) {
			t.Errorf("versions %v, want %v", versions, all)
		}
		j, err := a.Find(t.Context(), id)
		if err != nil || j.Status != job.Completed || string(j.Result) != `{"old":true}` || j.Worker != "" {
			t.Errorf("%+v, %v", j, err)
		}
		want := job.Job{
			ID: deadID, Generation: 1, Tier: job.Paid, Type: "SIMULATION", Owner: "key-1", TraceID: "trace-1",
			Payload: []byte(`{"old":1}`), Status: job.Failed,
			Attempt: 4, RetryCount: 3, MaxRetries: 5, EndedAt: time.Date(2026, 5, 1, 10, 0, 0, 123e6, time.UTC),
			Cause: job.HandlerError, LastError: "boom",
		}
		l, err := a.DeadLetter(t.Context(), deadID)
		if diff := cmp.Diff(job.DeadLetter{Job: want}, l); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if n, err := a.CountDead(t.Context(), job.Filter{}); n != 1 || err != nil {
			t.Errorf("%d open dead letters, %v", n, err)
		}
	})
}

// A row of version 9 was written after Redis had accepted its job, or for a requeue: no submit can take it back.
func TestUpgrade_RowsOfVersion9(t *testing.T) {
	t.Attr("proves", "S1-T2")
	t.Parallel()
	upgrading(t, 9, func(t *testing.T, a *Archive) {
		ids := []job.ID{"019a0000-0000-7000-8000-000000000100", "019a0000-0000-7000-8000-000000000200"}
		for n, run := range []string{"run-1", ""} {
			insert := "INSERT INTO accepted_jobs (job_id, generation, tier, type, owner, priority, max_retries, " +
				"attempt, retry_count, worker, cancel_requested, run_id, trace_id, payload, idempotency_key, " +
				"idempotency_body) " +
				"VALUES (?, 1, 'PAID', 'SIMULATION', '', 1, 5, 0, 0, '', 0, ?, '', '{}', 'k', 'b')"
			if err := a.db.Write.Exec(insert, string(ids[n]), run).Error; err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := a.db.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := a.LivingOf(t.Context(), ids)
		if err != nil || len(rows) != 2 {
			t.Fatalf("%+v, %v", rows, err)
		}
		var backs []*noted
		for n, run := range []string{"run-1", ""} {
			if l := rows[n]; l.ID != ids[n] || l.Submitting || l.Incarnation != run || string(l.Payload) != "{}" {
				t.Errorf("%+v", l)
			}
			backs = append(backs, &noted{kind: backNote, row: &rows[n], gone: true})
		}
		if err := a.note(t.Context(), &notes{backs: backs}, time.Hour); err != nil || backs[0].gone || backs[1].gone {
			t.Errorf("they were taken back: %v, %v, %v", backs[0].gone, backs[1].gone, err)
		}
		if n, err := a.JournalSize(t.Context()); n != 2 || err != nil {
			t.Errorf("%d rows, %v", n, err)
		}
	})
}
