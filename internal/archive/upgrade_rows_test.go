package archive

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

// oldRow inserts the rows that a version-10 process wrote for an outcome, all of a day and a minute ago. A generation
// has two attempts, and the first one was released. Its row is older still: it has no generation.
func oldRow(t *testing.T, a *Archive, id job.ID, generation int, status job.Status) {
	t.Helper()
	pool, err := a.db.Write.DB()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().UTC().Add(-24*time.Hour - time.Minute).Format("2006-01-02 15:04:05.000000")
	insert := func(text string, args ...any) {
		t.Helper()
		if _, err := pool.ExecContext(t.Context(), text, args...); err != nil {
			t.Fatal(err)
		}
	}
	insert("INSERT INTO job_outcomes (job_id, generation, outcome, attempt, tier, type, owner, retry_count, "+
		"max_retries, trace_id, recorded_at) VALUES (?, ?, ?, ?, 'PAID', 'SIMULATION', 'key-1', 0, 5, 'trace-1', ?)",
		string(id), generation, string(status), 2*generation, at)
	insert("INSERT INTO job_attempts (job_id, attempt, worker, outcome, error, generation) "+
		"VALUES (?, ?, 'w', 'RELEASED', '', 0)", string(id), 2*generation-1)
	switch status {
	case job.Completed:
		insert("INSERT INTO job_results (job_id, generation, tier, type, owner, result, retry_count, max_retries, attempts, "+
			"completed_at, trace_id) VALUES (?, ?, 'PAID', 'SIMULATION', 'key-1', '{}', 0, 5, ?, ?, 'trace-1')",
			string(id), generation, 2*generation, at)
	case job.Failed:
		insert("INSERT INTO failed_jobs (job_id, generation, tier, type, owner, total_retries, max_retries, attempts, "+
			"discarded_at, failure_cause, last_error, trace_id) VALUES (?, ?, 'PAID', 'SIMULATION', 'key-1', 0, 5, ?, ?, "+
			"'HANDLER_ERROR', 'boom', 'trace-1')", string(id), generation, 2*generation, at)
	}
}

func rowID(n int) job.ID { return job.ID(fmt.Sprintf("019a0000-0000-7000-8000-%012x", n<<8)) }

// recordsAs records an outcome and returns the status that stands, and whether SQL had one before.
func recordsAs(t *testing.T, a *Archive, id job.ID, generation int, status job.Status) (job.Status, bool) {
	t.Helper()
	o := job.Outcome{Job: job.Job{ID: id, Generation: generation, Tier: job.Paid, Type: "SIMULATION", Owner: "key-1",
		TraceID: "trace-1", Status: status, Attempt: generation, MaxRetries: 5, EndedAt: time.Now()}}
	if status == job.Failed {
		o.Cause = job.HandlerError
	}
	there, _, err := a.record(t.Context(), []*job.Outcome{&o}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := there[keyOf(&o)]; ok {
		return e.status, true
	}
	return status, false
}

// shows checks that every reader shows each job once, as it ended last.
func shows(t *testing.T, a *Archive, want map[job.ID]job.Status) {
	t.Helper()
	own := "key-1"
	for _, f := range []job.Filter{{}, {Owner: &own}, {TraceID: "trace-1"}} {
		items, next, err := a.List(t.Context(), f, "", 100)
		if err != nil || len(items) != len(want) || next != "" {
			t.Errorf("%+v: %d jobs are listed, want %d, next %q, %v", f, len(items), len(want), next, err)
		}
		for _, j := range items {
			if j.Status != want[j.ID] {
				t.Errorf("%s is listed as %s, want %s", j.ID, j.Status, want[j.ID])
			}
		}
	}
	ended := map[job.Status]int64{}
	for id, status := range want {
		ended[status]++
		if j, err := a.Find(t.Context(), id); err != nil || j.Status != status {
			t.Errorf("%s is found as %s, want %s, %v", id, j.Status, status, err)
		}
		if known, err := a.Known(t.Context(), []job.ID{id}); err != nil || !known[0] {
			t.Errorf("%s is not known, %v", id, err)
		}
		all, err := a.Outcomes(t.Context(), []job.ID{id})
		if got := all[id]; err != nil || len(got) == 0 || got[len(got)-1].Status != status {
			t.Errorf("%s has the outcomes %+v, want %s at last, %v", id, got, status, err)
		}
	}
	for _, owner := range []*string{nil, &own} {
		tally, err := a.Tally(t.Context(), owner, time.Time{}, time.Time{})
		if err != nil || len(tally) != 1 || tally[0].Completed != ended[job.Completed] ||
			tally[0].Failed != ended[job.Failed] || tally[0].Cancelled != ended[job.Cancelled] {
			t.Errorf("the tally is %+v, want %v, %v", tally, ended, err)
		}
	}
}

// hasAttempts checks which generations the attempts in a job's history have.
func hasAttempts(t *testing.T, a *Archive, id job.ID, want []int) {
	t.Helper()
	attempts, err := a.Attempts(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]int, len(attempts))
	for i := range attempts {
		got[i] = attempts[i].Generation
	}
	if !slices.Equal(got, want) {
		t.Errorf("the attempts of %s have the generations %v, want %v", id, got, want)
	}
}

