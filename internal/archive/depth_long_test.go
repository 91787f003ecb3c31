//go:build long

package archive

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// Lists and reports use their indexes among a million outcomes, of which every tenth is a dead letter and every
// hundredth belongs to one owner. A page in the middle or at the end reads as many rows as the first page. MariaDB
// counts the rows it reads; SQLite does not, so the test logs its times.
func TestListsAtDepth(t *testing.T) {
	const n = 1_000_000
	db := testkit.NewMariaDB(t)
	for backend, o := range map[string]database.Options{"mariadb": {MySQLDSN: db.NewDatabase(t)},
		"sqlite": databasetest.SQLite(t)} {
		t.Run(backend, func(t *testing.T) {
			a := New(databasetest.New(t, o).Database, Options{})
			began := time.Now()
			deepen(t, a, n)
			t.Logf("%d outcomes made in %s", n, time.Since(began).Round(time.Second))
			heldToIndexes(t, a, deepID(n/2), deepTime(n/2), "key-7")
			owner, stranger := "key-7", "nobody"
			for name, f := range map[string]job.Filter{
				"all": {}, "completed": {Status: job.Completed}, "failed": {Status: job.Failed},
				"cancelled, which none is": {Status: job.Cancelled},
				"tier":                     {Tier: job.Public}, "type": {Type: "REPORT"}, "type that nobody has": {Type: "NONE"},
				"cause": {Cause: job.HandlerError},
				"owner": {Owner: &owner}, "owner without jobs": {Owner: &stranger},
				"owner and all": {Owner: &owner, Status: job.Completed, Tier: job.Public, Type: "REPORT"},
			} {
				for _, at := range []int{n, n / 2, 100} {
					reads(t, a, fmt.Sprintf("list, %s, below %d", name, at), 40_000, func(ctx context.Context) error {
						_, _, err := a.List(ctx, f, deepID(at), 20)
						return err
					})
					reads(t, a, fmt.Sprintf("dead, %s, below %d", name, at), 40_000, func(ctx context.Context) error {
						_, _, err := a.Dead(ctx, f, place{deepTime(at), job.ID(deepID(at)), 1}.String(), 20)
						return err
					})
				}
				if f.Tier == "" && f.Type == "" && f.Cause == "" {
					reads(t, a, "count of the dead, "+name, MostCounted*2+100, func(ctx context.Context) error {
						_, err := a.CountDead(ctx, f)
						return err
					})
				}
			}
			for whose, o := range map[string]*string{"everybody": nil, "an owner": &owner} {
				began := time.Now()
				tallies, err := a.Tally(t.Context(), o, time.Time{}, time.Time{})
				if err != nil {
					t.Fatal(err)
				}
				sum := int64(0)
				for _, tally := range tallies {
					sum += tally.Completed + tally.Failed
				}
				if want := int64(map[bool]int{true: n, false: n / 100}[o == nil]); sum != want {
					t.Errorf("the report of %s has %d jobs, not %d", whose, sum, want)
				}
				t.Logf("report of %s: %s", whose, time.Since(began).Round(time.Millisecond))
			}
		})
	}
}

// reads checks that MariaDB reads at most a number of rows for a call.
func reads(t *testing.T, a *Archive, what string, most int64, call func(context.Context) error) {
	t.Helper()
	before, began := rowsRead(t, a), time.Now()
	if err := call(t.Context()); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	took, rows := time.Since(began), rowsRead(t, a)-before
	t.Logf("%-45s %8d rows %8s", what, rows, took.Round(100*time.Microsecond))
	if rows > most || took > 10*time.Second {
		t.Errorf("%s: %d rows, at most %d wanted, in %s", what, rows, most, took)
	}
}

// rowsRead returns how many rows the server has read so far; 0 for SQLite, which does not count.
func rowsRead(t *testing.T, a *Archive) (sum int64) {
	t.Helper()
	if a.db.Read != a.db.Write {
		return 0
	}
	var rows []struct {
		VariableName string `gorm:"column:Variable_name"`
		Value        int64  `gorm:"column:Value"`
	}
	const reads = "SHOW GLOBAL STATUS LIKE 'Handler_read%'"
	if err := a.db.Read.WithContext(t.Context()).Raw(reads).Scan(&rows).Error; err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if !strings.HasSuffix(r.VariableName, "_retry") && !strings.HasSuffix(r.VariableName, "_deleted") {
			sum += r.Value
		}
	}
	return sum
}

// deepTime returns the time of the n-th job: there is one job per second.
func deepTime(n int) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Second)
}

func deepID(n int) string { return fmt.Sprintf("%s-7000-8000-%012x", firstID(deepTime(n), ""), n<<8) }

// deepen inserts n outcomes with their results and dead letters directly, without the writer.
func deepen(t *testing.T, a *Archive, n int) {
	t.Helper()
	const step = 500
	for first := 0; first < n; first += step {
		var outcomes, results, dead []string
		for i := first; i < first+step; i++ {
			at := deepTime(i).Format("2006-01-02 15:04:05.000000")
			tier, typ, owner := []string{"PAID", "UNPAID", "PUBLIC"}[i%3], []string{"SIMULATION", "REPORT"}[i/3%2], ""
			if i%100 == 10+i/100%10 { // one job in a hundred, of which every tenth is a dead letter
				owner = "key-7"
			}
			status := "COMPLETED"
			if i%10 == 0 {
				status = "FAILED"
				dead = append(dead, fmt.Sprintf("('%s',1,'%s','%s','%s','{}',1,1,2,'%s','%s','%s','%s','HANDLER_ERROR','no use','')", deepID(i), tier, typ, owner, at, at, at, at))
			} else {
				results = append(results, fmt.Sprintf("('%s',1,'%s','%s','%s','{}',0,1,1,'%s','%s','%s','%s','','%s')",
					deepID(i), tier, typ, owner, at, at, at, at, at))
				continue
			}
			outcomes = append(outcomes, fmt.Sprintf("('%s',1,'%s',1,'%s','%s','%s',0,1,'%s','','%s')", deepID(i), status, tier,
				typ, owner, at, at))
		}
		for _, insert := range []string{
			"INSERT INTO job_outcomes (job_id, generation, outcome, attempt, tier, type, owner, retry_count, max_retries, " +
				"arrived_at, trace_id, recorded_at) VALUES " + strings.Join(outcomes, ","),
			"INSERT INTO job_results (job_id, generation, tier, type, owner, result, retry_count, max_retries, attempts, " +
				"arrived_at, first_tried_at, started_at, completed_at, trace_id, recorded_at) VALUES " +
				strings.Join(results, ","),
			"INSERT INTO failed_jobs (job_id, generation, tier, type, owner, payload, total_retries, max_retries, attempts, " +
				"arrived_at, first_tried_at, started_at, discarded_at, failure_cause, last_error, trace_id) VALUES " +
				strings.Join(dead, ","),
		} {
			pool, err := a.db.Write.DB()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pool.ExecContext(t.Context(), insert); err != nil {
				t.Fatal(err)
			}
		}
	}
}
