package archive

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// tallyRows is how many rows of one table one statement of a tally adds up. So many take far less than the driver's
// timeout.
const tallyRows = 20_000

// tallying holds the statements of a tally. ends find where a part ends: each the id of the row of one table before
// which the part may go on. part adds up the part.
type tallying struct {
	ends []string
	part string
}

const (
	tallyEnd = "k.job_id >= @from AND k.job_id < @before ORDER BY k.job_id LIMIT 1 OFFSET @rows"

	tallyRuns  = "COALESCE(SUM(%[1]s), 0) AS run, COUNT(%[1]s) AS runs, COALESCE(MAX(%[1]s), 0) AS longest, "
	tallyWaits = "COALESCE(SUM(%[1]s), 0) AS waited, COUNT(%[1]s) AS waits "
)

// tallyingOf returns the statements for one owner's jobs, or all. A part adds up the latest outcomes of the jobs
// between two ids.
func tallyingOf(d *database.Dialect, owned bool) tallying {
	run, wait := d.Elapsed("k.started_at", "k.completed_at"), d.Elapsed("k.arrived_at", "k.first_tried_at")
	const (
		noRuns  = "0, 0, 0, "
		noWaits = "0, 0 "
		between = "k.job_id >= @from AND k.job_id < @before"
		groups  = " GROUP BY k.tier, k.type"
	)
	head := func(s job.Status) string {
		return "SELECT k.tier, k.type, '" + string(s) + "' AS outcome, COUNT(*) AS jobs, "
	}
	// The primary key serves the walk over all ids. Along job_outcomes_age, which serves the filter, the database would
	// sort all jobs that have the same outcome. (SQLite has no name for the primary key of a table WITHOUT ROWID; there
	// a + before a column keeps the column's index out.)
	from := func(table string) string { return scope{owned: owned}.from(d, table, "k", "") }
	others := func(s job.Status) string {
		return " UNION ALL " + head(s) + noRuns + noWaits + "FROM " + from("job_outcomes") + between +
			" AND +k.outcome = '" + string(s) + "'" + isLatest("k") + groups
	}
	t := tallying{part: head(job.Completed) + fmt.Sprintf(tallyRuns, run) + fmt.Sprintf(tallyWaits, wait) +
		"FROM " + from("job_results") + between + groups +
		" UNION ALL " + head(job.Failed) + noRuns + fmt.Sprintf(tallyWaits, wait) +
		"FROM " + from("failed_jobs") + between + isLatest("k") + groups +
		others(job.Cancelled) + others(job.Expired)}
	for _, table := range []string{"job_results", "job_outcomes"} {
		t.ends = append(t.ends, "SELECT k.job_id FROM "+from(table)+tallyEnd)
	}
	return t
}

// tallyRow is the result of one part, per tier, type and outcome. Times are in milliseconds.
type tallyRow struct {
	Tier, Type, Outcome                     string
	Jobs, Run, Runs, Longest, Waited, Waits int64
}

// Tally counts how jobs ended, by tier and type and sorted by these. It counts the jobs of one owner (nil = all
// jobs, "" = jobs without an owner) that were accepted at or after from and before to; a zero time is no bound.
// The time of acceptance is read from the job's id, to the millisecond. Tally adds up the jobs in parts, so that
// no statement takes long and ctx can end it in between.
func (a *Archive) Tally(ctx context.Context, owner *string, from, to time.Time) ([]job.Tally, error) {
	sums := map[tierType]*sum{}
	args := map[string]any{"from": firstID(from, ""), "rows": tallyRows}
	if owner != nil {
		args["owner"] = *owner
	}
	until := firstID(to, newest)
	query := tallyingOf(&a.db.Dialect, owner != nil)
	for more := true; more; {
		args["before"] = until
		end := ""
		for _, text := range query.ends {
			var at string
			if err := a.db.Read.WithContext(ctx).Raw(text, args).Scan(&at).Error; err != nil {
				return nil, database.Unavailable("tally jobs", err)
			}
			if at != "" && (end == "" || at < end) {
				end = at
			}
		}
		if more = end != ""; more {
			args["before"] = end
		}
		var rows []tallyRow
		if err := a.db.Read.WithContext(ctx).Raw(query.part, args).Scan(&rows).Error; err != nil {
			return nil, database.Unavailable("tally jobs", err)
		}
		for _, r := range rows {
			k := tierType{job.Tier(r.Tier), r.Type}
			if sums[k] == nil {
				sums[k] = &sum{}
			}
			sums[k].add(r)
		}
		args["from"] = end
	}
	tallies := make([]job.Tally, 0, len(sums))
	for k, s := range sums {
		tallies = append(tallies, s.tally(k))
	}
	slices.SortFunc(tallies, func(x,
		y job.Tally) int {
		return cmp.Or(cmp.Compare(x.Tier, y.Tier), cmp.Compare(x.Type, y.Type))
	})
	return tallies, nil
}

type tierType struct {
	tier job.Tier
	typ  string
}

type sum struct {
	completed, failed, cancelled, expired int64
	times                                 tallyRow
}

func (s *sum) add(r tallyRow) {
	switch job.Status(r.Outcome) {
	case job.Completed:
		s.completed += r.Jobs
	case job.Failed:
		s.failed += r.Jobs
	case job.Expired:
		s.expired += r.Jobs
	default:
		s.cancelled += r.Jobs
	}
	t := &s.times
	t.Run, t.Runs, t.Longest = t.Run+r.Run, t.Runs+r.Runs, max(t.Longest, r.Longest)
	t.Waited, t.Waits = t.Waited+r.Waited, t.Waits+r.Waits
}

func (s *sum) tally(k tierType) job.Tally {
	t := &s.times
	return job.Tally{
		Tier: k.tier, Type: k.typ, Completed: s.completed, Failed: s.failed, Cancelled: s.cancelled, Expired: s.expired,
		MeanRun: mean(t.Run, t.Runs), MaxRun: time.Duration(t.Longest) * time.Millisecond, MeanWait: mean(t.Waited, t.Waits),
	}
}

func mean(sumMs, n int64) time.Duration {
	if n == 0 {
		return 0
	}
	return time.Duration(sumMs) * time.Millisecond / time.Duration(n)
}

// firstID returns a string that sorts below every id made at t or later, and above all ids made before t: a UUIDv7
// begins with its milliseconds. For the zero time it returns other.
func firstID(t time.Time, other string) string {
	switch ms := t.UnixMilli(); {
	case t.IsZero():
		return other
	case ms < 0:
		return ""
	case ms >= 1<<48:
		return newest
	default:
		return fmt.Sprintf("%08x-%04x", ms>>16, ms&0xffff)
	}
}
