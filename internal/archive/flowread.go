package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// flowColumns are the columns of a flow's job without options and payload.
const flowColumns = "flow_id, name, job_id, status, generation, dependency_failed, on_failure, tier, type, " +
	"owner, queue, priority, max_retries, delay_ms, run_at, trace_id, content, waits_for"

// arrivedRow is a job of a flow with the flow's arrival.
type arrivedRow struct {
	Job     flowJobRow `gorm:"embedded"`
	Arrived time.Time
}

// flowOf returns the flow of a job, "" if it is of none.
func (a *Archive) flowOf(ctx context.Context, id job.ID) (flow job.ID, err error) {
	err = a.db.Read.WithContext(ctx).Raw("SELECT flow_id FROM flow_jobs WHERE job_id = ?", string(id)).Scan(&flow).Error
	if err != nil {
		return "", database.Unavailable("look for a flow", err)
	}
	return flow, nil
}

// FlowJob reads a job of a flow by its id, with its payload: job.ErrNotFound if the job is of no flow. Its arrival is
// the flow's.
func (a *Archive) FlowJob(ctx context.Context, id job.ID) (job.FlowJob, error) {
	var row arrivedRow
	err := a.db.Read.WithContext(ctx).Raw("SELECT j.*, f.created_at AS arrived FROM flow_jobs j "+
		"JOIN flows f ON f.id = j.flow_id WHERE j.job_id = ?", string(id)).Take(&row).Error
	if err != nil {
		return job.FlowJob{}, findError(err)
	}
	j, err := row.Job.flowJob()
	if err != nil {
		a.db.Log.Error("a job of a flow cannot be read whole", "job_id", id, "err", err)
	}
	j.ArrivedAt = row.Arrived
	return j, nil
}

// Flow reads a flow with its jobs, by name, without payloads: job.ErrFlowNotFound if there is none.
func (a *Archive) Flow(ctx context.Context, id job.ID) (job.Flow, error) {
	var head flowRow
	db := a.db.Read.WithContext(ctx)
	err := db.Raw("SELECT * FROM flows WHERE id = ?", string(id)).Take(&head).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return job.Flow{}, job.ErrFlowNotFound
	}
	if err != nil {
		return job.Flow{}, database.Unavailable("read a flow", err)
	}
	f := head.flow()
	var rows []flowJobRow
	err = db.Raw("SELECT "+flowColumns+" FROM flow_jobs WHERE flow_id = ? ORDER BY name", string(id)).Scan(&rows).Error
	if err != nil {
		return job.Flow{}, database.Unavailable("read a flow", err)
	}
	f.Counts = map[job.Status]int{}
	for i := range rows {
		j, err := rows[i].flowJob()
		if err != nil {
			return job.Flow{}, fmt.Errorf("read flow %s: %w: %w", id, errBadFlow, err)
		}
		j.ArrivedAt = f.CreatedAt
		f.Jobs = append(f.Jobs, j)
		f.Counts[j.Status]++
	}
	return f, nil
}

// FlowContents reads the content hashes of a flow's jobs, by name.
func (a *Archive) FlowContents(ctx context.Context, id job.ID) (map[string]string, error) {
	var rows []flowJobRow
	err := a.db.Read.WithContext(ctx).Raw("SELECT name, content FROM flow_jobs WHERE flow_id = ?", string(id)).
		Scan(&rows).Error
	if err != nil {
		return nil, database.Unavailable("read a flow", err)
	}
	all := make(map[string]string, len(rows))
	for _, r := range rows {
		all[r.Name] = r.Content
	}
	return all, nil
}

