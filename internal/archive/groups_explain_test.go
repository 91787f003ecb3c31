package archive

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

// No statement about schedules, batches and flows reads all living jobs, or all jobs of all of them.
func TestGroupsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	const groups, each = 20, 100
	id := func(group, n int) job.ID { return job.ID(fmt.Sprintf("019a%04x-0000-7000-8000-%012x", group, n<<8)) }
	everywhere(t, func(t *testing.T, a *Archive) {
		fill(t, a, explainRows)
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for g := range groups {
			schedule, batch := fmt.Sprint("schedule-", g), string(id(g, 1<<20))
			f := job.Flow{ID: id(g, 1<<21), CreatedAt: at, Owner: fmt.Sprint("key-", g)}
			var rows, members []*job.JournalRow
			for n := range each {
				row := &job.JournalRow{Job: job.Job{ID: id(g, n), Generation: 1, Tier: job.Paid, Type: "STEP", ArrivedAt: at}}
				rows = append(rows, row)
				member := *row
				member.Batch = batch
				members = append(members, &member)
				f.Jobs = append(f.Jobs, job.FlowJob{
					Job:  job.Job{ID: id(g, each+n), Generation: 1, Tier: job.Paid, Type: "STEP", Status: job.Waiting, Owner: f.Owner},
					Flow: f.ID, Name: fmt.Sprint("job-", n), OnFailure: job.FlowCancels,
				})
			}
			if _, _, err := a.CreateFlow(t.Context(), &f, make([]string, each)); err != nil {
				t.Fatal(err)
			}
			err := a.db.Transaction(t.Context(), func(conn gorm.ConnPool) error {
				for _, r := range rows {
					run := job.ScheduleRun{Occurrence: at, Request: string(r.ID)[4:], JobID: r.ID}
					run.Request = run.Request[:min(len(run.Request), 32)]
					if _, err := a.addRun(t.Context(), conn, schedule, &run); err != nil {
						return err
					}
				}
				_, err := insert(t.Context(), conn, a.inserts, acceptedTable, rows)
				if err == nil {
					_, err = insert(t.Context(), conn, a.inserts, memberTable, members)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		databasetest.FreshStatistics(t, a.db, "accepted_jobs", "flows", "flow_jobs", "batch_members", "schedule_runs")
		flow, batch := string(id(7, 1<<21)), string(id(7, 1<<20))
		for _, q := range []struct {
			name, text string
			args       []any
		}{
			{"living jobs of a schedule", livingJobs, []any{"schedule-7"}},
			{"runs of a schedule", runsOf, []any{"schedule-7", 200}},
			{"schedule of a job", scheduleOfJob, []any{string(id(7, 7))}},
			{"members without a job", orphans, []any{batch, orphansAtOnce}},
			{"counts of a batch", countMembers, []any{batch}},
			{"lost jobs of a flow", withoutRowOfFlow, []any{flow}},
			{"jobs of a flow", flowNodes, []any{flow}},
			{"open batches of an owner", openBatches(&a.db.Dialect), []any{"key-7", 20}},
			{"open flows", openFlows(&a.db.Dialect), []any{"", 20}},
		} {
			steps := databasetest.Plan(t, a.db, q.text, q.args)
			t.Logf("%s: %s", q.name, strings.Join(steps, "; "))
			for _, step := range steps {
				if rows := databasetest.PlannedRows(step); databasetest.WholeTable(step) && rows > groups {
					t.Errorf("%s: %s", q.name, step)
				}
			}
		}
	})
}
