package archive

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// Every list of dead letters walks the index failed_jobs_open, or the index of its scope (failed_jobs_owner_open,
// failed_jobs_trace_open), newest discarded first. It reads the other columns only of the letters that it shows.
// @from and @at bound the walk; the rest of the first condition is the exact place within one moment.
const (
	openDead = "open_at >= @from AND open_at <= @at AND (open_at < @at OR job_id < @id OR job_id = @id AND " +
		"generation < @generation)"
	deadFilter = " AND (@tier = '' OR tier = @tier) AND (@type = '' OR type = @type) AND (@cause = '' OR failure_cause = @cause)"
	newestDead = " ORDER BY open_at DESC, job_id DESC, generation DESC LIMIT @limit OFFSET @offset"

	letterColumns = "f.job_id, f.generation, f.tier, f.type, f.owner, f.total_retries, f.max_retries, f.attempts, " +
		"f.arrived_at, f.first_tried_at, " +
		"f.started_at, f.discarded_at, f.failure_cause, f.last_error, f.requeue_requested_at, f.requeue_request_id, " +
		"f.requeued_at, f.dismissed_at, f.trace_id, f.options"
)

// deadWalk holds the statements of the lists of dead letters.
type deadWalk struct{ end, count, page, whole string }

func deadWalkOf(d *database.Dialect, s scope) deadWalk {
	from := " FROM " + s.from(d, "failed_jobs", "", "_open") + openDead
	keys := " FROM (SELECT job_id, generation" + from + deadFilter + newestDead + ") k " +
		"JOIN failed_jobs f ON f.job_id = k.job_id AND f.generation = k.generation ORDER BY f.discarded_at DESC, f.job_id " +
		"DESC, f.generation DESC"
	return deadWalk{
		end:   "SELECT open_at" + from + newestDead,
		count: "SELECT COUNT(*) FROM (SELECT 1" + from + deadFilter + " ORDER BY open_at DESC LIMIT @most) p",
		page:  "SELECT " + letterColumns + keys, whole: "SELECT " + letterColumns + ", f.payload" + keys,
	}
}

// Dead reads open dead letters (no requeue was asked for, and they were not dismissed), the newest discarded first,
// without payloads. cursor is "" or the next of an earlier call; limit is at most 1,000. A page reads a bounded
// number of rows, so it may hold fewer than limit letters, or none, and still have a next; next is "" at the end.
// Dead returns job.ErrBadCursor for a cursor that no Dead returned.
func (a *Archive) Dead(ctx context.Context, f job.Filter, cursor string, limit int) (letters []job.DeadLetter,
	next string, err error) {
	return a.deadFrom(ctx, deadWalkOf(&a.db.Dialect, scopeOf(&f)).page, f, cursor, min(max(limit, 1), maxPage))
}

// exportPage is how many letters EachDead holds in memory at once, with their payloads.
const exportPage = 100