// rowsOfJob counts a job's rows in job_outcomes and job_results.
func rowsOfJob(t *testing.T, a *Archive, id job.ID) (outcomes, results int) {
	t.Helper()
	for table, n := range map[string]*int{"job_outcomes": &outcomes, "job_results": &results} {
		if err := a.db.Write.Raw("SELECT COUNT(*) FROM "+table+" WHERE job_id = ?", string(id)).Scan(n).Error; err != nil {
			t.Fatal(err)
		}
	}
	return outcomes, results
}

// Version 10 wrote two rows for a completed job. All readers show its rows as before, and an outcome that SQL has
// stands, of whatever kind the outcome is that this version offers. A job that this version completes has one row.
// Retention deletes the rows of both versions.
func TestUpgrade_OutcomesOfVersion10(t *testing.T) {
	t.Attr("proves", "S1-T2")
	t.Parallel()
	upgrading(t, 10, func(t *testing.T, a *Archive) {
		want := map[job.ID]job.Status{}
		for n, status := range []job.Status{job.Completed, job.Failed, job.Cancelled, job.Failed} {
			want[rowID(n)] = status
			oldRow(t, a, rowID(n), 1, status)
		}
		want[rowID(3)] = job.Completed // it was requeued
		oldRow(t, a, rowID(3), 2, job.Completed)
		for range 2 {
			if err := a.db.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		shows(t, a, want)
		for n, generations := range [][]int{{1}, {1}, {1}, {1, 2}} {
			hasAttempts(t, a, rowID(n), generations)
		}
		for _, c := range []struct {
			n, generation int
			offered       job.Status
			stands        job.Status
		}{
			{0, 1, job.Completed, job.Completed}, {0, 1, job.Failed, job.Completed}, {0, 1, job.Cancelled, job.Completed},
			{1, 1, job.Completed, job.Failed}, {2, 1, job.Completed, job.Cancelled},
			{3, 1, job.Failed, job.Failed}, {3, 1, job.Completed, job.Failed}, {3, 2, job.Failed, job.Completed},
		} {
			if got, known := recordsAs(t, a, rowID(c.n), c.generation, c.offered); got != c.stands || !known {
				t.Errorf("job %d: %s was offered and %s stands, want %s", c.n, c.offered, got, c.stands)
			}
		}
		shows(t, a, want)

		recordsAs(t, a, rowID(4), 1, job.Completed)
		recordsAs(t, a, rowID(5), 1, job.Failed)
		want[rowID(4)], want[rowID(5)] = job.Completed, job.Failed
		if outcomes, results := rowsOfJob(t, a, rowID(4)); results != 1 || outcomes != 0 {
			t.Errorf("%d outcomes and %d results of a job that was completed after the upgrade", outcomes, results)
		}
		for _, offered := range []job.Status{job.Completed, job.Failed, job.Cancelled} {
			for _, n := range []int{4, 5} {
				if got, known := recordsAs(t, a, rowID(n), 1, offered); got != want[rowID(n)] || !known {
					t.Errorf("job %d: %s was offered and %s stands, want %s", n, offered, got, want[rowID(n)])
				}
			}
		}
		shows(t, a, want)
		deletesAll(t, a, want)
	})
}

// deletesAll runs the retention of everything that is older than a day, after a day.
func deletesAll(t *testing.T, a *Archive, ended map[job.ID]job.Status) {
	t.Helper()
	at := time.Now().UTC().Add(-24*time.Hour - time.Second).Format("2006-01-02 15:04:05.000000")
	for _, table := range []string{"job_outcomes", "job_results"} {
		youngest := "UPDATE " + table + " SET recorded_at = ? WHERE recorded_at > ?"
		if err := a.db.Write.Exec(youngest, at, at).Error; err != nil {
			t.Fatal(err)
		}
	}
	kinds, err := a.Kinds(t.Context())
	if fmt.Sprint(kinds) != "[{PAID COMPLETED} {PAID FAILED} {PAID CANCELLED}]" || err != nil {
		t.Fatal(kinds, err)
	}
	var gone []job.ID
	for _, k := range kinds {
		var after job.OldJob
		for {
			old, err := a.OldJobs(t.Context(), k, 24*time.Hour, after)
			if err != nil {
				t.Fatal(err)
			}
			if len(old) == 0 {
				break
			}
			after = old[len(old)-1]
			free, err := a.UnneededJobs(t.Context(), old)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range free {
				gone = append(gone, o.ID)
			}
			if _, err := a.DeleteJobs(t.Context(), old); err != nil {
				t.Fatal(err)
			}
		}
	}
	if slices.Sort(gone); len(gone) != len(ended) || len(slices.Compact(gone)) != len(ended) {
		t.Errorf("%d jobs are deleted, want %d: %v", len(gone), len(ended), gone)
	}
	for id := range ended {
		if outcomes, results := rowsOfJob(t, a, id); outcomes+results != 0 {
			t.Errorf("%s: %d outcomes and %d results are left", id, outcomes, results)
		}
	}
}

// MySQL commits each statement of a migration by itself. A start that was cut off behind any of them goes on at the
// next start.
func TestUpgrade_OneRowIsCutOff(t *testing.T) {
	t.Attr("proves", "S1-T2")
	t.Parallel()
	text, err := os.ReadFile("../database/migrations/mysql/00011_one_row.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, up, _ := strings.Cut(string(text), "-- +goose Up\n")
	statements := strings.Split(strings.TrimSpace(up), ";\n")
	t.Run("mariadb", func(t *testing.T) {
		for done := range statements {
			t.Run(fmt.Sprint("after-", done), func(t *testing.T) { goesOn(t, statements[:done]) })
		}
	})
}

// goesOn runs some statements of migration 11 by hand, and then the whole migration.
func goesOn(t *testing.T, done []string) {
	a := atVersion(t, databasetest.MariaDB(t), 10)
	oldRow(t, a, rowID(0), 1, job.Completed)
	migrateAfter(t, a, done)
	const indexes = "SELECT COUNT(DISTINCT index_name) FROM information_schema.statistics " +
		"WHERE table_schema = DATABASE() AND table_name = 'job_results'"
	var n int
	if err := a.db.Write.Raw(indexes).Scan(&n).Error; err != nil || n != 4 {
		t.Errorf("job_results has %d indexes, want 4, %v", n, err)
	}
	shows(t, a, map[job.ID]job.Status{rowID(0): job.Completed})
}

// migrateAfter executes some statements by hand, on one connection, and then migrates the database.
func migrateAfter(t *testing.T, a *Archive, statements []string) {
	t.Helper()
	pool, err := a.db.Write.DB()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Conn(t.Context()) // prepared statements belong to a connection
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
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
}
