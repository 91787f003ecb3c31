package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/failpoint"
	"github.com/tierq/tierq/internal/job"
)

// Flows is SQL, the only store that has flows and their WAITING jobs. A job that a call releases has a journal row: the
// ledger gives it to Redis at once, or a later Reconcile does.
type Flows interface {
	// CreateFlow writes a flow. first is the flow that its Request stands for already, and then nothing is written.
	// The call may be repeated.
	CreateFlow(ctx context.Context, f *job.Flow, contents []string) (
		first *job.Flow, released []job.JournalRow, err error)
	// AddFlowJobs adds jobs to a flow for one of its jobs that runs. The call may be repeated.
	AddFlowJobs(ctx context.Context, flow, by job.ID, jobs []job.FlowJob, contents []string, at time.Time) (
		released []job.JournalRow, err error)
	// CancelFlow ends what waits, and returns the released jobs that have not ended.
	CancelFlow(ctx context.Context, id job.ID, reason string, at time.Time) (living []job.ID, err error)
	// CancelWaiting ends a job, if it waits in a flow.
	CancelWaiting(ctx context.Context, id job.ID, at time.Time) (done bool, released []job.JournalRow, err error)
	// FlowJob returns a job of a flow, job.ErrNotFound for a job of none.
	FlowJob(ctx context.Context, id job.ID) (job.FlowJob, error)
	Flow(ctx context.Context, id job.ID) (job.Flow, error)
	// WaitingJobs lists WAITING jobs, as the List of Store lists ended ones.
	WaitingJobs(ctx context.Context, f job.Filter, cursor string, limit int) (items []job.Job, next string, err error)
}

// SubmitFlow accepts a flow: all of it, or nothing. first is the flow that its Request stood for before. After
// job.ErrAmbiguous the flow may be accepted.
func (l *Ledger) SubmitFlow(ctx context.Context, f *job.Flow, contents []string) (first *job.Flow, err error) {
	since, released := time.Now(), []job.JournalRow(nil)
	first, err = twice(ctx, flowPatience, func(ctx context.Context) (first *job.Flow, err error) {
		first, released, err = l.Options.Flows.CreateFlow(ctx, f, contents)
		return first, err
	})
	if err != nil {
		return nil, fmt.Errorf("submit a flow: %w", err)
	}
	if first != nil && first.ID == f.ID { // the first of the two calls wrote it
		first = nil
	}
	l.giveReleased(ctx, released, since)
	return first, nil
}

// flowPatience bounds the transaction that writes a flow, or jobs of one, or a batch with its first members.
const flowPatience = 5 * time.Second

// AddToFlow adds jobs to a flow for one of its jobs, whose lease the caller has checked in Redis. All are added, or
// none.
func (l *Ledger) AddToFlow(ctx context.Context, flow, by job.ID, jobs []job.FlowJob, contents []string) error {
	since := time.Now()
	released, err := twice(ctx, flowPatience, func(ctx context.Context) ([]job.JournalRow, error) {
		return l.Options.Flows.AddFlowJobs(ctx, flow, by, jobs, contents, l.now())
	})
	if err != nil {
		return fmt.Errorf("add to flow %s: %w", flow, err)
	}
	l.giveReleased(ctx, released, since)
	return nil
}

// CancelFlow ends the jobs of a flow that wait for others, and cancels the others as Cancel does. A repeat does what is
// left to do. After an error some of them may have been cancelled.
func (l *Ledger) CancelFlow(ctx context.Context, id job.ID, reason string) error {
	living, err := twice(ctx, flowPatience, func(ctx context.Context) ([]job.ID, error) {
		return l.Options.Flows.CancelFlow(ctx, id, reason, l.now())
	})
	if err != nil {
		return fmt.Errorf("cancel flow %s: %w", id, err)
	}
	for _, of := range living {
		if _, err := l.CancelBecause(ctx, of, reason); err != nil && !errors.Is(err, job.ErrWrongState) {
			return fmt.Errorf("cancel flow %s: %w: %w", id, job.ErrAmbiguous, err)
		}
	}
	return nil
}

