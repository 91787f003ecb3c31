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

// tallyRows is how many outcomes one statement of a tally adds up. So many take far less than the driver's
// timeout.
const tallyRows = 20_000

// tallying holds the statements of a tally: end finds where a part ends, part adds up the part.
type tallying struct{ end, part string }

const tallyEnd = "job_id >= @from AND job_id < @before ORDER BY job_id LIMIT 1 OFFSET @rows"

func tallyingOf(d *database.Dialect, owned bool) tallying {
	if owned {
		by := d.By("job_outcomes_owner")
		return tallying{"SELECT job_id FROM job_outcomes" + by + " WHERE owner = @owner AND " + tallyEnd,
			ownTally(by, d.Elapsed)}
	}
	// The primary key serves the walk over the ids. Along job_outcomes_age, which serves the filter, the database
	// would sort all jobs that have the same outcome. (SQLite has no name for the primary key of a table WITHOUT
	// ROWID; there a + before a column keeps the column's index out.)
	return tallying{
		"SELECT job_id FROM job_outcomes" + d.ByPrimary + " WHERE " + tallyEnd, tallyPart(d.ByPrimary, d.Elapsed),
	}
}

const (
	tallyRuns  = "COALESCE(SUM(%[1]s), 0) AS run, COUNT(%[1]s) AS runs, COALESCE(MAX(%[1]s), 0) AS longest, "
	tallyWaits = "COALESCE(SUM(%[1]s), 0) AS waited, COUNT(%[1]s) AS waits "
	tallyLast  = " AND NOT EXISTS (SELECT 1 FROM job_outcomes n WHERE n.job_id = k.job_id AND n.generation > k.generation)"
)

// ownTally is tallyPart for one owner. It walks the owner's index over the outcomes, and joins to each its result
// or dead letter.
func ownTally(by string, elapsed func(since, until string) string) string {
	run := elapsed("r.started_at", "r.completed_at")
	wait := elapsed("COALESCE(r.arrived_at, f.arrived_at)", "COALESCE(r.first_tried_at, f.first_tried_at)")
	return "SELECT k.tier, k.type, k.outcome, COUNT(*) AS jobs, " + fmt.Sprintf(tallyRuns, run) +
		fmt.Sprintf(tallyWaits, wait) +
		"FROM job_outcomes k" + by + " LEFT JOIN job_results r ON r.job_id = k.job_id AND r.generation = k.generation " +
		"LEFT JOIN failed_jobs f ON f.job_id = k.job_id AND f.generation = k.generation " +
		"WHERE k.owner = @owner AND k.job_id >= @from AND k.job_id < @before" + tallyLast +
		" GROUP BY k.tier, k.type, k.outcome"
}

// tallyPart adds up the latest outcomes of the jobs between two ids. A completed outcome is always the latest of
// its job.
func tallyPart(byPrimary string, elapsed func(since, until string) string) string {
	run, wait := elapsed("k.started_at", "k.completed_at"), elapsed("k.arrived_at", "k.first_tried_at")
	const (
		noRuns  = "0, 0, 0, "
		noWaits = "0, 0 "
		between = " WHERE k.job_id >= @from AND k.job_id < @before"
		groups  = " GROUP BY k.tier, k.type"
	)
	head := func(s job.Status) string {
		return "SELECT k.tier, k.type, '" + string(s) + "' AS outcome, COUNT(*) AS jobs, "
	}
	return head(
		job.Completed,
	) + fmt.Sprintf(
		tallyRuns,
		run,
	) + fmt.Sprintf(
		tallyWaits,
		wait,
	) + "FROM job_results k" + between + groups +
		" UNION ALL " + head(
		job.Failed,
	) + noRuns + fmt.Sprintf(
		tallyWaits,
		wait,
	) + "FROM failed_jobs k" + between + tallyLast + groups +
		" UNION ALL " + head(
		job.Cancelled,
	) + noRuns + noWaits + "FROM job_outcomes k" + byPrimary + between + " AND +k.outcome = 'CANCELLED'" + tallyLast +
		groups
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
		var end string
		if err := a.db.Read.WithContext(ctx).Raw(query.end, args).Scan(&end).Error; err != nil {
			return nil, database.Unavailable("tally jobs", err)
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
	completed, failed, cancelled int64
	times                        tallyRow
}

func (s *sum) add(r tallyRow) {
	switch job.Status(r.Outcome) {
	case job.Completed:
		s.completed += r.Jobs
	case job.Failed:
		s.failed += r.Jobs
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
		Tier: k.tier, Type: k.typ, Completed: s.completed, Failed: s.failed, Cancelled: s.cancelled,
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
