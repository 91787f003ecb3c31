package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// lockedFlow is a flow whose row this transaction has locked.
type lockedFlow struct {
	id        string
	createdAt time.Time
	owner     string
	cancelled bool
	graph     *job.FlowGraph
	ids       map[string]job.ID       // by name
	names     map[job.ID]string       // by id
	before    map[string]job.FlowNode // what SQL has
	stateSQL  job.FlowState
	endedSQL  bool
	ends      []job.Job // that the transaction has cancelled
}

const (
	flowNodes = "SELECT name, job_id, status, generation, dependency_failed, on_failure, waits_for FROM flow_jobs " +
		"WHERE flow_id = ?"
	flowHead     = "SELECT created_at, owner, cancelled, state, ended_at FROM flows WHERE id = ?"
	updateNode   = "UPDATE flow_jobs SET status = ?, generation = ?, dependency_failed = ? WHERE flow_id = ? AND name = ?"
	completeNode = "UPDATE flow_jobs SET status = ?, generation = ?, dependency_failed = ?, payload = NULL " +
		"WHERE flow_id = ? AND name = ?"
	markFlow = "UPDATE flows SET cancelled = ? WHERE id = ?"
	// flowParts is how many jobs of a flow one statement reads.
	flowParts = 64
)

func (a *Archive) lockFlow() string {
	return "SELECT id FROM flows" + a.db.Dialect.ByPrimary + " WHERE id = ?" + a.db.Dialect.LockRows
}

func flowRows() string {
	return "SELECT name, tier, type, owner, queue, priority, max_retries, delay_ms, run_at, expires_in_ms, " +
		"trace_id, options, payload FROM flow_jobs WHERE flow_id = ? AND name IN " + database.Marks(flowParts)
}

func (a *Archive) endFlow(ended bool) string {
	at := "NULL"
	if ended {
		at = a.db.Dialect.Now
	}
	return "UPDATE flows SET state = ?, ended_at = " + at + " WHERE id = ?"
}

func (a *Archive) insertReason() string {
	return "INSERT INTO cancel_reasons (job_id, generation, reason, asked_at) " +
		"VALUES (?, ?, ?, " + a.db.Dialect.Now + ") " +
		a.db.Dialect.KeepFirst("job_id")
}

// lockFlows locks the rows of flows, whose ids are sorted, and returns the flows that exist.
func (a *Archive) lockFlows(ctx context.Context, conn gorm.ConnPool, flows []string) (there []string, err error) {
	for _, id := range flows {
		err := eachRow(ctx, conn, a.lockFlow(), []any{id}, func(scan func(...any) error) error {
			there = append(there, id)
			return scan(new(string))
		})
		if err != nil {
			return nil, fmt.Errorf("lock a flow: %w", err)
		}
	}
	return there, nil
}

