package archive

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

// No statement of the journal reads a table without a key, however small the tables: a statement that changes rows
// locks all rows that it reads.
func TestJournalUsesItsIndexes(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, a *Archive) {
		fill(t, a, explainRows)
		id := func(n int) job.ID { return job.ID(fmt.Sprintf("019a0000-0000-7000-8000-%012x", n<<8)) }
		sizesOfCalls := []int{1, 4, maxBatch}
		type query struct {
			text string
			args []any
		}
		inline := map[string]query{}
		for _, n := range sizesOfCalls {
			ids, rows := make([]job.ID, n), make([]job.JournalRow, min(n, stampsAtOnce))
			for i := range ids {
				ids[i] = id(i)
			}
			for i := range rows {
				if rows[i].ID, rows[i].ArrivedAt = id(i), time.UnixMilli(1_764_000_000_000); n > 1 {
					rows[i].RunAt = rows[i].ArrivedAt.Add(time.Minute)
				}
			}
			stamp, args := a.stampsOf("run-1", rows)
			inline[fmt.Sprint("owe ", n)] = query{a.noteOwed(n), padded(ids, n)}
			inline[fmt.Sprint("stamp ", n)] = query{stamp, args}
		}
		for _, size := range []int{3, 2000} {
			rows := make([]*noted, size)
			for n := range rows {
				rows[n] = &noted{row: &job.JournalRow{
					Job:         job.Job{ID: id(n), Generation: 1},
					Incarnation: []string{"", "run-1", "run-2"}[n%3], Submitting: n%2 == 0,
					Idempotency: job.Idempotency{Key: fmt.Sprintf("%032x", n)},
				}}
			}
			for len(rows) > 0 {
				n := min(len(rows), maxBatch)
				if err := a.note(t.Context(), &notes{submits: rows[:n]}, time.Hour); err != nil {
					t.Fatal(err)
				}
				rows = rows[n:]
			}
			one := []any{string(id(1))}
			queries := map[string]query{
				"claim":         {noteClaim, []any{nil, 1, 0, 0, nil, nil, "w", "t", 5000, "run-1", string(id(1)), 1, 1, 1}},
				"holder":        {holderOf(a.db.Dialect), []any{fmt.Sprintf("%032x", 1)}},
				"waits":         {noteWaits, []any{1, 0, nil, string(id(1)), 1}},
				"cancel":        {noteCancel, []any{"run-1", string(id(1))}},
				"drop if ended": {dropIfEnded, []any{string(id(1)), string(id(1)), 1, string(id(1)), 1}},
				"first run":     {firstRun, nil}, "next run": {nextRun, []any{"run-0"}},
				"lost":         {lostOfRun(a.db.Dialect), []any{"run-1", string(id(1)), 0, 10}},
				"lost, no run": {lostOfRun(a.db.Dialect), []any{"", string(id(1)), 5000, 10}},
				"sweep":        {sweepPage, []any{string(id(1)), 10}}, "journaled": {journaled(a.db.Dialect), one},
				"waiting": {waiting(a.db.Dialect), []any{string(id(1)), 1000, 10}},
				"expired": {expiredKeys(a.db.Dialect), []any{10}},
			}
			for _, n := range sizesOfCalls {
				ids := make([]job.ID, n)
				backs, keys := make([]*noted, n), make([]any, n)
				for i := range ids {
					ids[i] = id(i)
					key := fmt.Sprintf("%032x", i)
					keys[i] = key
					row := job.JournalRow{Job: job.Job{ID: id(i)}, Idempotency: job.Idempotency{Key: key}}
					backs[i] = &noted{kind: backNote, row: &row}
				}
				in, back := padded(ids, n), a.takeBackOf(backs)
				queries[fmt.Sprint("drop ", n)] = query{a.dropAccepted(n), append(padded(ids, n), 1)}
				queries[fmt.Sprint("found ", n)] = query{a.setRun(n), append(append([]any{"run-9"}, in...), 1)}
				queries[fmt.Sprint("known ", n)] = query{knownRows, []any{in, in, in}}
				queries[fmt.Sprint("holders ", n)] = query{holdersOf(n), keys}
				queries[fmt.Sprint("back, look ", n)] = query{back.look, in}
				queries[fmt.Sprint("back, row ", n)] = query{back.drop, in}
				queries[fmt.Sprint("back, key ", n)] = query{back.unkey, []any{keys[0], string(ids[0])}}
				queries[fmt.Sprint("living of ", n)] = query{livingOf, []any{sameLength(ids)}}
			}
			maps.Copy(queries, inline)
			for name, q := range queries {
				steps := databasetest.Plan(t, a.db, q.text, q.args)
				t.Logf("%d rows, %-14s %s", size, name, strings.Join(steps, "; "))
				for _, step := range steps {
					// These statements lock nothing, so they may walk three rows along an index.
					reads := strings.HasPrefix(name, "known") || strings.HasPrefix(name, "holders") ||
						strings.HasPrefix(name, "living of")
					if databasetest.WholeTable(step) && !strings.Contains(step, "<union") && (size > 3 || !reads) {
						t.Errorf("%d rows, %s: %s", size, name, step)
					}
				}
			}
		}
	})
}
