package archive

import (
	"context"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// window is the largest number of rows that one page of a list reads. It bounds the cost of a filter that few jobs
// pass: the page may hold fewer jobs than the caller asked for, and the next page goes on behind the window.
const window = 5000

// maxPage is the largest number of entries in a page, whatever limit the caller gives.
const maxPage = 1000

// The ids of jobs are in the order of submits, so the primary keys serve the lists. A page is one statement: it
// picks keys, and reads the other columns only for these. An empty filter passes every row, so the statement is
// the same for all filters and is prepared once. Failed jobs are searched among the dead letters alone: among all
// outcomes they may be fewer than one in a thousand. The jobs of one owner, and those of one trace, have indexes
// of their own, and the window then counts rows of that index (see scope).
var (
	listEnded  = listing{"job_outcomes", "(@status = '' OR k.outcome = @status)"}
	listFailed = listing{"failed_jobs", "(@cause = '' OR k.failure_cause = @cause)"}
)

// listing is the table that a list walks over, and the filter that only this list has.
type listing struct{ table, filter string }

const listPage = " AND k.job_id < @before AND k.job_id >= @floor AND (@tier = '' OR k.tier = @tier) AND (@type = '' " +
	"OR k.type = @type) " +
	"AND NOT EXISTS (SELECT 1 FROM job_outcomes n WHERE n.job_id = k.job_id AND n.generation > k.generation) " +
	"ORDER BY k.job_id DESC, k.generation DESC LIMIT @limit) p " +
	"JOIN job_outcomes o ON o.job_id = p.job_id AND o.generation = p.generation" + endedJoins + " ORDER BY o.job_id DESC"

// statements returns the query for the end of a page's window, and the query for the page itself.
func (l listing) statements(d *database.Dialect, s scope) (end, page string) {
	k := s.from(d, l.table, "k", "")
	return "SELECT k.job_id FROM " + k +
			"k.job_id < @before ORDER BY k.job_id DESC, k.generation DESC LIMIT 1 OFFSET @window",
		"SELECT " + endedColumns + " FROM (SELECT k.job_id, k.generation FROM " + k + l.filter + listPage
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
	from := listEnded
	status := f.Status.Shown()
	if status == job.Failed || f.Cause != "" {
		from = listFailed
	}
	if status != "" && !status.Ended() || status != job.Failed && status != "" && f.Cause != "" {
		return nil, "", nil // living jobs are not in this list, and only dead letters have a cause
	}
	limit = min(max(limit, 1), maxPage)
	args := scopeArgs(map[string]any{
		"before": before, "floor": "", "window": window - 1, "limit": limit + 1,
		"status": string(status), "tier": string(f.Tier), "type": f.Type, "cause": string(f.Cause),
	}, &f)
	end, page := from.statements(&a.db.Dialect, scopeOf(&f))
	db := a.db.Read.WithContext(ctx)
	var floor string
	if err := db.Raw(end, args).Scan(&floor).Error; err != nil {
		return nil, "", database.Unavailable("list jobs", err)
	}
	args["floor"] = floor
	var rows []endedRow
	if err := db.Raw(page, args).Scan(&rows).Error; err != nil {
		return nil, "", database.Unavailable("list jobs", err)
	}
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
