package archive

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// Retention takes three steps: OldJobs reads the jobs whose outcome is old enough, UnneededJobs leaves out those
// that SQL may still need, DeleteJobs checks the need once more and deletes the rest. Each step may be repeated,
// and several processes may do it at once. The caller has to ask Redis whether it still needs a job.

// facts are what SQL holds of an ended job besides its outcome.
type facts struct {
	latest   int  // the latest generation that has an outcome; 0 = none
	lives    bool // the job has a journal row: it was requeued, or the accept journal has it
	callback bool // the job's callback job has a journal row
	keyed    bool // an Idempotency-Key that has not expired stands for the job
	flow     bool // the job's flow has not ended: a job may read its result, or wait for its requeue
	attempts int
}

// needed returns why SQL must keep a job's rows whatever their age, as far as SQL knows, or "" if nothing needs
// them. A job is deleted as a whole, with all its generations, once its latest generation may go: rows of an
// earlier generation alone would show the job as it was before.
func (f *facts) needed(o *job.OldJob) string {
	switch {
	case f.latest != o.Generation:
		return "another generation is the latest"
	case f.lives:
		return "the job lives"
	case f.callback:
		return "the callback is not sent yet"
	case f.keyed:
		return "an Idempotency-Key stands for the job"
	case f.flow:
		return "the job's flow has not ended"
	}
	return ""
}

// retention holds the statements of a deletion. Each names size jobs, the last one repeated, so that there are few
// statements to prepare. The size is not always job.MaxBatch: if a table has fewer rows than a statement names,
// MariaDB reads, and locks, the whole table.
type retention struct {
	size                                                        int
	nextTier, old                                               string // of job_outcomes
	nextCompleted, oldCompleted                                 string // of job_results
	outcomes, results, letters, journal, keys, flows, attempts  string
	flowsOf                                                     string
	lockedLetters, deleteLetters, deleteResults, deleteAttempts string
	deleteReasons, deleteLogs, deleteOutcomes                   string
}

func retentionOf(d *database.Dialect, jobsAtOnce int) retention {
	size := database.SizeFor(jobsAtOnce)
	jobs := " WHERE job_id IN " + database.Marks(size)
	read := func(columns, table string) string { return "SELECT " + columns + " FROM " + table + d.ByPrimary + jobs }
	letters := read("job_id", "failed_jobs")
	return retention{
		size: size,
		nextTier: "SELECT tier FROM job_outcomes" + d.By("job_outcomes_age") +
			" WHERE outcome = ? AND tier > ? ORDER BY tier LIMIT 1",
		old: "SELECT job_id, generation, type, recorded_at FROM job_outcomes" + d.By("job_outcomes_age") +
			" WHERE outcome = ? AND tier = ? AND recorded_at >= ? AND recorded_at <= " + d.Ago +
			" AND (recorded_at > ? OR job_id > ? OR job_id = ? AND generation > ?)" +
			" ORDER BY recorded_at, job_id, generation LIMIT ?",
		nextCompleted: "SELECT tier FROM job_results" + d.By("job_results_age") +
			" WHERE tier > ? ORDER BY tier LIMIT 1",
		oldCompleted: "SELECT job_id, generation, type, recorded_at FROM job_results" + d.By("job_results_age") +
			" WHERE tier = ? AND recorded_at >= ? AND recorded_at <= " + d.Ago +
			" AND (recorded_at > ? OR job_id > ?) ORDER BY recorded_at, job_id LIMIT ?",
		outcomes: read("job_id, generation", "job_outcomes"), results: read("job_id, generation", "job_results"),
		letters: letters, lockedLetters: letters + d.LockRows,
		journal: "SELECT job_id FROM accepted_jobs" + d.ByPrimary + " WHERE job_id IN " + database.Marks(2*size),
		keys: "SELECT job_id FROM idempotency_keys" + d.By("idempotency_keys_job") + jobs +
			" AND expires_at > " + d.Now,
		flowsOf: "SELECT flow_id FROM flow_jobs" + d.By("flow_jobs_job") + jobs,
		flows: "SELECT j.job_id FROM flow_jobs j" + d.By("flow_jobs_job") + " JOIN flows f ON f.id = j.flow_id" +
			" WHERE j.job_id IN " + database.Marks(size) + " AND f.ended_at IS NULL",
		attempts: read("job_id, COUNT(*)", "job_attempts") + " GROUP BY job_id",

		deleteLetters: d.DeleteFrom("failed_jobs") + jobs, deleteResults: d.DeleteFrom("job_results") + jobs,
		deleteAttempts: d.DeleteFrom("job_attempts") + jobs, deleteReasons: d.DeleteFrom("cancel_reasons") + jobs,
		deleteLogs:     d.DeleteFrom("job_logs") + jobs,
		deleteOutcomes: d.DeleteFrom("job_outcomes") + jobs,
	}
}

// Kinds returns the tiers and outcomes of which there are rows. Each costs one or two index lookups.
func (a *Archive) Kinds(ctx context.Context) (kinds []job.Kind, err error) {
	q := retentionOf(&a.db.Dialect, 1)
	for _, status := range []job.Status{job.Completed, job.Failed, job.Cancelled, job.Expired} {
		tiers, err := a.tiers(ctx, q.nextTier, string(status))
		if err == nil && status == job.Completed { // earlier versions recorded these in job_outcomes
			var more []string
			more, err = a.tiers(ctx, q.nextCompleted)
			tiers = append(tiers, more...)
		}
		if err != nil {
			return nil, database.Unavailable("read the kinds of outcomes", err)
		}
		slices.Sort(tiers)
		for _, tier := range slices.Compact(tiers) {
			kinds = append(kinds, job.Kind{Tier: job.Tier(tier), Status: status})
		}
	}
	return kinds, nil
}

