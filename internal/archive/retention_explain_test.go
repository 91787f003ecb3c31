package archive

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// plannedRows is how many rows MariaDB expects a step to read; of SQLite, which does not say, more than any.
func plannedRows(step string) int {
	_, rows, _ := strings.Cut(step, " rows=")
	rows, _, _ = strings.Cut(rows, " ")
	n, err := strconv.Atoi(rows)
	if err != nil {
		return math.MaxInt
	}
	return n
}

// freshStatistics tells MySQL how large its tables are now. It finds that out by itself, but not in a test's time.
func freshStatistics(t *testing.T, a *Archive) {
	t.Helper()
	if a.read != a.write { // SQLite plans by the schema alone
		return
	}
	var said []map[string]any
	if err := a.read.WithContext(t.Context()).Raw("ANALYZE TABLE " + strings.Join(tables, ", ")).Scan(&said).Error; err != nil {
		t.Fatal(err)
	}
}

// No statement of a deletion reads a table without a key, nor sorts, however small or large the tables: what it reads
// to delete is locked.
func TestDeletionUsesItsIndexes(t *testing.T) {
	everywhere(t, func(t *testing.T, a *Archive) {
		for _, rows := range []int{4, explainRows} {
			fill(t, a, rows)
			changes := make([]job.Change, 20)
			for n := range changes {
				changes[n] = job.Change{At: time.Now().Add(-time.Hour), Target: fmt.Sprint(rows, n)}
			}
			if err := a.AddChanges(t.Context(), changes); err != nil {
				t.Fatal(err)
			}
			ids := make([]job.ID, min(rows/2, job.MaxBatch))
			for n := range ids {
				at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Minute)
				ids[n] = job.ID(firstID(at, "") + fmt.Sprintf("-7000-8000-%012x", n<<8))
			}
			freshStatistics(t, a)
			q := a.dialect.retention(len(ids))
			jobs := padded(ids, q.size)
			numbers := make([]any, sizeFor(len(ids)))
			for n := range numbers {
				numbers[n] = n
			}
			for text, args := range map[string][]any{
				q.nextTier: {"COMPLETED", "A"}, q.old: {"COMPLETED", "PAID", earliest, 1000, earliest, "", "", 0, job.MaxBatch},
				q.outcomes: jobs, q.letters: jobs, q.lockedLetters: jobs, q.journal: slices.Concat(jobs, jobs), q.keys: jobs, q.attempts: jobs,
				q.deleteLetters: jobs, q.deleteResults: jobs, q.deleteAttempts: jobs, q.deleteReasons: jobs, q.deleteOutcomes: jobs,
				q.deleteChanges + marks(len(numbers)): numbers, q.oldChanges: {rowsAtOnce, 1000},
			} {
				steps := explain(t, a, text, args)
				t.Logf("%d rows, %.60s: %s", rows, text, strings.Join(steps, "; "))
				for _, step := range steps {
					// The oldest changes are read along the primary key, a step's rows from its beginning. MariaDB
					// walks a table that has no more rows than the statement names: it locks nothing beside them.
					// MySQL walks one of a few rows, whatever the statement names.
					walks := text == q.oldChanges || plannedRows(step) <= max(len(args), 4)
					if bad(step) && !walks || strings.Contains(step, "filesort") ||
						strings.Contains(step, "TEMP B-TREE") {
						t.Errorf("%d rows, %.60s: %s", rows, text, step)
					}
				}
			}
		}
	})
}
