package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// A requeue is a row of accepted_jobs for the next generation. PromiseRequeues writes the row in the same
// transaction in which the request takes the dead letter.

// maxRequestID is the width of failed_jobs.requeue_request_id.
const maxRequestID = 64

// Requested says whether a request has made a promise for any generation of a job.
func (a *Archive) Requested(ctx context.Context, id job.ID, requestID string) (bool, error) {
	var n int64
	err := a.db.Write.WithContext(ctx).Model(&failedRow{}).
		Where("job_id = ? AND requeue_request_id = ?", string(id), requestID).Count(&n).Error
	if err != nil {
		return false, database.Unavailable("look for a request", err)
	}
	return n > 0, nil
}

// lettersAtOnce is how many dead letters one statement marks or reads.
const lettersAtOnce = job.MaxBatch

// PromiseRequeues promises to a request that dead letters are requeued. Each element of next is the job as it will
// be requeued, in the generation after its letter's. One transaction takes the letter, stores the request's reason
// and writes the row of the next generation, which no Redis has yet. A member of a batch then lives again, and if the
// batch's round has ended, its next round begins.
//
// The answer is true if this request has the promise, from this call or from an earlier call with the same id. It
// is false if another request has the promise, if the job was requeued without a promise, or if there is no such
// letter. After job.ErrAmbiguous some of the promises may have been made: repeating the call tells which. After
// job.ErrUnavailable none was made, nor after a *job.StateError: with request.Cascade a job would run again that cannot
// read the result of another any more.
func (a *Archive) PromiseRequeues(ctx context.Context, next []job.JournalRow, request job.Request) ([]bool, error) {
	if request.ID == "" || len(request.ID) > maxRequestID {
		return nil, errors.New("promise requeue: a request's id has 1 to 64 bytes")
	}
	mine := make([]bool, 0, len(next))
	for part := range slices.Chunk(next, lettersAtOnce) {
		some, err := a.promise(ctx, part, request)
		switch {
		case err == nil:
			mine = append(mine, some...)
		case len(mine) == 0 && errors.Is(err, job.ErrWrongState):
			return nil, fmt.Errorf("promise requeue: %w", err)
		case len(mine) == 0 && !errors.Is(err, job.ErrAmbiguous):
			return nil, database.Unavailable("promise requeue", err)
		default:
			return nil, database.Ambiguous("promise requeue", err)
		}
	}
	return mine, nil
}

// promise does the work of PromiseRequeues for at most lettersAtOnce letters, in one transaction.
func (a *Archive) promise(ctx context.Context, next []job.JournalRow, request job.Request) ([]bool, error) {
	where, keys := theseLetters(next)
	const unasked = "requeue_requested_at IS NULL AND requeued_at IS NULL"
	look := "SELECT job_id, generation, " + unasked + ", requeue_request_id FROM failed_jobs WHERE " + where +
		a.db.Dialect.LockRows
	// requeued_at gets the time of the request: from now on the row is the promise.
	// A dismissal ends with the promise.
	update := "UPDATE failed_jobs SET dismissed_at = NULL, dismiss_reason = '', requeue_requested_at = " + a.db.Dialect.Ago +
		", requeued_at = " + a.db.Dialect.Ago + ", requeue_request_id = ?, requeue_reason = ? WHERE " + unasked + " AND " +
		where
	flows := flowsOfRows(next)
	var mine []bool
	err := a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		flows, err := a.lockFlows(ctx, conn, flows) // first, as the transaction of outcomes does
		if err != nil {
			return err
		}
		open, held := map[key]bool{}, map[key]bool{}
		err = eachRow(ctx, conn, look, keys, func(scan func(...any) error) error {
			var k key
			var isOpen bool
			var by *string
			if err := scan(&k.id, &k.generation, &isOpen, &by); err != nil {
				return err
			}
			open[k], held[k] = isOpen, isOpen || by != nil && *by == request.ID
			return nil
		})
		if err != nil {
			return fmt.Errorf("read failed_jobs: %w", err)
		}
		mine = make([]bool, len(next))
		var rows []*job.JournalRow
		for i := range next {
			letter := key{next[i].ID, next[i].Generation - 1}
			mine[i] = held[letter]
			if open[letter] {
				rows = append(rows, &next[i])
				open[letter] = false // next may name a letter twice
			}
		}
		if len(rows) == 0 {
			return nil
		}
		args := append([]any{0, 0, request.ID, request.Reason}, keys...)
		if _, err := conn.ExecContext(ctx, update, args...); err != nil {
			return fmt.Errorf("update failed_jobs: %w", err)
		}
		slices.SortFunc(rows, func(x, y *job.JournalRow) int { return strings.Compare(string(x.ID), string(y.ID)) })
		if err := a.revived(ctx, conn, groupsOf(rows, rowGroup)); err != nil {
			return err
		}
		if _, err = insert(ctx, conn, a.inserts, acceptedTable, rows); err != nil {
			return err
		}
		return a.flowsRequeued(ctx, conn, flows, rows, request.Cascade)
	})
	return mine, err
}

// oldPromises are conditions on dead letters whose requeue was promised by an older version, which wrote no rows.
// With the first condition no Redis has the next generation yet; with the second, the Redis that requeued_run_id
// names has it.
var oldPromises = []string{
	"f.requeued_at IS NULL AND f.requeue_requested_at IS NOT NULL",
	"f.requeued_run_id > ''",
}

// withoutRow reads dead letters whose next generation has neither an outcome nor a row.
func withoutRow(condition string) string {
	return "SELECT " + letterColumns + ", f.payload, f.requeued_run_id FROM failed_jobs f" +
		" WHERE " + condition +
		isLatest("f") +
		" AND NOT EXISTS (SELECT 1 FROM accepted_jobs a WHERE a.job_id = f.job_id) LIMIT ?"
}

// AdoptPromises writes the missing rows of oldPromises, at most one page of each kind, and returns how many.
// priority returns a tier's priority.
func (a *Archive) AdoptPromises(ctx context.Context, priority func(job.Tier) int) (adopted int, err error) {
	for _, condition := range oldPromises {
		var rows []failedRow
		if err := a.db.Read.WithContext(ctx).Raw(withoutRow(condition), maxPage).Scan(&rows).Error; err != nil {
			return adopted, database.Unavailable("read promised requeues", err)
		}
		for i := range rows {
			d, err := rows[i].letter()
			if err != nil {
				a.db.Log.Error("a promised requeue cannot be read", "job_id", rows[i].JobID, "err", err)
				continue
			}
			next := d.Next(priority(d.Tier))
			if rows[i].RequeuedRunID != nil {
				next.Incarnation = *rows[i].RequeuedRunID
			}
			if err := a.owe(ctx, &next); err != nil {
				return adopted, database.Unavailable("write the row of a promised requeue", err)
			}
			adopted++
		}
	}
	return adopted, nil
}

// theseLetters is a condition on the dead letters of these jobs that the primary key serves. It names one letter
// or lettersAtOnce, the last one repeated, so that only two statements are prepared.
func theseLetters(next []job.JournalRow) (where string, keys []any) {
	n := 1
	if len(next) > 1 {
		n = lettersAtOnce
	}
	const one = "job_id = ? AND generation = ?"
	for i := range n {
		l := &next[min(i, len(next)-1)]
		keys = append(keys, string(l.ID), l.Generation-1)
	}
	return "(" + one + strings.Repeat(" OR "+one, n-1) + ")", keys
}
