package archive

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// unended passes the journal rows (alias a) whose outcome SQL does not have.
const (
	unended = "NOT EXISTS (SELECT 1 FROM job_outcomes o WHERE o.job_id = a.job_id AND o.generation >= a.generation) " +
		"AND NOT EXISTS (SELECT 1 FROM job_results r WHERE r.job_id = a.job_id AND r.generation >= a.generation)"

	nextRun   = "SELECT MIN(run_id) FROM accepted_jobs WHERE run_id > ?"
	firstRun  = "SELECT MIN(run_id) FROM accepted_jobs"
	sweepPage = "SELECT a.job_id, a.generation, CASE WHEN " + unended +
		" THEN 0 ELSE 1 END AS ended FROM accepted_jobs a " +
		"WHERE a.job_id > ? ORDER BY a.job_id LIMIT ?"
	knownRows = "SELECT job_id FROM accepted_jobs WHERE job_id IN ? UNION SELECT job_id FROM job_outcomes " +
		"WHERE job_id IN ? UNION SELECT job_id FROM job_results WHERE job_id IN ?"
)

// takenBack passes the journal rows (alias a) that their submit may still take back.
const takenBack = "a.submitting = 1"

// lostOfRun reads the rows of an incarnation that are at least of a given age.
func lostOfRun(d database.Dialect) string {
	return "SELECT a.job_id, a.generation, a.cancel_requested, a.run_id FROM accepted_jobs a WHERE a.run_id = ? AND " +
		"a.job_id > ? AND a.recorded_at <= " + d.Ago +
		" AND " + unended + " ORDER BY a.job_id LIMIT ?"
}

// journaled reads one row, and whether its job is due later. waiting reads the ids of rows that are old enough.
func journaled(d database.Dialect) string {
	return "SELECT a.*, CASE WHEN a.due_at > " + d.Now +
		" THEN 1 ELSE 0 END AS later FROM accepted_jobs a WHERE a.job_id = ? AND " + unended
}

func waiting(d database.Dialect) string {
	return "SELECT job_id FROM accepted_jobs WHERE job_id > ? AND recorded_at <= " + d.Ago + " ORDER BY job_id LIMIT ?"
}

// Runs returns the incarnations of Redis that journal rows name, each once: the present one of each partition, and
// those that are over. Each costs one index lookup.
func (a *Archive) Runs(ctx context.Context) (runs []string, err error) {
	db := a.db.Read.WithContext(ctx)
	var run *string
	for err = db.Raw(firstRun).Scan(&run).Error; err == nil && run != nil; {
		runs = append(runs, *run)
		var next *string
		err = db.Raw(nextRun, *run).Scan(&next).Error
		run = next
	}
	if err != nil {
		return nil, database.Unavailable("read the runs of the journal", err)
	}
	return runs, nil
}

// Lost reads the living jobs whose rows name an incarnation of Redis that is over, in the order of their ids:
// those after the id after, at most limit (and at most 1,000). Each has its generation, and whether a cancel was
// requested. Rows whose outcome SQL has are left out, and rows that are younger than age by the database's clock.
func (a *Archive) Lost(
	ctx context.Context, incarnation string, age time.Duration, after job.ID, limit int,
) ([]job.JournalRow, error) {
	var lost []acceptedRow
	args := []any{incarnation, string(after), age.Milliseconds(), min(max(limit, 1), maxPage)}
	err := a.db.Read.WithContext(ctx).Raw(lostOfRun(a.db.Dialect), args...).Scan(&lost).Error
	if err != nil {
		return nil, database.Unavailable("read lost jobs", err)
	}
	jobs := make([]job.JournalRow, len(lost))
	for i, r := range lost {
		jobs[i] = job.JournalRow{
			Job:         job.Job{ID: job.ID(r.JobID), Generation: r.Generation, CancelRequested: r.CancelRequested},
			Incarnation: r.Incarnation,
		}
	}
	return jobs, nil
}

