package archive

import (
	"context"
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// window is the largest number of rows that one page of a list reads. It bounds the cost of a filter that few jobs
// pass: the page may hold fewer jobs than the caller asked for, and the next page goes on behind the window.
const window = 5000

// maxPage is the largest number of entries in a page, whatever limit the caller gives.
const maxPage = 1000

// The ids of jobs are in the order of submits, so the primary keys serve the lists. A page of a table is one
// statement: it picks keys, and reads the other columns only for these. An empty filter passes every row, so the
// statement is the same for all filters and is prepared once. Completed jobs are listed from their results, others from
// the outcomes, and failed jobs alone from the dead letters: among all outcomes they may be fewer than one in a
// thousand. The jobs of one owner, and those of one trace, have indexes of their own, and the window then counts rows
// of that index (see scope).
var (
	listCompleted = listing{table: "job_results", keys: "k.job_id", order: "k.job_id DESC",
		filter: inQueue, columns: completedColumns,
		rows: "JOIN job_results r ON r.job_id = p.job_id ORDER BY r.job_id DESC"}
	listOthers = listing{table: "job_outcomes", keys: "k.job_id, k.generation", order: newestFirst,
		filter: " AND k.outcome <> 'COMPLETED' AND (@status = '' OR k.outcome = @status)" + inQueue +
			isLatest("k"),
		columns: endedColumns, rows: outcomesOfPage}
	listFailed = listing{table: "failed_jobs", keys: "k.job_id, k.generation", order: newestFirst,
		filter: " AND (@cause = '' OR k.failure_cause = @cause) AND (@queue = '*' OR @queue = (SELECT q.queue " +
			"FROM job_outcomes q WHERE q.job_id = k.job_id AND q.generation = k.generation))" + isLatest("k"),
		columns: endedColumns, rows: outcomesOfPage}
)

const (
	newestFirst    = "k.job_id DESC, k.generation DESC"
	outcomesOfPage = "JOIN job_outcomes o ON o.job_id = p.job_id AND o.generation = p.generation" + endedJoins +
		" ORDER BY o.job_id DESC"
	listPage = "k.job_id < @before AND k.job_id >= @floor AND (@tier = '' OR k.tier = @tier) AND (@type = '' " +
		"OR k.type = @type)"
	inQueue = " AND (@queue = '*' OR k.queue = @queue)" // failed_jobs has no such column
)

// listing is a table that a list walks over (alias k), its primary key and its order, the filter that only this table
// has, and the columns and rows that a page (alias p) reads for its keys.
type listing struct{ table, keys, order, filter, columns, rows string }

// isLatest passes the rows of failed, cancelled and expired generations (alias of) that have no later generation with
// an outcome.
func isLatest(of string) string {
	later := " n WHERE n.job_id = " + of + ".job_id AND n.generation > " + of + ".generation)"
	return " AND NOT EXISTS (SELECT 1 FROM job_outcomes" + later + " AND NOT EXISTS (SELECT 1 FROM job_results" + later
}

// statements returns the query for the end of a page's window, and the query for the page itself.
func (l listing) statements(d *database.Dialect, s scope) (end, page string) {
	k, order := s.from(d, l.table, "k", ""), " ORDER BY "+l.order
	return "SELECT k.job_id FROM " + k + "k.job_id < @before" + order + " LIMIT 1 OFFSET @window",
		"SELECT " + l.columns + " FROM (SELECT " + l.keys + " FROM " + k + listPage + l.filter + order +
			" LIMIT @limit) p " + l.rows
}

// queueColumn returns what the column queue has for a filter's queue: "" for main, and "*", which is no queue's name,
// if the filter takes all.
func queueColumn(queue string) string {
	switch queue {
	case "":
		return "*"
	case job.MainQueue:
		return ""
	}
	return queue
}

// listingsOf returns the tables that have the ended jobs of a filter; none if there can be no such job.
func listingsOf(f *job.Filter) []listing {
	status := f.Status.Shown()
	switch {
	case status != "" && !status.Ended(): // living jobs are not in this list
		return nil
	case f.Cause != "" && status != "" && status != job.Failed: // only dead letters have a cause
		return nil
	case status == job.Failed || f.Cause != "":
		return []listing{listFailed}
	case status == job.Completed:
		return []listing{listCompleted}
	case status != "":
		return []listing{listOthers}
	}
	return []listing{listCompleted, listOthers}
}

// List reads ended jobs, the latest submitted first. Each job is shown as its latest generation with an outcome
// here; results, payloads and options are not read. List ignores the filter's From and To. cursor is "" or the
// next of an earlier call; limit is at most 1,000. A page reads a bounded number of rows, so it may hold fewer
// than limit jobs, or none, and still have a next; next is "" at the end. List returns job.ErrBadCursor for a
// cursor that no List returned.
func (a *Archive) List(ctx context.Context, f job.Filter, cursor string, limit int) (items []job.Job, next string,
	err error) {
	before, err := readListCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	from := listingsOf(&f)
	if len(from) == 0 {
		return nil, "", nil
	}
	limit = min(max(limit, 1), maxPage)
	args := scopeArgs(map[string]any{
		"before": before, "floor": "", "window": window - 1, "limit": limit + 1,
		"status": string(f.Status.Shown()), "tier": string(f.Tier), "type": f.Type, "cause": string(f.Cause),
		"queue": queueColumn(f.Queue),
	}, &f)
	floor, pages := "", make([]string, len(from))
	db := a.db.Read.WithContext(ctx)
	for i, l := range from {
		var end, below string
		end, pages[i] = l.statements(&a.db.Dialect, scopeOf(&f))
		if err := db.Raw(end, args).Scan(&below).Error; err != nil {
			return nil, "", database.Unavailable("list jobs", err)
		}
		floor = max(floor, below)
	}
	args["floor"] = floor
	var rows []endedRow
	for _, page := range pages {
		var some []endedRow
		if err := db.Raw(page, args).Scan(&some).Error; err != nil {
			return nil, "", database.Unavailable("list jobs", err)
		}
		rows = append(rows, some...)
	}
	slices.SortFunc(rows, func(x, y endedRow) int { return strings.Compare(y.Ended.JobID, x.Ended.JobID) })
	next = floor
	if len(rows) > limit {
		rows = rows[:limit]
		next = rows[limit-1].Ended.JobID
	}
	items = make([]job.Job, len(rows))
	for i := range rows {
		items[i] = rows[i].job()
	}
	return items, next, nil
}
