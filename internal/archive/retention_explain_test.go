package archive

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

// No statement of a deletion reads a table without a key, or sorts, however small or large the tables: the
// deletion locks what it reads.
func TestDeletionUsesItsIndexes(t *testing.T) {
	everywhere(t, func(t *testing.T, a *Archive) {
		for _, rows := range []int{4, explainRows} {
			fill(t, a, rows)
			ids := make([]job.ID, min(rows/2, job.MaxBatch))
			for n := range ids {
				at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Minute)
				ids[n] = job.ID(firstID(at, "") + fmt.Sprintf("-7000-8000-%012x", n<<8))
			}
			databasetest.FreshStatistics(t, a.db, tables...)
			q := retentionOf(&a.db.Dialect, len(ids))
			jobs := padded(ids, q.size)
			for text, args := range map[string][]any{
				q.nextTier: {"COMPLETED", "A"}, q.old: {"COMPLETED", "PAID", earliest, 1000, earliest, "", "", 0, job.MaxBatch},
				q.nextCompleted: {"A"}, q.oldCompleted: {"PAID", earliest, 1000, earliest, "", job.MaxBatch},
				q.outcomes: jobs, q.results: jobs, q.letters: jobs, q.lockedLetters: jobs,
				q.journal: slices.Concat(jobs, jobs), q.keys: jobs, q.attempts: jobs,
				q.deleteLetters: jobs, q.deleteResults: jobs, q.deleteAttempts: jobs, q.deleteReasons: jobs, q.deleteOutcomes: jobs,
			} {
				steps := databasetest.Plan(t, a.db, text, args)
				t.Logf("%d rows, %.60s: %s", rows, text, strings.Join(steps, "; "))
				for _, step := range steps {
					// MariaDB scans a table that has no more rows than the statement names: it locks nothing besides them. MySQL
					// scans a table of a few rows, whatever the statement names.
					walks := databasetest.PlannedRows(step) <= max(len(args), 4)
					if databasetest.WholeTable(step) && !walks || strings.Contains(step, "filesort") ||
						strings.Contains(step, "TEMP B-TREE") {
						t.Errorf("%d rows, %.60s: %s", rows, text, step)
					}
				}
			}
		}
	})
}
