package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// With Options.Flows a seed has flows: clients submit small graphs of jobs, cancel flows and jobs that wait, and
// requeue failed jobs, some with cascade. This file has SQL's part, by the rules of the archive: what decides is
// job.FlowGraph, and what a transaction does with the decision is written here a second time. flows_plan.go draws the
// orders, flows_check.go has rule S33.

// FlowBugs are seeded bugs of flows.
type FlowBugs struct {
	FreesAgain     bool // an outcome that SQL had before releases the jobs behind it once more
	FreesEarly     bool // a job is released when its first parent has ended
	FreesLater     bool // a flow learns of an end in the transaction behind that of the outcome
	HasNoRow       bool // nothing is written of a released job
	NoCascade      bool // a requeue with cascade brings nothing back
	CancelsOneStep bool // a cancelled job does not cancel those that wait for it
}

// flow is a flow in SQL.
type flow struct {
	job.Flow
	asked map[life]bool // WAITING jobs that a caller cancelled
}

// jobOf returns a job of a flow by its id, nil if it is in none.
func (d *database) jobOf(id job.ID) (*flow, *job.FlowJob) {
	for _, f := range d.flows {
		for i := range f.Jobs {
			if f.Jobs[i].ID == id {
				return f, &f.Jobs[i]
			}
		}
	}
	return nil, nil
}

// graph returns the graph of a flow, as SQL has it.
func (f *flow) graph() *job.FlowGraph {
	g, err := job.GraphOf(f.Jobs)
	if err != nil {
		panic(err) // the plan draws no such flow
	}
	return g
}

// save stores what the graph says of the jobs.
func (f *flow) save(g *job.FlowGraph) {
	for i := range f.Jobs {
		j := &f.Jobs[i]
		n := g.Node(j.Name)
		j.Status, j.Generation, j.DependencyFailed = n.Status, n.Generation, n.DependencyFailed
	}
}

// settle lets the graph of a flow decide, stores that, writes the outcomes of the jobs that it cancels, and the rows of
// those that it releases, which it returns.
func (w *World) settle(f *flow, g *job.FlowGraph, at time.Time) (released []job.JournalRow) {
	free, cancelled := g.Settle()
	if w.FlowBugs.CancelsOneStep {
		cancelled = oneStep(g, cancelled)
	}
	f.save(g)
	for i := range f.Jobs {
		switch j := &f.Jobs[i]; {
		case slices.Contains(cancelled, j.Name):
			w.endWaiting(j, at)
			w.fault("cancelled by a flow")
		case slices.Contains(free, j.Name):
			w.fault("released by a flow")
			released = append(released, w.release(f, j, at)...)
		}
	}
	return released
}

// release writes the row of a released job.
func (w *World) release(f *flow, j *job.FlowJob, at time.Time) []job.JournalRow {
	if w.FlowBugs.HasNoRow {
		return nil
	}
	r := job.JournalRow{Job: j.Job, Priority: j.Priority}
	r.ArrivedAt, r.RunAt = f.CreatedAt, j.DueAt(at)
	w.sql.rows[j.ID] = &row{JournalRow: r, recorded: time.Now()}
	return []job.JournalRow{r}
}

// endWaiting writes the outcome of a job that ends CANCELLED without having been in Redis.
func (w *World) endWaiting(j *job.FlowJob, at time.Time) {
	o := job.Outcome{Job: j.Job}
	o.Status, o.EndedAt, o.Payload = job.Cancelled, at, nil
	w.sql.outcomes[life{j.ID, j.Generation}] = o
}