// flowsPage returns the query for the end of the window of a page of flows, and the query for the page itself. An index
// of the owner or of the state serves the window, so a page reads a bounded number of rows, whatever the filter.
func flowsPage(d *database.Dialect, f *job.FlowFilter) (end, page string, args []any) {
	from, where := "flows", ""
	switch {
	case f.Owner != nil:
		from, where, args = from+d.By("flows_owner"), "owner = ? AND ", append(args, *f.Owner)
	case f.State != "":
		from, where, args = from+d.By("flows_state"), "state = ? AND ", append(args, string(f.State))
	}
	return "SELECT id FROM " + from + " WHERE " + where + "id < ? ORDER BY id DESC LIMIT 1 OFFSET ?",
		"SELECT * FROM " + from + " WHERE " + where + "id < ? AND id >= ?", args
}

// Flows lists flows, the latest first, with the counts of their jobs. cursor is "" or the next of an earlier call. A
// page reads a bounded number of rows, so it may have fewer than limit flows, or none, and still a next; next is "" at
// the end. It returns job.ErrBadCursor for a cursor that no Flows returned.
func (a *Archive) Flows(ctx context.Context, filter job.FlowFilter, cursor string, limit int) (
	flows []job.Flow, next string, err error) {
	before, err := readListCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	limit = min(max(limit, 1), maxPage)
	db := a.db.Read.WithContext(ctx)
	var query, floor string
	var args []any
	if filter.JobID != "" {
		query, args = "SELECT * FROM flows WHERE id < ? AND id = (SELECT flow_id FROM flow_jobs WHERE job_id = ?)",
			[]any{before, string(filter.JobID)}
		if filter.Owner != nil {
			query, args = query+" AND owner = ?", append(args, *filter.Owner)
		}
	} else {
		var end string
		end, query, args = flowsPage(&a.db.Dialect, &filter)
		args = append(args, before)
		if err := db.Raw(end, append(slices.Clone(args), window-1)...).Scan(&floor).Error; err != nil {
			return nil, "", database.Unavailable("list flows", err)
		}
		args = append(args, floor)
	}
	if filter.State != "" {
		query, args = query+" AND state = ?", append(args, string(filter.State))
	}
	var rows []flowRow
	if err := db.Raw(query+" ORDER BY id DESC LIMIT ?", append(args, limit+1)...).Scan(&rows).Error; err != nil {
		return nil, "", database.Unavailable("list flows", err)
	}
	next = floor
	if len(rows) > limit {
		rows = rows[:limit]
		next = rows[limit-1].ID
	}
	if len(rows) == 0 {
		return nil, next, nil
	}
	ids, at := make([]string, len(rows)), map[string]int{}
	for i := range rows {
		f := rows[i].flow()
		f.Counts = map[job.Status]int{}
		flows, ids[i], at[rows[i].ID] = append(flows, f), rows[i].ID, i
	}
	var counts []struct {
		FlowID, Status string
		N              int
	}
	if err := db.Raw("SELECT flow_id, status, COUNT(*) AS n FROM flow_jobs WHERE flow_id IN ? GROUP BY flow_id, status",
		ids).Scan(&counts).Error; err != nil {
		return nil, "", database.Unavailable("count the jobs of flows", err)
	}
	for _, c := range counts {
		flows[at[c.FlowID]].Counts[job.Status(c.Status)] = c.N
	}
	return flows, next, nil
}

// waitingPage returns the query for the end of the window of a page of WAITING jobs, and the query for the page itself.
// An index serves the window, so a page reads a bounded number of rows, whatever the filter.
func waitingPage(d *database.Dialect, f *job.Filter) (end, page string, args []any) {
	from, where := "flow_jobs j"+d.By("flow_jobs_status"), "j.status = 'WAITING' AND "
	if f.Owner != nil {
		from, where, args = "flow_jobs j"+d.By("flow_jobs_owner"), where+"j.owner = ? AND ", append(args, *f.Owner)
	}
	return "SELECT j.job_id FROM " + from + " WHERE " + where + "j.job_id < ? ORDER BY j.job_id DESC LIMIT 1 OFFSET ?",
		"SELECT j." + strings.ReplaceAll(flowColumns, ", ", ", j.") + ", f.created_at AS arrived FROM " + from +
			" JOIN flows f ON f.id = j.flow_id WHERE " + where + "j.job_id < ? AND j.job_id >= ? AND (? = '' OR j.tier = ?) " +
			"AND (? = '' OR j.type = ?) AND (? = '*' OR j.queue = ?) AND (? = '' OR j.trace_id = ?) " +
			"ORDER BY j.job_id DESC LIMIT ?", args
}

