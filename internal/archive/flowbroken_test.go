package archive_test

import (
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// A flow that an edit by hand broke holds up no outcome, no requeue and no check of another flow.
func TestBrokenFlow(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]string{
		"no parent": "DELETE FROM flow_jobs WHERE name = 'b'",
		"no list":   "UPDATE flow_jobs SET waits_for = '{' WHERE name = 'c'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
				a, w := s.Archive, start(t, s.Archive, &redis{}, archive.WriterOptions{})
				createFlow(t, a, flowJob("a", job.FlowCancels), flowJob("b", job.FlowCancels, "a"),
					flowJob("c", job.FlowCancels, "b"))
				behind := job.Flow{
					ID: flowID[:34] + "ff", CreatedAt: flowTime, Jobs: []job.FlowJob{flowJob("z", job.FlowCancels)},
				}
				behind.Jobs[0].ID, behind.Jobs[0].Flow = job.FlowJobID(behind.ID, "z", 0), behind.ID
				if _, _, err := a.CreateFlow(t.Context(), &behind, []string{"1"}); err != nil {
					t.Fatal(err)
				}
				row := flowRowsOf(t, a)["a"]
				execute(t, s.DB, edit)
				record(t, w, ending(&row, job.Failed))
				if n := s.CountOutcomes(t, "outcome = 'FAILED'"); n != 1 {
					t.Errorf("%d outcomes", n)
				}
				row.Generation = 2
				made, err := a.PromiseRequeues(t.Context(), []job.JournalRow{row}, job.Request{ID: "r"})
				if err != nil || len(made) != 1 || !made[0] {
					t.Error(made, err)
				}
				execute(t, s.DB, "DELETE FROM accepted_jobs WHERE job_id = '"+string(behind.Jobs[0].ID)+"'")
				found, _, _, err := a.CheckFlows(t.Context(), "", 10, flowTime)
				if err != nil || len(found) != 1 || found[0].ID != behind.Jobs[0].ID {
					t.Error(found, err)
				}
			})
		})
	}
}
