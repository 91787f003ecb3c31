package archive

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// fill makes n jobs with a minute between two, every second one a dead letter.
func fill(t *testing.T, a *Archive, n int) {
	t.Helper()
	if err := a.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := 0; i < n; {
		batch := make([]*job.Outcome, 0, maxBatch)
		for ; len(batch) < maxBatch && i < n; i++ {
			at := begin.Add(time.Duration(i) * time.Minute)
			o := &job.Outcome{Job: job.Job{
				ID: job.ID(firstID(at, "") + fmt.Sprintf("-7000-8000-%012x", i<<8)), Generation: 1, Tier: job.Paid, Type: "SIMULATION", Status: job.Completed,
				Attempt: 1, ArrivedAt: at, FirstTriedAt: at, StartedAt: at, EndedAt: at.Add(time.Second),
			}}
			if i%2 == 1 {
				o.Status, o.Cause = job.Failed, job.HandlerError
				o.Attempts = []job.Attempt{{Number: 1, Outcome: "HANDLER_ERROR"}}
			}
			batch = append(batch, o)
		}
		if _, err := a.record(t.Context(), batch, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// queries are the statements of the lists.
func (a *Archive) queries() map[string]string {
	all := map[string]string{
		"find":      findJob,
		"tally end": tallyEnd, "tally part": tallyPart(a.dialect.elapsed),
		"promised": wholeLetter + "f.requeued_at IS NULL AND f.requeue_requested_at <= " + a.dialect.ago + " ORDER BY f.requeue_requested_at LIMIT ?",
	}
	for whose, owned := range map[string]bool{"": false, "own ": true} {
		all[whose+"outcomes' end"], all[whose+"outcomes' page"] = listEnded.statements(&a.dialect, owned)
		all[whose+"failed end"], all[whose+"failed page"] = listFailed.statements(&a.dialect, owned)
		w := a.dialect.deadWalk(owned)
		all[whose+"dead end"], all[whose+"dead page"], all[whose+"dead whole"], all[whose+"dead count"] = w.end, w.page, w.whole, w.count
	}
	return all
}

// No statement of a list reads a table without a key. (At 200,000 jobs the plans are the same, and a page in the middle or at the end
// costs what the first one does: 1 to 6 ms.)
func TestListsUseTheirIndexes(t *testing.T) {
	everywhere(t, func(t *testing.T, a *Archive) {
		fill(t, a, explainRows)
		id := firstID(time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC), "") + "-7000-8000-000000000000"
		named := map[string]any{
			"before": id, "floor": "019b", "from": earliest, "at": time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC), "id": id, "generation": 1,
			"window": 4999, "rows": 10, "limit": 21, "offset": 0, "status": "", "tier": "PAID", "type": "", "cause": "HANDLER_ERROR",
			"owner": "key-1",
		}
		for name, query := range a.queries() {
			args := []any{named}
			switch {
			case name == "find":
				args = []any{id}
			case name == "promised":
				args = []any{0, 100}
			case strings.HasPrefix(name, "tally"):
				args = []any{map[string]any{"from": "019b", "before": id, "rows": 10, "everybody": 0, "owner": "key-1"}}
			}
			for _, step := range explain(t, a, query, args) {
				t.Logf("%-15s %s", name, step)
				if bad(step) {
					t.Errorf("%s: %s", name, step)
				}
			}
			if strings.HasPrefix(name, "own ") && !strings.Contains(strings.Join(explain(t, a, query, args), "|"), "_owner") {
				t.Errorf("%s does not go by its owner", name)
			}
		}
		for _, n := range []int{1, 2} {
			where, keys := theseLetters(make([]job.DeadLetter, n))
			for _, step := range explain(t, a, "SELECT job_id FROM failed_jobs WHERE "+where, keys) {
				if bad(step) {
					t.Errorf("%d letters: %s", n, step)
				}
			}
		}
	})
}

// bad says whether a step of a plan reads a whole table. <derived2>, p and k are the keys of the page to be shown.
func bad(step string) bool {
	page := strings.HasPrefix(step, "table=<derived") || step == "SCAN p" || step == "SCAN k"
	whole := strings.Contains(step, "type=ALL") || strings.HasPrefix(step, "SCAN ")
	return whole && !page
}

const explainRows = 3000

// explain reads a plan, a step a line.
func explain(t *testing.T, a *Archive, query string, args []any) (steps []string) {
	t.Helper()
	verb := "EXPLAIN "
	if a.read != a.write {
		verb = "EXPLAIN QUERY PLAN "
	}
	var rows []map[string]any
	if err := a.read.Raw(verb+query, args...).Scan(&rows).Error; err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if detail, ok := r["detail"]; ok {
			steps = append(steps, fmt.Sprint(detail))
			continue
		}
		var parts []string
		for _, c := range []string{"table", "type", "key", "rows", "Extra"} {
			if s, ok := r[c].([]byte); ok {
				r[c] = string(s)
			}
			parts = append(parts, fmt.Sprintf("%s=%v", c, r[c]))
		}
		steps = append(steps, strings.Join(parts, " "))
	}
	return steps
}