// WaitingJobs lists WAITING jobs, the latest first, without payloads, as List does: a page reads a bounded number of
// rows, so it may have fewer than limit jobs, or none, and still a next.
func (a *Archive) WaitingJobs(ctx context.Context, f job.Filter, cursor string, limit int) (
	items []job.Job, next string, err error) {
	before, err := readListCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	if f.Status != "" && f.Status != job.Waiting || f.Cause != "" || f.Retrying {
		return nil, "", nil
	}
	limit = min(max(limit, 1), maxPage)
	db := a.db.Read.WithContext(ctx)
	end, page, args := waitingPage(&a.db.Dialect, &f)
	args = append(args, before)
	if err := db.Raw(end, append(slices.Clone(args), window-1)...).Scan(&next).Error; err != nil {
		return nil, "", database.Unavailable("list waiting jobs", err)
	}
	tier, queue := string(f.Tier), queueColumn(f.Queue)
	args = append(args, next, tier, tier, f.Type, f.Type, queue, queue, f.TraceID, f.TraceID, limit+1)
	var rows []arrivedRow
	if err := db.Raw(page, args...).Scan(&rows).Error; err != nil {
		return nil, "", database.Unavailable("list waiting jobs", err)
	}
	if len(rows) > limit {
		rows = rows[:limit]
		next = rows[limit-1].Job.JobID
	}
	for i := range rows {
		j, err := rows[i].Job.flowJob()
		if err != nil {
			return nil, "", database.Unavailable("list waiting jobs", err)
		}
		j.ArrivedAt = rows[i].Arrived
		items = append(items, j.Job)
	}
	return items, next, nil
}

// FlowInputs reads the results of the jobs that a job waited for, by name. With name it reads that result, whole.
// Without name, results above job.FlowInputInline are left out. A job of no flow, and a name that the job did not wait
// for, are job.ErrNotFound.
func (a *Archive) FlowInputs(ctx context.Context, id job.ID, name string) ([]job.FlowInput, error) {
	flow, err := a.flowOf(ctx, id)
	if err != nil {
		return nil, err
	}
	if flow == "" {
		return nil, findError(gorm.ErrRecordNotFound)
	}
	f, err := a.Flow(ctx, flow)
	if err != nil {
		return nil, err
	}
	jobs, own := map[string]*job.FlowJob{}, ""
	for i := range f.Jobs {
		j := &f.Jobs[i]
		jobs[j.Name] = j
		if j.ID == id {
			own = j.Name
		}
	}
	graph, err := job.GraphOf(f.Jobs)
	if err != nil {
		return nil, database.Unavailable("read a flow", err)
	}
	names := graph.Parents(own)
	if name != "" {
		if !slices.Contains(names, name) {
			return nil, findError(gorm.ErrRecordNotFound)
		}
		names = []string{name}
	}
	inputs := make([]job.FlowInput, 0, len(names))
	for _, parent := range names {
		j := jobs[parent]
		in := job.FlowInput{Name: parent, ID: j.ID, Status: j.Status, Cause: j.Cause}
		if j.Status.Ended() {
			ended, err := a.Find(ctx, j.ID)
			switch {
			case err == nil && (ended.Status == job.Completed || ended.Generation >= j.Generation):
				in.Status, in.Result, in.LastError = ended.Status, ended.Result, ended.LastError
				if ended.Cause != "" {
					in.Cause = ended.Cause
				}
			case err != nil && !errors.Is(err, job.ErrNotFound):
				return nil, err
			}
		}
		if name == "" && len(in.Result) > job.FlowInputInline {
			in.Result, in.TooLarge = nil, true
		}
		inputs = append(inputs, in)
	}
	return inputs, nil
}