// flowsTold is the part of the outcomes' transaction that changes their flows. again are outcomes that SQL had before.
func (w *World) flowsTold(fresh, again []job.Outcome) (released []job.JournalRow) {
	if w.sql.flows == nil {
		return nil
	}
	if w.FlowBugs.FreesLater {
		fresh, w.untold = w.untold, fresh
	}
	for _, id := range slices.Sorted(maps.Keys(w.sql.flows)) {
		f := w.sql.flows[id]
		g, at := f.graph(), f.CreatedAt
		for _, o := range fresh {
			if _, j := w.sql.jobOf(o.ID); o.Flow == id && g.End(j.Name, o.Generation, o.Status.Shown()) {
				at = later(at, o.EndedAt)
			}
		}
		released = append(released, w.settle(f, g, at)...)
		released = append(released, w.seededReleases(f, fresh, again, at)...)
	}
	return released
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// seededReleases does what a seeded bug would do.
func (w *World) seededReleases(f *flow, fresh, again []job.Outcome, at time.Time) (released []job.JournalRow) {
	for i := range f.Jobs {
		j := &f.Jobs[i]
		waitsFor := func(o job.Outcome) bool {
			_, of := w.sql.jobOf(o.ID)
			return o.Flow == f.ID && slices.Contains(j.After, of.Name)
		}
		switch {
		case w.FlowBugs.FreesEarly && j.Status == job.Waiting && slices.ContainsFunc(fresh, waitsFor):
			j.Status = job.Pending
			released = append(released, w.release(f, j, at)...)
		case w.FlowBugs.FreesAgain && j.Status != job.Waiting && !j.DependencyFailed && slices.ContainsFunc(again, waitsFor):
			released = append(released, w.release(f, j, at)...)
		}
	}
	return released
}

// oneStep keeps of the cancelled jobs those of which no cancelled job is waited for.
func oneStep(g *job.FlowGraph, cancelled []string) (first []string) {
	for _, name := range cancelled {
		if slices.ContainsFunc(g.Parents(name), func(p string) bool { return slices.Contains(cancelled, p) }) {
			n := g.Node(name)
			n.Status, n.DependencyFailed = job.Waiting, false
		} else {
			first = append(first, name)
		}
	}
	return first
}

// flowRequeued is the part of a promise's transaction that changes the flow of the job.
func (w *World) flowRequeued(r *job.JournalRow, cascade bool) {
	f, j := w.sql.jobOf(r.ID)
	if f == nil {
		return
	}
	w.sql.cascades[life{r.ID, r.Generation}] = cascade
	g := f.graph()
	g.Requeue(j.Name, r.Generation, cascade && !w.FlowBugs.NoCascade)
	f.save(g)
	f.Cancelled = false
}

// flowTable is the flows in SQL, as one process sees them.
type flowTable struct{ p *process }

// flowMade is the result of CreateFlow.
type flowMade struct {
	first    *job.Flow
	released []job.JournalRow
}

func (t flowTable) CreateFlow(ctx context.Context, f *job.Flow, _ []string) (*job.Flow, []job.JournalRow, error) {
	made, err := ask(ctx, t.p, "sql flow", string(f.ID), func(d *database) (made flowMade, _ error) {
		if there := d.flows[f.ID]; there != nil {
			return flowMade{first: &there.Flow}, nil
		}
		of := &flow{Flow: *f, asked: map[life]bool{}}
		of.Jobs = slices.Clone(f.Jobs)
		d.flows[f.ID] = of
		for i := range of.Jobs {
			d.written[of.Jobs[i].ID] = time.Now()
		}
		made.released = t.p.world.settle(of, of.graph(), f.CreatedAt)
		return made, nil
	})
	return made.first, made.released, err
}

func (t flowTable) CancelFlow(ctx context.Context, id job.ID, _ string, at time.Time) ([]job.ID, error) {
	return ask(ctx, t.p, "sql cancel flow", string(id), func(d *database) (living []job.ID, _ error) {
		f := d.flows[id]
		if f == nil {
			return nil, job.ErrFlowNotFound
		}
		g := f.graph()
		waiting, released := g.Cancel()
		f.save(g)
		f.Cancelled = true
		for i := range f.Jobs {
			switch j := &f.Jobs[i]; {
			case slices.Contains(waiting, j.Name):
				f.asked[life{j.ID, j.Generation}] = true
				t.p.world.endWaiting(j, at)
			case slices.Contains(released, j.Name):
				living = append(living, j.ID)
			}
		}
		return living, nil
	})
}

// waitingEnded is the result of CancelWaiting.
type waitingEnded struct {
	done     bool
	released []job.JournalRow
}

func (t flowTable) CancelWaiting(ctx context.Context, id job.ID, at time.Time) (bool, []job.JournalRow, error) {
	done, err := ask(ctx, t.p, "sql cancel waiting", string(id), func(d *database) (done waitingEnded, _ error) {
		f, j := d.jobOf(id)
		if f == nil || j.Status != job.Waiting {
			return done, nil
		}
		f.asked[life{id, j.Generation}] = true
		g := f.graph()
		g.End(j.Name, j.Generation, job.Cancelled)
		t.p.world.endWaiting(j, at)
		return waitingEnded{true, t.p.world.settle(f, g, at)}, nil
	})
	return done.done, done.released, err
}

func (t flowTable) FlowJob(ctx context.Context, id job.ID) (job.FlowJob, error) {
	return ask(ctx, t.p, "sql flow job", string(id), func(d *database) (job.FlowJob, error) {
		if _, j := d.jobOf(id); j != nil {
			return *j, nil
		}
		return job.FlowJob{}, job.ErrNotFound
	})
}

// The interface of the ledger demands these methods; the simulation does not use them.

func (flowTable) AddFlowJobs(context.Context, job.ID, job.ID, []job.FlowJob, []string, time.Time) (
	[]job.JournalRow, error) {
	return nil, nil
}
func (flowTable) Flow(context.Context, job.ID) (job.Flow, error) {
	return job.Flow{}, job.ErrFlowNotFound
}
func (flowTable) WaitingJobs(context.Context, job.Filter, string, int) ([]job.Job, string, error) {
	return nil, "", nil
}

// inFlows carries out an order about a flow, again and again until an answer comes.
func (c *client) inFlows(p *process) {
	c.fate = refused
	for range c.tries {
		var err error
		if c.what == "submit a flow" {
			f := &job.Flow{ID: c.id, CreatedAt: p.queue.View().Now(), Jobs: slices.Clone(c.jobs)}
			var places []job.Reservation
			for i := range f.Jobs {
				places = append(places, placeIn(&f.Jobs[i]))
			}
			var kept []job.ID
			if kept, err = p.reserver.Reserve(context.Background(), places); err == nil {
				_, err = p.ledger.SubmitFlow(context.Background(), f, make([]string, len(f.Jobs)))
				if told(err) == refused {
					p.reserver.Free(context.Background(), kept)
				}
			}
		} else {
			err = p.ledger.CancelFlow(context.Background(), c.id, "")
		}
		if fate := told(err); fate != refused || c.fate != unknown {
			c.fate = fate
		}
		if c.fate == taken || p.isDead() {
			return
		}
		<-time.After(2 * grid)
	}
}

// flowID returns the id of a job of a seed's flow, or of the flow itself (number 0). Each has a slice of its own.
func flowID(flow, number int) job.ID {
	n := 0xa00 + 0x20*flow + number
	return job.ID(fmt.Sprintf("%08x-0000-7000-8000-%010x00", n, n))
}