// Owe ends the right of submits to take back their rows. From now on the jobs are owed: Redis must get them.
func (a *Archive) Owe(ctx context.Context, ids []job.ID) error {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	for part := range slices.Chunk(ids, maxBatch) {
		size := database.SizeFor(len(part))
		update := a.noteOwed(size)
		err := a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
			_, err := conn.ExecContext(ctx, update, padded(part, size)...)
			return err
		})
		if err != nil {
			return database.Unavailable("owe jobs", err)
		}
	}
	return nil
}

func (a *Archive) noteOwed(size int) string {
	return "UPDATE accepted_jobs" + a.db.Dialect.ByPrimary + " SET submitting = 0 WHERE job_id IN " + database.Marks(size)
}

func (a *Archive) setRun(size int) string {
	return "UPDATE accepted_jobs" + a.db.Dialect.ByPrimary + " SET run_id = ?, submitting = 0 WHERE job_id IN " +
		database.Marks(size) + " AND generation = ?"
}

// Found stores that the incarnation of Redis has the jobs, each in its row's generation; a row of another
// generation stays unchanged. The caller must have read the incarnation before it looked for the jobs in Redis.
func (a *Archive) Found(ctx context.Context, rows []job.JournalRow, incarnation string) error {
	of := map[int][]job.ID{}
	for i := range rows {
		of[max(rows[i].Generation, 1)] = append(of[max(rows[i].Generation, 1)], rows[i].ID)
	}
	for generation, ids := range of {
		slices.Sort(ids)
		for part := range slices.Chunk(ids, maxBatch) {
			size := database.SizeFor(len(part))
			update := a.setRun(size)
			args := append(append([]any{incarnation}, padded(part, size)...), generation)
			err := a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
				_, err := conn.ExecContext(ctx, update, args...)
				return err
			})
			if err != nil {
				return database.Unavailable("note found jobs", err)
			}
		}
	}
	return nil
}

// Sweep reads the next limit rows of the journal behind the id after (at most 1,000), and removes those whose
// outcome SQL has. Such a row remains if it was written at the same moment as the outcome. next is where the next
// call goes on; "" is the end.
func (a *Archive) Sweep(ctx context.Context, after job.ID, limit int) (next job.ID, swept int64, err error) {
	limit = min(max(limit, 1), maxPage)
	var rows []struct {
		JobID      string
		Generation int
		Ended      int
	}
	if err := a.db.Read.WithContext(ctx).Raw(sweepPage, string(after), limit).Scan(&rows).Error; err != nil {
		return "", 0, database.Unavailable("sweep the journal", err)
	}
	var ended []key
	for _, r := range rows {
		if r.Ended == 1 {
			ended = append(ended, key{job.ID(r.JobID), r.Generation})
		}
	}
	for part := range slices.Chunk(ended, maxBatch) {
		drop := a.dropAccepted(database.SizeFor(len(part)))
		err := a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
			return dropRows(ctx, conn, part, drop, database.SizeFor(len(part)))
		})
		if err != nil {
			return "", swept, database.Unavailable("sweep the journal", err)
		}
		swept += int64(len(part))
	}
	if len(rows) == limit {
		next = job.ID(rows[limit-1].JobID)
	}
	return next, swept, nil
}