// tiers reads the tiers of an index one after the other. next reads the one behind its last argument.
func (a *Archive) tiers(ctx context.Context, next string, args ...any) (tiers []string, err error) {
	for tier := ""; ; {
		var some []string
		if err := a.db.Read.WithContext(ctx).Raw(next, append(args, tier)...).Scan(&some).Error; err != nil {
			return nil, err
		}
		if len(some) == 0 {
			return tiers, nil
		}
		tier = some[0]
		tiers = append(tiers, tier)
	}
}

// OldJobs reads outcomes of a kind that SQL recorded at least age ago by its clock, the oldest first: those behind
// after (the zero value is the beginning), at most job.MaxBatch.
func (a *Archive) OldJobs(ctx context.Context, k job.Kind, age time.Duration, after job.OldJob) ([]job.OldJob, error) {
	at := after.RecordedAt.UTC()
	if at.Before(earliest) {
		at = earliest
	}
	q, id := retentionOf(&a.db.Dialect, 1), string(after.ID)
	tier, ms := string(k.Tier), age.Milliseconds()
	old, err := a.oldRows(ctx, q.old, string(k.Status), tier, at, ms, at, id, id, after.Generation, job.MaxBatch)
	// A result that an earlier version wrote has no recorded_at: its row in job_outcomes has the time.
	if err == nil && k.Status == job.Completed {
		var results []job.OldJob
		results, err = a.oldRows(ctx, q.oldCompleted, tier, at, ms, at, id, job.MaxBatch)
		old = append(old, results...)
	}
	if err != nil {
		return nil, database.Unavailable("read old outcomes", err)
	}
	slices.SortFunc(old, func(x, y job.OldJob) int {
		return cmp.Or(x.RecordedAt.Compare(y.RecordedAt), cmp.Compare(x.ID, y.ID), cmp.Compare(x.Generation, y.Generation))
	})
	return old[:min(len(old), job.MaxBatch)], nil
}

func (a *Archive) oldRows(ctx context.Context, query string, args ...any) ([]job.OldJob, error) {
	var rows []outcomeRow
	if err := a.db.Read.WithContext(ctx).Raw(query, args...).Scan(&rows).Error; err != nil {
		return nil, err
	}
	old := make([]job.OldJob, len(rows))
	for i, r := range rows {
		old[i] = job.OldJob{ID: job.ID(r.JobID), Generation: r.Generation, Type: r.Type, RecordedAt: r.RecordedAt}
	}
	return old, nil
}

// UnneededJobs returns those of at most job.MaxBatch old jobs that SQL no longer needs (see needed). Each says how
// many rows it has.
func (a *Archive) UnneededJobs(ctx context.Context, old []job.OldJob) ([]job.OldJob, error) {
	q := retentionOf(&a.db.Dialect, len(old))
	free, err := unneeded(ctx, a.db.Read.WithContext(ctx).Statement.ConnPool, &q, q.letters, old)
	if err != nil {
		return nil, database.Unavailable("look what is needed", err)
	}
	return free, nil
}

// DeleteJobs deletes all rows of those of at most job.MaxBatch old jobs that SQL no longer needs, in one
// transaction, and returns the number of deleted rows per table. It locks the jobs' flows first, as every change of a
// flow does, so that no requeue can bring back a job that reads a result which is being deleted. Then it locks the
// jobs' dead letters, so that no request can promise to requeue a job that is being deleted.
func (a *Archive) DeleteJobs(ctx context.Context, old []job.OldJob) (job.DeletedRows, error) {
	q := retentionOf(&a.db.Dialect, len(old))
	var deleted job.DeletedRows
	err := a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		deleted = job.DeletedRows{}
		if err := a.lockFlowsOf(ctx, conn, &q, old); err != nil {
			return err
		}
		free, err := unneeded(ctx, conn, &q, q.lockedLetters, old)
		if err != nil || len(free) == 0 {
			return err
		}
		ids := oldIDs(free)
		for _, table := range []struct{ name, drop string }{
			{"failed_jobs", q.deleteLetters}, {"job_results", q.deleteResults},
			{"job_attempts", q.deleteAttempts}, {"cancel_reasons", q.deleteReasons}, {"job_logs", q.deleteLogs},
			{"job_outcomes", q.deleteOutcomes},
		} {
			r, err := conn.ExecContext(ctx, table.drop, padded(ids, q.size)...)
			if err != nil {
				return err
			}
			if deleted[table.name], err = r.RowsAffected(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, database.Unavailable("delete old jobs", err)
	}
	return deleted, nil
}

func oldIDs(old []job.OldJob) []job.ID {
	ids := make([]job.ID, len(old))
	for i := range old {
		ids[i] = old[i].ID
	}
	// All writers sort alike, to avoid deadlocks.
	slices.SortFunc(ids, func(x, y job.ID) int { return strings.Compare(string(x), string(y)) })
	return ids
}