// loadFlow reads a flow whose row is locked.
func (a *Archive) loadFlow(ctx context.Context, conn gorm.ConnPool, id string) (*lockedFlow, error) {
	f := &lockedFlow{id: id, ids: map[string]job.ID{}, names: map[job.ID]string{}, before: map[string]job.FlowNode{}}
	var state string
	var ended sql.NullTime
	err := eachRow(ctx, conn, flowHead, []any{id}, func(scan func(...any) error) error {
		return scan(&f.createdAt, &f.owner, &f.cancelled, &state, &ended)
	})
	if err != nil {
		return nil, fmt.Errorf("read a flow: %w", err)
	}
	f.stateSQL, f.endedSQL = job.FlowState(state), ended.Valid
	var nodes []*job.FlowNode
	err = eachRow(ctx, conn, flowNodes, []any{id}, func(scan func(...any) error) error {
		var n job.FlowNode
		var jobID, status, onFailure, waitsFor string
		err := scan(&n.Name, &jobID, &status, &n.Generation, &n.DependencyFailed, &onFailure, &waitsFor)
		if err != nil {
			return err
		}
		n.Status, n.OnFailure = job.Status(status), job.OnFailure(onFailure)
		if n.After, err = readAfter(waitsFor); err != nil {
			return fmt.Errorf("%w: %w", errBadFlow, err)
		}
		f.ids[n.Name], f.names[job.ID(jobID)], f.before[n.Name] = job.ID(jobID), n.Name, n
		nodes = append(nodes, &n)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the jobs of a flow: %w", err)
	}
	if f.graph, err = job.NewFlowGraph(nodes); err != nil {
		return nil, fmt.Errorf("read flow %s: %w: %w", id, errBadFlow, err)
	}
	return f, nil
}

// settleFlow lets the graph of a locked flow decide, and writes what has changed since the flow was read: the jobs'
// statuses, the outcomes of jobs that it cancels, and the journal rows of jobs that it releases, which it returns. at
// is the time of the decision by Redis' clock.
func (a *Archive) settleFlow(ctx context.Context, conn gorm.ConnPool, f *lockedFlow, at time.Time) (
	released []job.JournalRow, err error) {
	free, cancelled := f.graph.Settle()
	if err := a.cancelNodes(ctx, conn, f, cancelled, at, f.whyCancelled); err != nil {
		return nil, err
	}
	if released, err = a.releaseNodes(ctx, conn, f, free, at); err != nil {
		return nil, err
	}
	return released, a.saveFlow(ctx, conn, f)
}

// saveFlow writes the nodes that differ from what SQL has, and the flow's state.
func (a *Archive) saveFlow(ctx context.Context, conn gorm.ConnPool, f *lockedFlow) error {
	for _, name := range f.graph.Order() {
		n, before := f.graph.Node(name), f.before[name]
		if n.Status == before.Status && n.Generation == before.Generation && n.DependencyFailed == before.DependencyFailed {
			continue
		}
		update := updateNode
		if n.Status == job.Completed { // nothing needs its payload any more
			update = completeNode
		}
		_, err := conn.ExecContext(ctx, update, string(n.Status), n.Generation, n.DependencyFailed, f.id, name)
		if err != nil {
			return fmt.Errorf("update flow_jobs: %w", err)
		}
	}
	state := f.graph.State()
	ended := state != job.FlowRunning && state != job.FlowStuck
	if state == f.stateSQL && ended == f.endedSQL {
		return nil
	}
	if _, err := conn.ExecContext(ctx, a.endFlow(ended), string(state), f.id); err != nil {
		return fmt.Errorf("update flows: %w", err)
	}
	return nil
}

// readNodes reads jobs of a locked flow by their names, whole but for status and graph.
func (a *Archive) readNodes(ctx context.Context, conn gorm.ConnPool, f *lockedFlow, names []string) (
	jobs map[string]*job.FlowJob, err error) {
	jobs = make(map[string]*job.FlowJob, len(names))
	for part := range slices.Chunk(names, flowParts) {
		args := []any{f.id}
		for i := range flowParts {
			args = append(args, part[min(i, len(part)-1)])
		}
		err := eachRow(ctx, conn, flowRows(), args, func(scan func(...any) error) error {
			var r flowJobRow
			var runAt sql.NullTime
			err := scan(&r.Name, &r.Tier, &r.Type, &r.Owner, &r.Queue, &r.Priority, &r.MaxRetries, &r.DelayMs, &runAt,
				&r.ExpiresInMs, &r.TraceID, &r.Options, &r.Payload)
			if err != nil {
				return err
			}
			n := f.graph.Node(r.Name)
			r.FlowID, r.JobID, r.Generation, r.WaitsFor = f.id, string(f.ids[r.Name]), n.Generation, "[]"
			j, err := r.flowJob()
			if err != nil { // the job lives on without its unreadable options
				a.db.Log.Error("a job of a flow cannot be read whole", "job_id", r.JobID, "err", err)
			}
			j.RunAt, j.Status, j.ArrivedAt = runAt.Time, job.Pending, f.createdAt
			jobs[r.Name] = &j
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read the jobs of a flow: %w", err)
		}
	}
	return jobs, nil
}

// releaseNodes writes the journal rows of jobs that wait for nothing any more. Their arrival is the flow's: a flow does
// not queue anew at each step.
func (a *Archive) releaseNodes(ctx context.Context, conn gorm.ConnPool, f *lockedFlow, names []string, at time.Time) (
	[]job.JournalRow, error) {
	if len(names) == 0 {
		return nil, nil
	}
	all, err := a.readNodes(ctx, conn, f, names)
	if err != nil {
		return nil, err
	}
	rows := make([]*job.JournalRow, 0, len(names))
	for _, name := range names {
		j := all[name]
		if j == nil {
			return nil, fmt.Errorf("read the jobs of a flow: %w", errNodeGone)
		}
		j.RunAt, j.ExpiresMs = j.DueAt(at), j.ExpiryFrom(at)
		rows = append(rows, &job.JournalRow{Job: j.Job, Priority: j.Priority})
	}
	slices.SortFunc(rows, func(x, y *job.JournalRow) int { return strings.Compare(string(x.ID), string(y.ID)) })
	if err := insertChunks(ctx, conn, a.inserts, acceptedTable, rows, sizeOfRow); err != nil {
		return nil, err
	}
	released := make([]job.JournalRow, len(rows))
	for i, r := range rows {
		released[i] = *r
	}
	return released, nil
}

// errBadFlow says that the rows of a flow make no graph. Only an edit by hand leaves such rows.
var errBadFlow = errors.New("the flow is broken")

// skips logs that a flow is broken, and says whether err means that. What its jobs need is stored without it.
func (a *Archive) skips(flow string, err error) bool {
	broken := errors.Is(err, errBadFlow)
	if broken {
		a.db.Log.Error("a flow is broken and does not go on", "flow_id", flow, "err", err)
	}
	return broken
}

var errNodeGone = errors.New("a job of a locked flow is gone")

// cancelNodes writes the outcomes of jobs that end CANCELLED without having been in Redis, and why.
func (a *Archive) cancelNodes(ctx context.Context, conn gorm.ConnPool, f *lockedFlow, names []string, at time.Time,
	why func(name string) string) error {
	if len(names) == 0 {
		return nil
	}
	all, err := a.readNodes(ctx, conn, f, names)
	if err != nil {
		return err
	}
	var outcomes []*job.Outcome
	for name, r := range all {
		r.Status, r.EndedAt, r.Payload = job.Cancelled, at, nil
		outcomes, f.ends = append(outcomes, &job.Outcome{Job: r.Job}), append(f.ends, r.Job)
		if reason := why(name); reason != "" {
			_, err := conn.ExecContext(ctx, a.insertReason(), string(r.ID), r.Generation, reason)
			if err != nil {
				return fmt.Errorf("insert cancel_reasons: %w", err)
			}
		}
	}
	slices.SortFunc(outcomes, func(x, y *job.Outcome) int { return strings.Compare(string(x.ID), string(y.ID)) })
	_, err = insert(ctx, conn, a.inserts, outcomeTable, outcomes)
	return err
}

// whyCancelled says because of which job the graph cancelled a job.
func (f *lockedFlow) whyCancelled(name string) string {
	for _, parent := range f.graph.Parents(name) {
		if s := f.graph.Node(parent).Status; s.Ended() && s != job.Completed {
			return fmt.Sprintf("%s: %s ended %s", job.DependencyFailed, parent, s)
		}
	}
	return string(job.DependencyFailed)
}

// flowsEnded changes the flows of ended jobs, in the transaction that records the outcomes: it locks the flows, marks
// the jobs as ended, and decides what goes on. It is the first part of the transaction, so that all writers lock flows
// before rows of outcomes. If another part finds that SQL had an outcome before, the transaction is undone as a whole.
// cancelled are the jobs that the flows cancelled.
func (a *Archive) flowsEnded(ctx context.Context, conn gorm.ConnPool, outcomes []*job.Outcome) (
	released []job.JournalRow, cancelled []job.Job, err error) {
	flows := flowsOf(outcomes)
	if len(flows) == 0 {
		return nil, nil, nil
	}
	if flows, err = a.lockFlows(ctx, conn, flows); err != nil {
		return nil, nil, err
	}
	for _, id := range flows {
		f, err := a.loadFlow(ctx, conn, id)
		if a.skips(id, err) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		at := f.createdAt
		for _, o := range outcomes {
			if string(o.Flow) == id && f.graph.End(f.names[o.ID], o.Generation, o.Status.Shown()) && o.EndedAt.After(at) {
				at = o.EndedAt
			}
		}
		some, err := a.settleFlow(ctx, conn, f, at)
		if err != nil {
			return nil, nil, err
		}
		released, cancelled = append(released, some...), append(cancelled, f.ends...)
	}
	return released, cancelled, nil
}

// TellCancelled sets the function that is told of the jobs that a flow has cancelled: SQL alone knows that they ended.
// Set the function before anything is written.
func (a *Archive) TellCancelled(tell func([]job.Job)) { a.toldCancelled = tell }

// tellCancelled tells of jobs that a committed transaction cancelled.
func (a *Archive) tellCancelled(jobs []job.Job) {
	if len(jobs) > 0 && a.toldCancelled != nil {
		a.toldCancelled(jobs)
	}
}