// EachDead calls do with every open dead letter that passes the filter, newest discarded first, with payload and
// options. It reads small pages, so a letter that changes meanwhile may be included or not. The first error of do
// ends it and is returned unchanged.
func (a *Archive) EachDead(ctx context.Context, f job.Filter, do func(job.DeadLetter) error) error {
	whole, cursor := deadWalkOf(&a.db.Dialect, scopeOf(&f)).whole, ""
	for {
		letters, next, err := a.deadFrom(ctx, whole, f, cursor, exportPage)
		if err != nil {
			return err
		}
		for _, l := range letters {
			if err := do(l); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
}

func (a *Archive) deadFrom(ctx context.Context, query string, f job.Filter, cursor string, limit int) ([]job.DeadLetter,
	string, error) {
	from, err := readPlace(cursor)
	if err != nil || !failedOnly(f) {
		return nil, "", err
	}
	args := deadArgs(f, from)
	db := a.db.Read.WithContext(ctx)
	next := ""
	if f.Tier != "" || f.Type != "" || f.Cause != "" {
		// Find where the window ends: everything discarded at that very time still belongs to the window.
		args["limit"], args["offset"] = 1, window-1
		var ends []time.Time
		if err := db.Raw(deadWalkOf(&a.db.Dialect, scopeOf(&f)).end, args).Scan(&ends).Error; err != nil {
			return nil, "", database.Unavailable("list dead letters", err)
		}
		if len(ends) > 0 {
			args["from"], next = ends[0], place{at: ends[0]}.String()
		}
	}
	args["limit"], args["offset"] = limit+1, 0
	letters, err := a.letters(ctx, query, args)
	if err != nil {
		return nil, "", err
	}
	if len(letters) > limit {
		letters = letters[:limit]
		l := &letters[limit-1]
		next = place{l.EndedAt, l.ID, l.Generation}.String()
	}
	return letters, next, nil
}

// MostCounted is where counting dead letters stops: an exact larger number would cost more than it is worth.
const MostCounted = 10_000

// DeadPage reads one page of the open dead letters that pass the filter, newest discarded first, without payloads.
// total is their number as CountDead returns it. The first page is 0; size is at most 1,000. The cost
// grows with the page's number, so no page shows letters behind the first MostCounted. Dead shows all of them, at
// a constant cost per page.
func (a *Archive) DeadPage(ctx context.Context, f job.Filter, page, size int) (letters []job.DeadLetter, total int64,
	err error) {
	return a.deadPage(ctx, f, page, size, MostCounted)
}

func (a *Archive) deadPage(ctx context.Context, f job.Filter, page, size int, most int64) (letters []job.DeadLetter,
	total int64, err error) {
	size = min(max(size, 1), maxPage)
	if total, err = a.countDead(ctx, f, most); err != nil {
		return nil, 0, err
	}
	page = max(page, 0)
	if int64(page) > (total-1)/int64(size) || total == 0 {
		return nil, total, nil // also guards page*size against an overflow
	}
	args := deadArgs(f, place{at: latest})
	args["limit"], args["offset"] = min(size, int(total)-page*size), page*size
	letters, err = a.letters(ctx, deadWalkOf(&a.db.Dialect, scopeOf(&f)).page, args)
	return letters, total, err
}

// CountDead counts the open dead letters that pass the filter, up to MostCounted.
func (a *Archive) CountDead(ctx context.Context, f job.Filter) (int64, error) {
	return a.countDead(ctx, f, MostCounted)
}

// CountDeadIn counts the open dead letters of a queue, up to MostCounted; "" = of all declared queues. It looks at the
// latest MostCounted letters only.
func (a *Archive) CountDeadIn(ctx context.Context, queue string) (n int64, err error) {
	named := `"queue":"` // options are JSON as job.Options writes them, where a queue's name needs no escape
	if queue != "" {
		named += queue + `"`
	}
	const count = "SELECT COUNT(*) FROM (SELECT options FROM failed_jobs WHERE open_at IS NOT NULL " +
		"ORDER BY open_at DESC LIMIT @most) p WHERE INSTR(options, @named) > 0"
	args := map[string]any{"named": named, "most": MostCounted}
	if err := a.db.Read.WithContext(ctx).Raw(count, args).Scan(&n).Error; err != nil {
		return 0, database.Unavailable("count dead letters", err)
	}
	return n, nil
}

func (a *Archive) countDead(ctx context.Context, f job.Filter, most int64) (n int64, err error) {
	if !failedOnly(f) {
		return 0, nil
	}
	count, args := deadWalkOf(&a.db.Dialect, scopeOf(&f)).count, deadArgs(f, place{at: latest})
	args["most"] = most
	if err := a.db.Read.WithContext(ctx).Raw(count, args).Scan(&n).Error; err != nil {
		return 0, database.Unavailable("count dead letters", err)
	}
	return n, nil
}

// failedOnly says whether a filter can pass dead letters.
func failedOnly(f job.Filter) bool { return f.Status == "" || f.Status.Shown() == job.Failed }

// deadArgs returns a filter's arguments for the letters below a place. A letter discarded at To or later is above
// the place (To, no id).
func deadArgs(f job.Filter, below place) map[string]any {
	if !f.To.IsZero() && !f.To.After(below.at) {
		below = place{at: f.To.UTC()}
	}
	from := f.From.UTC()
	if from.Before(earliest) {
		from = earliest
	}
	return scopeArgs(map[string]any{
		"from": from, "at": below.at, "id": string(below.id), "generation": below.generation,
		"tier": string(f.Tier), "type": f.Type, "cause": string(f.Cause),
	}, &f)
}

// letters runs a query that selects columns of failed_jobs.
func (a *Archive) letters(ctx context.Context, query string, args map[string]any) ([]job.DeadLetter, error) {
	var rows []failedRow
	if err := a.db.Read.WithContext(ctx).Raw(query, args).Scan(&rows).Error; err != nil {
		return nil, database.Unavailable("list dead letters", err)
	}
	letters := make([]job.DeadLetter, len(rows))
	for i := range rows {
		var err error
		// the letter is listed without the unreadable part, so that one bad row does not hide the others
		if letters[i], err = rows[i].letter(); err != nil {
			a.db.Log.Error("a dead letter cannot be read whole",
				"job_id", rows[i].JobID, "generation", rows[i].Generation, "err", err)
		}
	}
	return letters, nil
}
