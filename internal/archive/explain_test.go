package archive

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

// fill records n jobs, one per minute; every second one is a dead letter.
func fill(t *testing.T, a *Archive, n int) {
	t.Helper()
	if err := a.db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := 0; i < n; {
		batch := make([]*job.Outcome, 0, maxBatch)
		for ; len(batch) < maxBatch && i < n; i++ {
			at := begin.Add(time.Duration(i) * time.Minute)
			o := &job.Outcome{Job: job.Job{
				ID: job.ID(firstID(at, "") + fmt.Sprintf("-7000-8000-%012x", i<<8)), Generation: 1, Tier: job.Paid,
				Type: "SIMULATION", Status: job.Completed,
				Attempt: 1, ArrivedAt: at, FirstTriedAt: at, StartedAt: at, EndedAt: at.Add(time.Second),
			}}
			if i%2 == 1 {
				o.Status, o.Cause = job.Failed, job.HandlerError
				o.Attempts = []job.Attempt{{Number: 1, Outcome: "HANDLER_ERROR"}}
			}
			batch = append(batch, o)
		}
		if _, _, err := a.record(t.Context(), batch, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// queries returns the statements of the lists, by name.
func (a *Archive) queries() map[string]string {
	all := map[string]string{
		"find completed":     findCompleted,
		"find other":         findOther,
		"attempts":           attemptsOf,
		"promised, not kept": withoutRow(oldPromises[0]),
		"promised, kept":     withoutRow(oldPromises[1]),
	}
	for whose, s := range map[string]scope{"": {}, "own ": {owned: true}, "trace's ": {traced: true},
		"own of trace's ": {owned: true, traced: true}} {
		all[whose+"results' end"], all[whose+"results' page"] = listCompleted.statements(&a.db.Dialect, s)
		all[whose+"outcomes' end"], all[whose+"outcomes' page"] = listOthers.statements(&a.db.Dialect, s)
		all[whose+"failed end"], all[whose+"failed page"] = listFailed.statements(&a.db.Dialect, s)
		if !s.traced {
			tally := tallyingOf(&a.db.Dialect, s.owned)
			all[whose+"tally results' end"], all[whose+"tally outcomes' end"] = tally.ends[0], tally.ends[1]
			all[whose+"tally part"] = tally.part
		}
		w := deadWalkOf(&a.db.Dialect, s)
		all[whose+"dead end"], all[whose+"dead page"], all[whose+"dead whole"], all[whose+"dead count"] = w.end, w.page,
			w.whole, w.count
	}
	return all
}

// No statement of a list reads a table without a key, or sorts more than the page that it shows, for any filter.
// (The plans at a million jobs are the same: TestListsAtDepth.)
func TestListsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, a *Archive) {
		fill(t, a, explainRows)
		id := firstID(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), "") + "-7000-8000-000000000000"
		heldToIndexes(t, a, id, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), "key-1")
		for _, n := range []int{1, 2} {
			where, keys := theseLetters(make([]job.JournalRow, n))
			for _, step := range databasetest.Plan(t, a.db, "SELECT job_id FROM failed_jobs WHERE "+where, keys) {
				if databasetest.WholeTable(step) {
					t.Errorf("%d letters: %s", n, step)
				}
			}
		}
	})
}

// heldToIndexes explains every statement of the lists under every combination of filters, from a place in the
// middle.
func heldToIndexes(t *testing.T, a *Archive, id string, at time.Time, owner string) {
	t.Helper()
	seen := map[string]bool{}
	for name, query := range a.queries() {
		for _, f := range filters() {
			named := map[string]any{
				"before": id, "floor": "019", "from": earliest, "at": at, "id": id, "generation": 1, "window": window - 1,
				"rows": tallyRows, "limit": 21, "offset": 0,
				"most": MostCounted, "status": string(f.Status), "tier": string(f.Tier), "type": f.Type, "cause": string(f.Cause),
				"owner": owner,
				"trace": "trace-1",
			}
			args := []any{named}
			switch {
			case strings.HasPrefix(name, "find"):
				args = []any{id}
			case name == "attempts":
				args = []any{id, maxAttempts}
			case strings.HasPrefix(name, "promised"):
				args = []any{100}
			case strings.Contains(name, "tally"):
				args = []any{map[string]any{"from": "019", "before": id, "rows": tallyRows, "owner": owner}}
			}
			steps := databasetest.Plan(t, a.db, query, args)
			if plan := name + ": " + strings.Join(steps, "; "); !seen[plan] {
				seen[plan] = true
				t.Log(plan)
			}
			page := false
			for _, step := range steps {
				page = page || databasetest.OfPage(step)
				sorts := strings.Contains(step, "filesort") && !databasetest.OfPage(step) ||
					strings.Contains(step, "FOR ORDER BY") && !page
				if databasetest.WholeTable(step) || sorts && !strings.Contains(name, "tally") { // a report has few groups
					t.Errorf("%s, %+v: %s", name, f, step)
				}
			}
			plan := strings.Join(steps, "|")
			if strings.Contains(plan, "job_outcomes_age") || strings.Contains(plan, "job_results_age") {
				t.Errorf("%s, %+v, reads all that ended alike: %s", name, f, strings.Join(steps, "; "))
			}
			if strings.HasPrefix(name, "own ") && !strings.Contains(name, "trace's") && !strings.Contains(plan, "_owner") {
				t.Errorf("%s, %+v, does not go by its owner", name, f)
			}
			if strings.Contains(name, "trace's") && !strings.Contains(plan, "_trace") {
				t.Errorf("%s, %+v, does not go by its trace", name, f)
			}
		}
	}
}

// filters returns all combinations of a list's filters.
func filters() (all []job.Filter) {
	for _, status := range []job.Status{"", job.Completed, job.Failed, job.Cancelled} {
		for _, tier := range []job.Tier{"", job.Public} {
			for _, typ := range []string{"", "SIMULATION"} {
				for _, cause := range []job.Cause{"", job.HandlerError} {
					all = append(all, job.Filter{Status: status, Tier: tier, Type: typ, Cause: cause})
				}
			}
		}
	}
	return all
}

const explainRows = 3000
