package archive

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

// fillFlows writes n flows of two jobs each; the second one is WAITING. Every tenth flow has not ended.
func fillFlows(t *testing.T, a *Archive, n int) {
	t.Helper()
	if err := a.db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		id := job.ID(fmt.Sprintf("019b0000-0000-7000-8000-%012x", i<<8))
		f := &job.Flow{ID: id, Owner: fmt.Sprint("key-", i%3), CreatedAt: at}
		for _, name := range []string{"a", "b"} {
			j := job.FlowJob{Job: job.Job{ID: job.FlowJobID(id, name, 0), Generation: 1, Tier: job.Paid, Type: "STEP",
				Owner: f.Owner, Status: job.Waiting}, Flow: id, Name: name, OnFailure: job.FlowCancels}
			if name == "b" {
				j.After = []string{"a"}
			}
			f.Jobs = append(f.Jobs, j)
		}
		if _, _, err := a.CreateFlow(t.Context(), f, []string{"", ""}); err != nil {
			t.Fatal(err)
		}
	}
	a.db.Write.Exec("UPDATE flows SET ended_at = created_at WHERE id NOT LIKE '%000'")
}

// No list of flows and of WAITING jobs reads more than its window, or sorts the window, for any filter. The audit of a
// flow reads that flow's jobs only.
func TestFlowListsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, a *Archive) {
		fillFlows(t, a, 300)
		databasetest.FreshStatistics(t, a.db, "accepted_jobs", "flows", "flow_jobs")
		old := string(job.FlowJobID("019b0000-0000-7000-8000-000000000100", "a", 0))
		owner, before := "key-1", "019b0000-0000-7000-8000-000000012c00"
		type statement struct {
			query string
			args  []any
			index string
		}
		all := map[string]statement{
			"audit of a flow": {withoutRowOfFlow, []any{before}, ""},
			"open flows":      {openFlows(&a.db.Dialect), []any{"", 20}, "flows_ended"},
			"flows of old jobs": {retentionOf(&a.db.Dialect, 1).flowsOf, []any{old},
				"flow_jobs_job"},
		}
		filters := []job.FlowFilter{{}, {Owner: &owner}, {State: job.FlowRunning}, {Owner: &owner, State: job.FlowRunning}}
		for _, f := range filters {
			end, page, args := flowsPage(&a.db.Dialect, &f)
			index := "" // the primary key
			if f.Owner != nil {
				index = "flows_owner"
			} else if f.State != "" {
				index = "flows_state"
			}
			name := fmt.Sprintf("flows of %v in %q", f.Owner != nil, f.State)
			args = append(args, before)
			all[name+", end"] = statement{end, append(args[:len(args):len(args)], window-1), index}
			all[name] = statement{page + " ORDER BY id DESC LIMIT ?", append(args[:len(args):len(args)], "019b", 21), index}
		}
		for _, f := range []job.Filter{{}, {Owner: &owner}} {
			end, page, args := waitingPage(&a.db.Dialect, &f)
			index := "flow_jobs_status"
			if f.Owner != nil {
				index = "flow_jobs_owner"
			}
			args = append(args, before)
			name := "waiting of " + index
			all[name+", end"] = statement{end, append(args[:len(args):len(args)], window-1), index}
			all[name] = statement{page, append(args[:len(args):len(args)], "019b", "", "", "STEP", "STEP", "*", "*", "", "", 21),
				index}
		}
		for name, s := range all {
			steps := databasetest.Plan(t, a.db, s.query, s.args)
			t.Log(name + ": " + strings.Join(steps, "; "))
			for _, step := range steps {
				if strings.Contains(step, "filesort") || strings.Contains(step, "FOR ORDER BY") {
					t.Errorf("%s sorts: %s", name, step)
				}
				if databasetest.WholeTable(step) && !strings.Contains(name, "of false") {
					t.Errorf("%s reads a whole table: %s", name, step)
				}
			}
			plan := strings.Join(steps, "; ")
			if s.index != "" && !strings.Contains(plan, s.index) {
				t.Errorf("%s does not use %s: %s", name, s.index, plan)
			}
			if name == "audit of a flow" && strings.Contains(plan, "flow_jobs_status") {
				t.Errorf("the audit of one flow reads those of all: %s", plan)
			}
		}
	})
}

