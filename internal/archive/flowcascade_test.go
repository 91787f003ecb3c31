package archive_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

// endedFlow writes a flow in which c was cancelled because b failed, and would read the results of a and b. It returns
// the journal row with which b is requeued.
func endedFlow(t *testing.T, s *archivetest.Store) job.JournalRow {
	t.Helper()
	w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
	createFlow(t, s.Archive, flowJob("a", job.FlowCancels), flowJob("b", job.FlowCancels),
		flowJob("c", job.FlowCancels, "a", "b"), flowJob("d", job.FlowCancels, "c"))
	endAs(t, s.Archive, w, map[string]job.Status{"a": job.Completed, "b": job.NeedDiscard})
	wantStatuses(t, s.Archive, map[string]string{
		"": "FAILED", "a": "COMPLETED", "b": "FAILED", "c": "CANCELLED", "d": "CANCELLED"})
	d, err := s.DeadLetter(t.Context(), job.FlowJobID(flowID, "b", 0))
	if err != nil {
		t.Fatal(err)
	}
	return d.Next(3)
}

func ofFlow(name string) []job.OldJob {
	return []job.OldJob{{ID: job.FlowJobID(flowID, name, 0), Generation: 1}}
}

// A requeue with cascade is refused, and nothing is written, once a job that would run again cannot read what it waited
// for. Without cascade the job lives again. The outcomes of the jobs that would run again are not needed.
func TestCascade_AfterAResultIsGone(t *testing.T) {
	t.Parallel()
	for gone, refused := range map[string]bool{"a": true, "c": false} {
		t.Run(gone, func(t *testing.T) {
			t.Parallel()
			archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
				next := endedFlow(t, s)
				if deleted, err := s.DeleteJobs(t.Context(), ofFlow(gone)); err != nil || deleted["job_outcomes"]+
					deleted["job_results"] == 0 {
					t.Fatal(deleted, err)
				}
				asked := job.Request{ID: "late", Cascade: true}
				mine, err := s.PromiseRequeues(t.Context(), []job.JournalRow{next}, asked)
				if !refused {
					if err != nil || !mine[0] {
						t.Fatal(mine, err)
					}
					wantStatuses(t, s.Archive, map[string]string{
						"": "RUNNING", "a": "COMPLETED", "b": "PENDING", "c": "WAITING", "d": "WAITING"})
					return
				}
				var state *job.StateError
				if !errors.As(err, &state) || state.Status != job.Failed || !strings.Contains(state.Reason, "result of a ") {
					t.Fatal(mine, err)
				}
				wantStatuses(t, s.Archive, map[string]string{
					"": "FAILED", "a": "COMPLETED", "b": "FAILED", "c": "CANCELLED", "d": "CANCELLED"})
				if n := s.Count(t, "accepted_jobs"); n != 0 {
					t.Errorf("a refused requeue left %d journal rows", n)
				}
				if d, err := s.DeadLetter(t.Context(), next.ID); err != nil || !d.Open() {
					t.Errorf("the dead letter is not open: %+v, %v", d, err)
				}
				asked.Cascade = false
				if mine, err := s.PromiseRequeues(t.Context(), []job.JournalRow{next}, asked); err != nil || !mine[0] {
					t.Fatal(mine, err)
				}
				wantStatuses(t, s.Archive, map[string]string{
					"": "RUNNING", "a": "COMPLETED", "b": "PENDING", "c": "CANCELLED", "d": "CANCELLED"})
			})
		})
	}
}

// A requeue with cascade that is under way when the retention comes wins: the deletion waits for the flow, and then
// sees that its jobs are needed.
func TestCascade_DeletionWaits(t *testing.T) {
	t.Parallel()
	s := archivetest.New(t, databasetest.MariaDB(t))
	endedFlow(t, s)
	tx, err := s.DB.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	execute(t, tx, "UPDATE flows SET ended_at = NULL WHERE id = ?", string(flowID))
	before := innodb(t, s, "lock_row_lock_waits")
	type answer struct {
		rows job.DeletedRows
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		rows, err := s.DeleteJobs(t.Context(), ofFlow("a"))
		done <- answer{rows, err}
	}()
	waits(t, s, before, 1)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if a := <-done; a.err != nil || len(a.rows) != 0 {
		t.Errorf("%v, %v", a.rows, a.err)
	}
	if n := rowsOf(t, s, ofFlow("a")[0].ID); n != 1 {
		t.Errorf("the job has %d rows", n)
	}
}
