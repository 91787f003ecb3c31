package sim

import (
	"maps"
	"slices"

	"github.com/tierq/tierq/internal/job"
)

// S33: a job of a flow is released once in a generation, in the transaction that ends the last job that it waits for,
// and that transaction writes its row. It is claimed after the ends of all that it waits for, which have COMPLETED
// unless it says "run". The statuses in SQL are those of a second model of the flow: one that goes by the outcomes and
// promises of jobs, and asks each job whether it may go on until no answer changes.

// modelFlow is the model of a flow.
type modelFlow struct {
	jobs  []*modelJob
	names map[string]*modelJob
}

type modelJob struct {
	*modelFlow
	id         job.ID
	name       string
	parents    []*modelJob
	onFailure  job.OnFailure
	status     job.Status
	generation int
	hit        bool // it is CANCELLED because of a job that it waited for
	row        *row // of its release or its requeue
}

func newModelFlow(f *flow) *modelFlow {
	m := &modelFlow{names: map[string]*modelJob{}}
	for i := range f.Jobs {
		of := &f.Jobs[i]
		j := &modelJob{modelFlow: m, id: of.ID, name: of.Name, onFailure: of.OnFailure, status: job.Waiting, generation: 1}
		m.jobs = append(m.jobs, j)
		m.names[j.name] = j
	}
	for i := range f.Jobs {
		for _, name := range f.Jobs[i].After {
			m.jobs[i].parents = append(m.jobs[i].parents, m.names[name])
		}
	}
	return m
}

// bad says whether a job has ended otherwise than COMPLETED.
func (j *modelJob) bad() bool { return j.status.Ended() && j.status != job.Completed }

func (j *modelJob) any(is func(parent *modelJob) bool) bool {
	return slices.ContainsFunc(j.parents, is)
}

// comesBack says whether a requeue of x brings a cancelled job back.
func (j *modelJob) comesBack(x *modelJob) bool {
	back := func(p *modelJob) bool { return p == x || p.comesBack(x) }
	return j.hit && j.any(back) && !j.any(func(p *modelJob) bool { return p.bad() && !back(p) })
}

// flowsHold checks rule S33 after each transaction.
func (w *World) flowsHold() {
	for _, id := range slices.Sorted(maps.Keys(w.sql.flows)) {
		f := w.sql.flows[id]
		if w.models[id] == nil {
			w.models[id] = newModelFlow(f)
		}
		m := w.models[id]
		for _, j := range m.jobs {
			w.flowLearns(f, j)
		}
		for w.flowGoesOn(m) {
		}
		for i, j := range m.jobs {
			w.flowHas(&f.Jobs[i], j)
		}
	}
}

// flowLearns tells the model of an end, a requeue or a cancel of a job.
func (w *World) flowLearns(f *flow, j *modelJob) {
	now := life{j.id, j.generation}
	o, ended := w.sql.outcomes[now]
	switch {
	case j.status == job.Waiting && f.asked[now]:
		j.status = job.Cancelled
	case j.status == job.Pending && ended:
		j.status = o.Status
	case j.status == job.Failed && w.sql.promised(now):
		j.status = job.Pending
		j.generation++
		j.row = w.sql.rows[j.id]
		if w.sql.cascades[life{j.id, j.generation}] {
			var back []*modelJob
			for _, of := range j.jobs {
				if of.comesBack(j) {
					back = append(back, of)
				}
			}
			for _, of := range back {
				w.fault("brought back by a cascade")
				of.status, of.hit = job.Waiting, false
				of.generation++
			}
		}
	}
}

// flowGoesOn lets one job go on that may, and says whether there was one.
func (w *World) flowGoesOn(m *modelFlow) bool {
	for _, j := range m.jobs {
		bad := j.any((*modelJob).bad)
		switch {
		case j.status != job.Waiting:
		case bad && j.onFailure == job.FlowCancels:
			j.status, j.hit = job.Cancelled, true
			return true
		case !bad || j.onFailure == job.FlowRuns:
			if j.any(func(p *modelJob) bool { return !p.status.Ended() }) {
				continue
			}
			j.status, j.row = job.Pending, w.sql.rows[j.id]
			if j.row == nil || j.row.Generation != j.generation {
				w.fail("S33", "%s: it need not wait any more, and has no row", j.id)
			}
			return true
		}
	}
	return false
}

// flowHas compares a job in SQL with the model.
func (w *World) flowHas(is *job.FlowJob, j *modelJob) {
	if is.Status != j.status || is.Generation != j.generation || is.DependencyFailed != j.hit {
		w.fail("S33", "%s: SQL has it %s in generation %d, cancelled with another: %t; it is %s, %d, %t", j.id, is.Status,
			is.Generation, is.DependencyFailed, j.status, j.generation, j.hit)
	}
	_, ended := w.sql.outcomes[life{j.id, j.generation}]
	if ended != j.status.Ended() {
		w.fail("S33", "%s: it is %s, and SQL has an outcome of generation %d: %t", j.id, j.status, j.generation, ended)
	}
	switch r := w.sql.rows[j.id]; {
	case r == nil:
	case j.status != job.Pending:
		w.fail("S33", "%s: it is %s, and has a row of generation %d", j.id, j.status, r.Generation)
	case r != j.row:
		w.fail("S33", "%s: it was released or requeued once, and its row was written twice", j.id)
	}
}

// inOrder checks that what a claimed job waits for has ended.
func (w *World) inOrder(k *known) {
	for _, m := range w.models {
		for _, j := range m.jobs {
			if j.id != k.id {
				continue
			}
			for _, p := range j.parents {
				if last, ended := w.sql.latest(p.id); !ended || j.onFailure != job.FlowRuns && last.Status != job.Completed {
					w.fail("S33", "%s is claimed, and %s, for which it waits, has not ended well: %q", k, p.id, last.Status)
				}
			}
		}
	}
}

// flowsEnded checks rule S33 at the end of a run.
func (w *World) flowsEnded() {
	for _, m := range w.models {
		for _, j := range m.jobs {
			if !j.status.Ended() && (j.status != job.Waiting || j.onFailure != job.FlowWaits && !j.any(
				func(p *modelJob) bool { return p.status == job.Waiting })) {
				w.fail("S33", "%s: all rests, and it is %s", j.id, j.status)
			}
		}
	}
	for _, c := range w.clients {
		f := w.sql.flows[c.id]
		if c.what == "submit a flow" && (c.fate == taken && f == nil || c.fate == refused && f != nil) {
			w.fail("S33", "%s: SQL has it: %t", c, f != nil)
		}
		if c.what == "submit a flow" && f != nil && len(f.Jobs) != len(c.jobs) {
			w.fail("S33", "%s: SQL has %d jobs of %d", c, len(f.Jobs), len(c.jobs))
		}
	}
}

// ofFlow says whether a generation of a job of a flow ended CANCELLED: another generation may follow.
func (d *database) ofFlow(l life) bool {
	f, _ := d.jobOf(l.id)
	return f != nil && d.outcomes[l].Status == job.Cancelled
}

// wasCancelled says whether a job of a flow ended CANCELLED in any generation.
func (d *database) wasCancelled(id job.ID) bool {
	for l := range d.outcomes {
		if l.id == id && d.ofFlow(l) {
			return true
		}
	}
	return false
}
