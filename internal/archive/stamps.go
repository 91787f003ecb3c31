package archive

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

const (
	stampEvery = 100 * time.Millisecond
	// stampsAtOnce is how many rows one statement updates. The statement has a branch for each row, and SQL compares
	// each row with half of the branches.
	stampsAtOnce = 16
	// stampsWaiting bounds the rows in memory. Rows beyond it are dropped; the reconciler asks Redis about their
	// jobs.
	stampsWaiting = 50_000
)

// stamps writes to journal rows, after the caller has been answered, that Redis accepted the submits: the
// incarnation that has the job, and the arrival that the script gave it. Most jobs have ended by then, and have no
// row any more.
type stamps struct {
	archive *Archive
	timeout time.Duration
	loop    *loop.Loop

	mu   sync.Mutex
	rows []job.JournalRow
}

func newStamps(a *Archive, timeout time.Duration) *stamps {
	s := &stamps{archive: a, timeout: timeout}
	s.loop = loop.New(func(ctx context.Context) time.Duration {
		s.runOnce(ctx)
		return stampEvery
	})
	return s
}

func (s *stamps) add(rows []job.JournalRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = append(s.rows, rows[:min(len(rows), max(stampsWaiting-len(s.rows), 0))]...)
}

// runOnce writes the waiting rows. Nothing depends on a row that SQL cannot take now: the reconciler finds it. If ctx
// ends meanwhile, the rows wait again, so that Stop writes them; a row that was written before is not changed.
func (s *stamps) runOnce(ctx context.Context) {
	s.mu.Lock()
	all := s.rows
	s.rows = nil
	s.mu.Unlock()
	of := map[string][]job.JournalRow{}
	for _, r := range all {
		of[r.Incarnation] = append(of[r.Incarnation], r)
	}
	for run, rows := range of {
		// All writers sort alike, as in record, to avoid deadlocks.
		slices.SortFunc(rows, func(x, y job.JournalRow) int { return strings.Compare(string(x.ID), string(y.ID)) })
		for part := range slices.Chunk(rows, maxBatch) {
			once, cancel := context.WithTimeout(ctx, s.timeout)
			err := s.archive.stamp(once, run, part)
			cancel()
			if err != nil && ctx.Err() != nil {
				s.add(all)
				return
			}
			if err != nil {
				s.archive.db.Log.Debug("accepted submits are not noted as taken", "jobs", len(part), "err", err)
				return
			}
		}
	}
}

// stamp writes to the rows of submits that an incarnation of Redis has their jobs, and when the jobs arrived and
// are due.
func (a *Archive) stamp(ctx context.Context, run string, rows []job.JournalRow) error {
	var updates []string
	var args [][]any
	for part := range slices.Chunk(rows, stampsAtOnce) {
		query, of := a.stampsOf(run, part)
		updates, args = append(updates, query), append(args, of)
	}
	return a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		for i, update := range updates {
			if _, err := conn.ExecContext(ctx, update, args[i]...); err != nil {
				return fmt.Errorf("update accepted_jobs: %w", err)
			}
		}
		return nil
	})
}

// stampsOf returns the statement that stamps some rows. A job that is not delayed keeps its empty due time.
func (a *Archive) stampsOf(run string, rows []job.JournalRow) (update string, args []any) {
	size := database.SizeFor(len(rows))
	cases := strings.Repeat(" WHEN ? THEN ?", size)
	ids, args, delayed := make([]job.ID, len(rows)), []any{run}, false
	for i := range rows {
		ids[i], delayed = rows[i].ID, delayed || !rows[i].RunAt.IsZero()
	}
	branches := func(of func(r *job.JournalRow) time.Time) {
		for i := range size {
			r := &rows[min(i, len(rows)-1)]
			args = append(args, string(r.ID), database.OrNull(of(r)))
		}
	}
	update = "UPDATE accepted_jobs" + a.db.Dialect.ByPrimary + " SET submitting = 0, run_id = ?," +
		" arrived_at = CASE job_id" + cases + " ELSE arrived_at END"
	branches(func(r *job.JournalRow) time.Time { return r.ArrivedAt })
	if delayed {
		update += ", due_at = CASE job_id" + cases + " ELSE due_at END"
		branches(func(r *job.JournalRow) time.Time { return r.RunAt })
	}
	update += " WHERE job_id IN " + database.Marks(size) + " AND submitting = 1"
	return update, append(args, padded(ids, size)...)
}
