package archive

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// No statement of the journal reads a table without a key, however small the tables: what is read to be changed is locked.
func TestJournalUsesItsIndexes(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, a *Archive) {
		fill(t, a, explainRows)
		id := func(n int) job.ID { return job.ID(fmt.Sprintf("019a0000-0000-7000-8000-%012x", n<<8)) }
		for _, size := range []int{3, 2000} {
			rows := make([]*job.JournalRow, size)
			for n := range rows {
				rows[n] = &job.JournalRow{
					Job:         job.Job{ID: id(n), Generation: 1},
					Incarnation: fmt.Sprint("run-", n%3),
					Idempotency: job.Idempotency{Key: fmt.Sprintf("%032x", n)},
				}
			}
			for len(rows) > 0 {
				n := min(len(rows), maxBatch)
				if err := a.note(t.Context(), &notes{rows: rows[:n]}, time.Hour); err != nil {
					t.Fatal(err)
				}
				rows = rows[n:]
			}
			type query struct {
				text string
				args []any
			}
			one := []any{string(id(1))}
			queries := map[string]query{
				"waits":     {noteWaits, []any{1, nil, string(id(1)), 1}},
				"cancel":    {noteCancel, []any{"run-1", string(id(1))}},
				"first run": {firstRun, nil}, "next run": {nextRun, []any{"run-0"}},
				"lost":  {lostOfRun(a.dialect), []any{"run-1", string(id(1)), 0, 10}},
				"sweep": {sweepPage, []any{string(id(1)), 10}}, "journaled": {journaled(a.dialect), one},
				"waiting": {waiting(a.dialect), []any{string(id(1)), 1000, 10}},
				"expired": {expiredKeys(a.dialect), []any{10}}, "keys": {livingKeys(a.dialect), []any{fmt.Sprintf("%032x", 1), 10}},
			}
			for _, n := range []int{1, 4, maxBatch} {
				ids := make([]job.ID, n)
				for i := range ids {
					ids[i] = id(i)
				}
				in := padded(ids, n)
				queries[fmt.Sprint("find ended ", n)] = query{a.findEnded(n), in}
				queries[fmt.Sprint("drop ", n)] = query{a.dropAccepted(n), append(padded(ids, n), 1)}
				queries[fmt.Sprint("found ", n)] = query{a.setRun(n), append([]any{"run-9"}, in...)}
				queries[fmt.Sprint("known ", n)] = query{knownRows, []any{in, in}}
			}
			for name, q := range queries {
				steps := explain(t, a, q.text, q.args)
				t.Logf("%d rows, %-14s %s", size, name, strings.Join(steps, "; "))
				for _, step := range steps {
					// "known" locks nothing: three rows it may walk along an index.
					if bad(step) && !strings.Contains(step, "<union") && (size > 3 || !strings.HasPrefix(name, "known")) {
						t.Errorf("%d rows, %s: %s", size, name, step)
					}
				}
			}
		}
	})
}
