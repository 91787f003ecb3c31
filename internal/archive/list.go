package archive

import (
	"context"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// window is how many rows one page of a list looks at, at most. A filter that few jobs pass thus costs what any other
// does; the page may hold less than it was asked for, and the next one goes on behind the window.
const window = 5000

// maxPage bounds what a page holds, whatever was asked for.
const maxPage = 1000

// A job's ids are in the order of submits, so that the primary keys serve the lists. A page is one statement that
// picks keys and reads the rest only for these; a filter that is empty takes all, so that the statement is the same
// for every filter and prepared once. Jobs that failed are looked for among the dead letters alone, where they are
// not one in a thousand. The jobs of one owner, and those of one trace, have indexes of their own, and the window is
// of theirs: see scope.
var (
	listEnded  = listing{"job_outcomes", "(@status = '' OR k.outcome = @status)"}
	listFailed = listing{"failed_jobs", "(@cause = '' OR k.failure_cause = @cause)"}
)

// listing is what a list walks over, and the filter that it alone has.
type listing struct{ table, filter string }

const listPage = " AND k.job_id < @before AND k.job_id >= @floor AND (@tier = '' OR k.tier = @tier) AND (@type = '' " +
	"OR k.type = @type) " +
	"AND NOT EXISTS (SELECT 1 FROM job_outcomes n WHERE n.job_id = k.job_id AND n.generation > k.generation) " +
	"ORDER BY k.job_id DESC, k.generation DESC LIMIT @limit) p " +
	"JOIN job_outcomes o ON o.job_id = p.job_id AND o.generation = p.generation" + endedJoins + " ORDER BY o.job_id DESC"

// statements are where a page's window ends, and what in it passes the filter.
func (l listing) statements(d *database.Dialect, s scope) (end, page string) {
	k := s.from(d, l.table, "k", "")
	return "SELECT k.job_id FROM " + k +
			"k.job_id < @before ORDER BY k.job_id DESC, k.generation DESC LIMIT 1 OFFSET @window",
		"SELECT " + endedColumns + " FROM (SELECT k.job_id, k.generation FROM " + k + l.filter + listPage
}

// List reads ended jobs, the latest submitted first, each as its latest generation that has an outcome here; results,
// payloads and options are not read. The filter's From and To are not for this list. cursor is "" or an earlier call's
// next; limit is at most 1,000. A page looks at a bounded number of rows, so it may hold fewer than limit, even none,
// and still have a next; next is "" at the end. It returns job.ErrBadCursor for a cursor that no List gave.
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
		return nil, "", nil // the living are elsewhere, and only dead letters have a cause
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
