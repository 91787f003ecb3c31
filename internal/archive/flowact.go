package archive

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/job"
)

// changeFlow runs a change of one locked flow.
func (a *Archive) changeFlow(ctx context.Context, verb string, id job.ID,
	change func(conn gorm.ConnPool, f *lockedFlow) error) error {
	var f *lockedFlow
	err := a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		there, err := a.lockFlows(ctx, conn, []string{string(id)})
		if err != nil {
			return err
		}
		if len(there) == 0 {
			return job.ErrFlowNotFound
		}
		if f, err = a.loadFlow(ctx, conn, string(id)); err != nil {
			return err
		}
		return change(conn, f)
	})
	if err != nil {
		return flowError(verb, err)
	}
	a.tellCancelled(f.ends)
	return nil
}

// CancelFlow ends the WAITING jobs of a flow CANCELLED, at the time at by Redis' clock. From then on the flow takes no
// more jobs. It returns the jobs that the flow has released and that have not ended, as far as SQL knows.
func (a *Archive) CancelFlow(ctx context.Context, id job.ID, reason string, at time.Time) (living []job.ID, err error) {
	err = a.changeFlow(ctx, "cancel a flow", id, func(conn gorm.ConnPool, f *lockedFlow) error {
		living = nil
		waiting, released := f.graph.Cancel()
		for _, name := range released {
			living = append(living, f.ids[name])
		}
		err := a.cancelNodes(ctx, conn, f, waiting, at, func(string) string { return reason })
		if err != nil {
			return err
		}
		if _, err := conn.ExecContext(ctx, markFlow, true, string(id)); err != nil {
			return fmt.Errorf("update flows: %w", err)
		}
		return a.saveFlow(ctx, conn, f)
	})
	return living, err
}

// CancelWaiting ends a WAITING job CANCELLED, at the time at by Redis' clock, and decides what goes on in its flow. It
// returns false for a job that is not WAITING, and the rows of jobs that it released.
func (a *Archive) CancelWaiting(ctx context.Context, id job.ID, at time.Time) (
	done bool, released []job.JournalRow, err error) {
	flow, err := a.flowOf(ctx, id)
	if err != nil || flow == "" {
		return false, nil, err
	}
	err = a.changeFlow(ctx, "cancel a waiting job", flow, func(conn gorm.ConnPool, f *lockedFlow) error {
		done, released = false, nil
		n := f.graph.Node(f.names[id])
		if n == nil || n.Status != job.Waiting {
			return nil
		}
		n.Status, done = job.Cancelled, true
		err := a.cancelNodes(ctx, conn, f, []string{n.Name}, at, func(string) string { return "" })
		if err == nil {
			released, err = a.settleFlow(ctx, conn, f, at)
		}
		return err
	})
	return done, released, err
}

// AddFlowJobs adds jobs to a flow for one of its jobs, by, which the flow has released and which has not ended. Each is
// named below it: by's name, a slash, and more. A job that is there with the same content is not added again; with
// another content it is job.ErrFlowName. All are added or none. contents has the hashes of what the caller said of the
// jobs, in their order; at is the time by Redis' clock. It returns the journal rows of jobs that wait for nothing.
func (a *Archive) AddFlowJobs(ctx context.Context, flow, by job.ID, jobs []job.FlowJob, contents []string,
	at time.Time) (released []job.JournalRow, err error) {
	const present = "SELECT name, content FROM flow_jobs WHERE flow_id = ?"
	err = a.changeFlow(ctx, "add to a flow", flow, func(conn gorm.ConnPool, f *lockedFlow) error {
		released = nil
		parent := f.graph.Node(f.names[by])
		switch {
		case parent == nil:
			return fmt.Errorf("job %s: %w", by, job.ErrNotFound)
		case parent.Status != job.Pending:
			return job.ErrLeaseLost
		case f.cancelled:
			return job.ErrFlowCancelled
		}
		there := map[string]string{}
		err := eachRow(ctx, conn, present, []any{f.id}, func(scan func(...any) error) error {
			var name, content string
			err := scan(&name, &content)
			there[name] = content
			return err
		})
		if err != nil {
			return fmt.Errorf("read the jobs of a flow: %w", err)
		}
		var added []offeredJob
		for i := range jobs {
			switch content, known := there[jobs[i].Name]; {
			case known && content != contents[i]:
				return fmt.Errorf("%w: %w", job.ErrFlowName, &job.FlowError{Job: jobs[i].Name, Reason: "is there already"})
			case !known:
				j := jobs[i]
				j.Owner = f.owner
				added = append(added, offeredJob{&j, contents[i]})
			}
		}
		if len(there)+len(added) > job.MaxFlowJobs {
			return job.ErrFlowFull
		}
		if err := insertChunks(ctx, conn, a.inserts, flowJobTable, added, sizeOfOffered); err != nil {
			return err
		}
		// The graph is read anew: patterns of other jobs take the new names in.
		again, err := a.loadFlow(ctx, conn, f.id)
		if err == nil {
			released, err = a.settleFlow(ctx, conn, again, at)
			f.ends = again.ends
		}
		return err
	})
	return released, err
}

// flowsRequeued changes the flows of requeued jobs, in the transaction that promises the requeues: the jobs live again,
// and their flows are no longer cancelled. With cascade the jobs that were cancelled because of them wait again, in
// their next generation; a *job.StateError says that such a job waited for a job whose result is gone.
func (a *Archive) flowsRequeued(ctx context.Context, conn gorm.ConnPool, flows []string, rows []*job.JournalRow,
	cascade bool) error {
	for _, id := range flows {
		f, err := a.loadFlow(ctx, conn, id)
		if a.skips(id, err) {
			continue
		}
		if err != nil {
			return err
		}
		for _, r := range rows {
			if string(r.Flow) == id {
				f.graph.Requeue(f.names[r.ID], r.Generation, cascade)
			}
		}
		if err := a.resultsThere(ctx, conn, f); err != nil {
			return err
		}
		if err := a.saveFlow(ctx, conn, f); err != nil {
			return err
		}
		if _, err := conn.ExecContext(ctx, markFlow, false, id); err != nil {
			return fmt.Errorf("update flows: %w", err)
		}
	}
	return nil
}

// flowsOfRows returns the flows of some journal rows, sorted, each once.
func flowsOfRows(rows []job.JournalRow) (flows []string) {
	for i := range rows {
		if rows[i].Flow != "" {
			flows = append(flows, string(rows[i].Flow))
		}
	}
	slices.Sort(flows)
	return slices.Compact(flows)
}
