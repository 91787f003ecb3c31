package archive

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// unended passes the rows (a) whose outcome SQL does not have.
const (
	unended = "NOT EXISTS (SELECT 1 FROM job_outcomes o WHERE o.job_id = a.job_id AND o.generation >= a.generation)"

	nextRun   = "SELECT MIN(run_id) FROM accepted_jobs WHERE run_id > ?"
	firstRun  = "SELECT MIN(run_id) FROM accepted_jobs"
	sweepPage = "SELECT a.job_id, a.generation, CASE WHEN " + unended +
		" THEN 0 ELSE 1 END AS ended FROM accepted_jobs a " +
		"WHERE a.job_id > ? ORDER BY a.job_id LIMIT ?"
	knownRows = "SELECT job_id FROM accepted_jobs WHERE job_id IN ? UNION SELECT job_id FROM job_outcomes WHERE job_id IN ?"
)

// takenBack passes the rows (a) that a submit may take back.
const takenBack = "a.submitting = 1"

// lostOfRun reads rows of a run that are at least of an age.
func lostOfRun(d database.Dialect) string {
	return "SELECT a.job_id, a.generation, a.cancel_requested, a.run_id FROM accepted_jobs a WHERE a.run_id = ? AND " +
		"a.job_id > ? AND a.recorded_at <= " + d.Ago +
		" AND " + unended + " ORDER BY a.job_id LIMIT ?"
}

// journaled reads one row, and whether it waits for its time. waiting reads the ids of rows that are old enough.
func journaled(d database.Dialect) string {
	return "SELECT a.*, CASE WHEN a.due_at > " + d.Now +
		" THEN 1 ELSE 0 END AS later FROM accepted_jobs a WHERE a.job_id = ? AND " + unended
}

func waiting(d database.Dialect) string {
	return "SELECT job_id FROM accepted_jobs WHERE job_id > ? AND recorded_at <= " + d.Ago + " ORDER BY job_id LIMIT ?"
}

// Runs reads which lives of Redis the rows name, each once: one per partition, and those that are over. Each costs a
// look at an index.
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

// Lost reads the living jobs that a life of Redis which is over was given, in the order of their ids: those after
// after, at most limit (and at most 1,000), each with its generation and whether it is to be cancelled. A row whose
// outcome SQL has is none of them, nor is one that was written within age, by the database's clock.
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

// Owe takes rows from the submits that wrote them: no submit takes them back from now on, and Redis is given their
// jobs.
func (a *Archive) Owe(ctx context.Context, ids []job.ID) error {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	for part := range slices.Chunk(ids, maxBatch) {
		size := database.SizeFor(len(part))
		update := "UPDATE accepted_jobs" + a.db.Dialect.ByPrimary + " SET submitting = 0 WHERE job_id IN " +
			database.Marks(size)
		err := a.db.Transaction(ctx, []string{update}, func(conn gorm.ConnPool) error {
			_, err := conn.ExecContext(ctx, update, padded(part, size)...)
			return err
		})
		if err != nil {
			return database.Unavailable("owe jobs", err)
		}
	}
	return nil
}

func (a *Archive) setRun(size int) string {
	return "UPDATE accepted_jobs" + a.db.Dialect.ByPrimary + " SET run_id = ?, submitting = 0 WHERE job_id IN " +
		database.Marks(size) + " AND generation = ?"
}

// Found notes that the Redis with this run id has the jobs, each in its row's generation: a row of another generation
// stays as it is. It is to be the run id that was read before the jobs were looked for there.
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
			err := a.db.Transaction(ctx, []string{update}, func(conn gorm.ConnPool) error {
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

// Sweep looks at the next limit rows of the journal after after (at most 1,000), and removes those whose outcome SQL
// has: the two were written at the same moment. next is where the next call goes on; "" is the end.
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
		err := a.db.Transaction(ctx, []string{drop}, func(conn gorm.ConnPool) error {
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

// Journaled reads a living job as the journal has it: SCHEDULED with RunAt if it is due in the future, by the
// database's clock, PROCESSING if it ran when the journal last heard of it, CANCELLED if it waited and a Redis said
// that it ends so, otherwise PENDING. It returns job.ErrNotFound for a job that is not there or has ended.
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
	case l.Running():
		l.Status = job.Processing
	case l.CancelRequested && l.Incarnation != "": // where no Redis had it, Redis is still to say what comes of it
		l.Status = job.Cancelled
	case row.Later == 1:
		l.Status = job.Scheduled
	}
	if l.Status != job.Scheduled {
		l.RunAt = time.Time{}
	}
	if l.ArrivedAt.IsZero() { // it arrives when Redis gets it
		l.ArrivedAt = row.Row.RecordedAt
	}
	return l.Job, nil
}

// Cancelling notes that a job is to be cancelled, if it has a row, and the run of Redis that said so; "" = none did.
func (a *Archive) Cancelling(ctx context.Context, id job.ID, incarnation string) error {
	if _, err := a.db.Exec(ctx, noteCancel, []any{incarnation, string(id)}); err != nil {
		return database.Unavailable("note a cancel", err)
	}
	return nil
}

// Known says of each id whether SQL knows the job: it is in the journal, or has an outcome.
func (a *Archive) Known(ctx context.Context, ids []job.ID) ([]bool, error) {
	there := make(map[job.ID]bool, len(ids))
	for part := range slices.Chunk(ids, maxBatch) {
		args := padded(part, database.SizeFor(len(part)))
		var found []string
		// The writing connection: what it cannot reach must not look absent.
		if err := a.db.Write.WithContext(ctx).Raw(knownRows, args, args).Scan(&found).Error; err != nil {
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

// Waiting reads the ids of jobs that have been in the journal for longer than olderThan, by the database's clock, in
// their order: those after after, at most limit (and at most 1,000).
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

// JournalSize counts the rows of the journal.
func (a *Archive) JournalSize(ctx context.Context) (n int64, err error) {
	if err := a.db.Read.WithContext(ctx).Raw("SELECT COUNT(*) FROM accepted_jobs").Scan(&n).Error; err != nil {
		return 0, database.Unavailable("count the journal", err)
	}
	return n, nil
}
