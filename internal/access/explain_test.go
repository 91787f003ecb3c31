package access

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

// No statement of a deletion reads the whole log or sorts, however small or large the log is, because the rows that
// it reads are locked.
func TestDeletionOfChangesUsesItsIndexes(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, db *databasetest.Store) {
		s := New(db.Database)
		for _, size := range []int{2, job.MaxBatch} {
			changes := make([]job.Change, 20)
			for n := range changes {
				changes[n] = job.Change{At: time.Now().Add(-time.Hour), Target: fmt.Sprint(size, n)}
			}
			if err := s.AddChanges(t.Context(), changes); err != nil {
				t.Fatal(err)
			}
			numbers := make([]any, database.SizeFor(size))
			for n := range numbers {
				numbers[n] = n
			}
			databasetest.FreshStatistics(t, db.Database, "changes")
			old := oldChanges(&db.Database.Dialect)
			for text, args := range map[string][]any{
				deleteChanges(&db.Database.Dialect, len(numbers)): numbers, old: {rowsAtOnce, 1000},
			} {
				steps := databasetest.Plan(t, db.Database, text, args)
				t.Logf("%d numbers, %.60s: %s", size, text, strings.Join(steps, "; "))
				for _, step := range steps {
					// The oldest changes are read from the beginning of the primary key, one step's rows. MariaDB reads a whole
					// table that has no more rows than the statement names: it locks no other rows. MySQL reads a whole table of a
					// few rows, whatever the statement names.
					walks := text == old || databasetest.PlannedRows(step) <= max(len(args), 4)
					if databasetest.WholeTable(step) && !walks || strings.Contains(step, "filesort") ||
						strings.Contains(step, "TEMP B-TREE") {
						t.Errorf("%d numbers, %.60s: %s", size, text, step)
					}
				}
			}
		}
	})
}