// Journaled reads a living job from the journal. The status is SCHEDULED with RunAt if the job is due in the
// future by the database's clock, FAILED if it was killed, PROCESSING if it ran at the journal's last note of it,
// CANCELLED if it waited and Redis confirmed its cancel, and otherwise PENDING. Journaled returns job.ErrNotFound for
// a job without a row or with an outcome.
func (a *Archive) Journaled(ctx context.Context, id job.ID) (job.Job, error) {
	var row struct {
		Row   acceptedRow `gorm:"embedded"`
		Later int
	}
	if err := a.db.Read.WithContext(ctx).Raw(journaled(a.db.Dialect), string(id)).Take(&row).Error; err != nil {
		return job.Job{}, findError(err)
	}
	l, err := row.Row.living()
	if err != nil {
		a.db.Log.Error("an accepted job cannot be read whole", "job_id", id, "err", err)
	}
	switch {
	case l.KillReason != "":
		l.Status, l.CancelRequested, l.Cause, l.LastError = job.Failed, false, job.Killed, l.KillReason
	case l.Running():
		l.Status = job.Processing
	case l.CancelRequested && l.Incarnation != "": // without an incarnation Redis still has to decide about the cancel
		l.Status = job.Cancelled
	case row.Later == 1:
		l.Status = job.Scheduled
	}
	if l.Status != job.Scheduled {
		l.RunAt = time.Time{}
	}
	if l.ArrivedAt.IsZero() { // the job arrives when Redis gets it
		l.ArrivedAt = row.Row.RecordedAt
	}
	return l.Job, nil
}

// Cancelling stores in a job's row, if it has one, that the job is to be cancelled, and the incarnation of Redis
// that said so; "" = none did.
func (a *Archive) Cancelling(ctx context.Context, id job.ID, incarnation string) error {
	if _, err := a.db.Exec(ctx, noteCancel, []any{incarnation, string(id)}); err != nil {
		return database.Unavailable("note a cancel", err)
	}
	return nil
}

// Killing stores in the row of a job's generation, if it has one, that the job was killed and why, and the incarnation
// of Redis that said so.
func (a *Archive) Killing(ctx context.Context, k job.Killing, incarnation string) error {
	args := []any{k.Reason, incarnation, string(k.ID), max(k.Generation, 1)}
	if _, err := a.db.Exec(ctx, noteKill, args); err != nil {
		return database.Unavailable("note a kill", err)
	}
	return nil
}

// Hastening stores in a job's row, if it has one, that the job is due, and the incarnation of Redis that said so.
func (a *Archive) Hastening(ctx context.Context, id job.ID, arrived time.Time, incarnation string) error {
	args := []any{database.OrNull(arrived), incarnation, string(id)}
	if _, err := a.db.Exec(ctx, noteHasten, args); err != nil {
		return database.Unavailable("note a hasten", err)
	}
	return nil
}

// Known says for each id whether SQL knows the job: it has a journal row or an outcome.
func (a *Archive) Known(ctx context.Context, ids []job.ID) ([]bool, error) {
	there := make(map[job.ID]bool, len(ids))
	for part := range slices.Chunk(ids, maxBatch) {
		args := padded(part, database.SizeFor(len(part)))
		var found []string
		// Reads the writing connection: a row that is not reached must not look absent.
		if err := a.db.Write.WithContext(ctx).Raw(knownRows, args, args, args).Scan(&found).Error; err != nil {
			return nil, database.Unavailable("look for jobs", err)
		}
		for _, id := range found {
			there[job.ID(id)] = true
		}
	}
	known := make([]bool, len(ids))
	for i, id := range ids {
		known[i] = there[id]
	}
	return known, nil
}

// Waiting reads the ids of jobs that have been in the journal for longer than olderThan by the database's clock,
// in their order: those after the id after, at most limit (and at most 1,000).
func (a *Archive) Waiting(ctx context.Context, after job.ID, limit int, olderThan time.Duration) ([]job.ID, error) {
	var ids []job.ID
	err := a.db.Read.WithContext(ctx).Raw(
		waiting(a.db.Dialect), string(after), olderThan.Milliseconds(), min(max(limit, 1), maxPage),
	).Scan(&ids).Error
	if err != nil {
		return nil, database.Unavailable("read the journal", err)
	}
	return ids, nil
}

// JournalSize returns the number of rows in the journal.
func (a *Archive) JournalSize(ctx context.Context) (n int64, err error) {
	if err := a.db.Read.WithContext(ctx).Raw("SELECT COUNT(*) FROM accepted_jobs").Scan(&n).Error; err != nil {
		return 0, database.Unavailable("count the journal", err)
	}
	return n, nil
}