// A page of WAITING jobs of which a filter takes none reads its window and says where the next page goes on.
func TestWaitingJobs_ReadsAWindow(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, a *Archive) {
		if err := a.db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		flows := window/(job.MaxFlowJobs-1) + 1
		for i := range flows {
			id := job.ID(fmt.Sprintf("019b0000-%04x-7000-8000-000000000000", i))
			f := &job.Flow{ID: id, Owner: "key-1", CreatedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
			for n := range job.MaxFlowJobs {
				j := job.FlowJob{Job: job.Job{ID: job.FlowJobID(id, fmt.Sprint(n), 0), Generation: 1, Tier: job.Paid, Type: "STEP",
					Owner: f.Owner, Status: job.Waiting}, Flow: id, Name: fmt.Sprint(n), OnFailure: job.FlowCancels}
				if n > 0 {
					j.After = []string{"0"}
				}
				if i == 0 && n == 1 {
					j.Type = "OLD" // it is beyond the window of the first page
				}
				f.Jobs = append(f.Jobs, j)
			}
			if _, _, err := a.CreateFlow(t.Context(), f, make([]string, len(f.Jobs))); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range []job.Filter{{Tier: job.Public}, {Type: "NONE"}, {TraceID: "none"}} {
			items, next, err := a.WaitingJobs(t.Context(), f, "", 10)
			if err != nil || len(items) != 0 || next == "" {
				t.Fatalf("the first page: %d jobs, next %q, %v", len(items), next, err)
			}
			if items, next, err = a.WaitingJobs(t.Context(), f, next, 10); err != nil || len(items) != 0 || next != "" {
				t.Errorf("the last page: %d jobs, next %q, %v", len(items), next, err)
			}
		}
		items, next, err := a.WaitingJobs(t.Context(), job.Filter{Type: "OLD"}, "", 10)
		if err != nil || len(items) != 0 || next == "" {
			t.Errorf("a page looked beyond its window: %d jobs, next %q, %v", len(items), next, err)
		}
		if items, _, err = a.WaitingJobs(t.Context(), job.Filter{Type: "OLD"}, next, 10); err != nil || len(items) != 1 {
			t.Errorf("the next page: %d jobs, %v", len(items), err)
		}
		seen := 1
		next = ""
		for more := true; more; more = next != "" {
			items, after, err := a.WaitingJobs(t.Context(), job.Filter{Type: "STEP"}, next, maxPage)
			if err != nil {
				t.Fatal(err)
			}
			seen, next = seen+len(items), after
		}
		if want := flows * (job.MaxFlowJobs - 1); seen != want {
			t.Errorf("%d of %d WAITING jobs are listed", seen, want)
		}
	})
}

// A page of flows of which a filter takes none reads its window and says where the next page goes on.
func TestFlows_ReadsAWindow(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, a *Archive) {
		if err := a.db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		rows := make([]flowRow, window+1)
		for i := range rows {
			rows[i] = flowRow{ID: fmt.Sprintf("019b0000-0000-7000-8000-%012x", i<<8), Owner: "key-1", CreatedAt: at,
				State: string(job.FlowCompleted)}
		}
		rows[0].State = string(job.FlowFailed)
		if err := a.db.Write.WithContext(t.Context()).CreateInBatches(rows, 500).Error; err != nil {
			t.Fatal(err)
		}
		owner := "key-1"
		failed := job.FlowFilter{Owner: &owner, State: job.FlowFailed}
		flows, next, err := a.Flows(t.Context(), failed, "", 10)
		if err != nil || len(flows) != 0 || next != rows[1].ID {
			t.Fatalf("the first page: %d flows, next %q, %v", len(flows), next, err)
		}
		if flows, next, err = a.Flows(t.Context(), failed, next, 10); err != nil || len(flows) != 1 || next != "" {
			t.Errorf("the last page: %d flows, next %q, %v", len(flows), next, err)
		}
		seen := map[job.ID]bool{}
		for more := true; more; more = next != "" {
			if flows, next, err = a.Flows(t.Context(), job.FlowFilter{Owner: &owner}, next, maxPage); err != nil {
				t.Fatal(err)
			}
			for i := range flows {
				seen[flows[i].ID] = true
			}
		}
		if len(seen) != len(rows) {
			t.Errorf("%d of %d flows are listed", len(seen), len(rows))
		}
	})
}