// FlowWaits returns the jobs for which a WAITING job waits, as they stand: at most limit of those that have not
// completed, and how many there are of these and of all that it has to wait for.
func (l *Ledger) FlowWaits(ctx context.Context, id job.ID, limit int) (waits []job.FlowWait, open, all int, err error) {
	j, err := within(ctx, archivePatience,
		func(ctx context.Context) (job.FlowJob, error) { return l.Options.Flows.FlowJob(ctx, id) })
	if err != nil {
		return nil, 0, 0, fmt.Errorf("flow: %w", err)
	}
	f, err := within(ctx, archivePatience,
		func(ctx context.Context) (job.Flow, error) { return l.Options.Flows.Flow(ctx, j.Flow) })
	if err != nil {
		return nil, 0, 0, fmt.Errorf("flow: %w", err)
	}
	jobs := map[string]*job.FlowJob{}
	for i := range f.Jobs {
		jobs[f.Jobs[i].Name] = &f.Jobs[i]
	}
	graph, err := job.GraphOf(f.Jobs)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("flow: %w", err)
	}
	parents := graph.Parents(j.Name)
	for _, name := range parents {
		parent := jobs[name]
		if parent.Status == job.Completed {
			continue
		}
		if open++; len(waits) == limit {
			continue
		}
		now := parent.Job
		if parent.Status == job.Pending {
			if found, err := l.live(ctx, parent.ID); err == nil {
				now = found
			}
		}
		waits = append(waits, job.FlowWait{Name: name, Job: now})
	}
	return waits, open, len(parents), nil
}

// giveReleased gives Redis the jobs that a flow has released, or the members that came with a batch. The end of the
// caller's ctx does not stop it.
func (l *Ledger) giveReleased(ctx context.Context, rows []job.JournalRow, since time.Time) {
	if len(rows) == 0 {
		return
	}
	failpoint.Hit("release.after", rows[0].ID)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fulfilPatience)
	defer cancel()
	if _, err := l.GiveRows(ctx, rows, since); err != nil {
		l.Log.Warn("jobs that SQL owes come later", "job_id", rows[0].ID, "jobs", len(rows), "err", err)
	}
	if l.Given != nil {
		l.Given()
	}
}

func (l *Ledger) now() time.Time {
	if l.Now == nil {
		return time.Now()
	}
	return l.Now()
}

// inFlow returns a job of a flow that no store has as living or ended, as its flow has it: WAITING, or PENDING if the
// flow has just released it. job.ErrNotFound: there is no such job.
func (l *Ledger) inFlow(ctx context.Context, id job.ID) (job.Job, error) {
	if l.Options.Flows == nil {
		return job.Job{}, fmt.Errorf("find job: %w", job.ErrNotFound)
	}
	j, err := within(ctx, archivePatience,
		func(ctx context.Context) (job.FlowJob, error) { return l.Options.Flows.FlowJob(ctx, id) })
	if err == nil && j.Status.Ended() {
		return l.archived(ctx, id)
	}
	return j.Job, err
}

// revived returns the next generation of a CANCELLED job that its flow brought back, or else the job, with the cause if
// its flow cancelled it.
func (l *Ledger) revived(ctx context.Context, j job.Job) (job.Job, error) {
	if l.Options.Flows == nil {
		return j, nil
	}
	of, err := within(ctx, archivePatience,
		func(ctx context.Context) (job.FlowJob, error) { return l.Options.Flows.FlowJob(ctx, j.ID) })
	switch {
	case errors.Is(err, job.ErrNotFound):
		return j, nil
	case err != nil:
		return j, err
	case of.Generation <= j.Generation:
		if of.DependencyFailed {
			j.Cause = job.DependencyFailed
		}
		return j, nil
	case of.Status == job.Waiting:
		return of.Job, nil
	}
	next, err := l.row(ctx, j.ID)
	if errors.Is(err, job.ErrNotFound) {
		return l.later(ctx, j), nil
	}
	return next, err
}

// cancelWaiting ends a job that waits in a flow, and says whether it did.
func (l *Ledger) cancelWaiting(ctx context.Context, id job.ID) (done bool, err error) {
	if l.Options.Flows == nil {
		return false, nil
	}
	since, released := time.Now(), []job.JournalRow(nil)
	done, err = within(ctx, actPatience, func(ctx context.Context) (done bool, err error) {
		done, released, err = l.Options.Flows.CancelWaiting(ctx, id, l.now())
		return done, err
	})
	if err != nil {
		return false, fmt.Errorf("cancel %s: %w", id, err)
	}
	l.giveReleased(ctx, released, since)
	return done, nil
}
