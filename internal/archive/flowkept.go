package archive

import (
	"context"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// The retention deletes the outcomes of an ended flow each at its age, and a requeue with cascade may bring back a job
// that reads one of them. Both lock the flow: either the requeue sees that the outcome is gone, or the deletion sees
// that the flow has not ended any more.

// lockFlowsOf locks the flows of old jobs, in the order of their ids.
func (a *Archive) lockFlowsOf(ctx context.Context, conn gorm.ConnPool, q *retention, old []job.OldJob) error {
	if len(old) == 0 {
		return nil
	}
	var flows []string
	err := eachRow(ctx, conn, q.flowsOf, padded(oldIDs(old), q.size), func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		flows = append(flows, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("read flow_jobs: %w", err)
	}
	slices.Sort(flows)
	_, err = a.lockFlows(ctx, conn, slices.Compact(flows))
	return err
}

// keptResults returns the statements that read which of flowParts jobs have an outcome.
func (a *Archive) keptResults() []string {
	jobs := a.db.Dialect.ByPrimary + " WHERE job_id IN " + database.Marks(flowParts)
	return []string{"SELECT job_id FROM job_results" + jobs, "SELECT job_id FROM job_outcomes" + jobs}
}

// resultsThere returns a *job.StateError if a job of a locked flow that was cancelled and is WAITING again has waited
// for an ended job whose outcome is not in SQL any more.
func (a *Archive) resultsThere(ctx context.Context, conn gorm.ConnPool, f *lockedFlow) error {
	var read []job.ID // by the jobs that wait again
	for _, name := range f.graph.Order() {
		if f.graph.Node(name).Status != job.Waiting || f.before[name].Status != job.Cancelled {
			continue
		}
		for _, parent := range f.graph.Parents(name) {
			if f.graph.Node(parent).Status.Ended() {
				read = append(read, f.ids[parent])
			}
		}
	}
	slices.Sort(read)
	read = slices.Compact(read)
	kept := map[job.ID]bool{}
	for part := range slices.Chunk(read, flowParts) {
		for _, query := range a.keptResults() {
			err := eachRow(ctx, conn, query, padded(part, flowParts), func(scan func(...any) error) error {
				var id job.ID
				err := scan(&id)
				kept[id] = true
				return err
			})
			if err != nil {
				return fmt.Errorf("read which outcomes are kept: %w", err)
			}
		}
	}
	for _, id := range read {
		if !kept[id] {
			return &job.StateError{Status: job.Failed, Reason: "with cascade a job would run again that reads the result of " +
				f.names[id] + " (" + string(id) + "), which was deleted after its retention; the failed job can be requeued " +
				"without cascade"}
		}
	}
	return nil
}
