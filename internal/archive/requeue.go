package archive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/job"
)

// A requeue in three steps, each of which may be repeated: (1) PromiseRequeue, from here it will happen; (2) Redis gives the job its next
// generation; (3) Requeued. Promised brings back what got stuck between (1) and (3).

// maxRequestID is the width of failed_jobs.requeue_request_id.
const maxRequestID = 64

// PromiseRequeue marks an open dead letter as promised to this request, and keeps its reason in the same step. True:
// the promise is this request's, now or since an earlier call with the same id, kept or not. False: another request has
// it, the job was requeued without one, or there is no such letter. After job.ErrAmbiguous the promise may have been
// made: the same call again says so; after job.ErrUnavailable it was not.
func (a *Archive) PromiseRequeue(ctx context.Context, id job.ID, generation int, request job.Request) (bool, error) {
	mine, err := a.PromiseRequeues(ctx, []job.DeadLetter{{Job: job.Job{ID: id, Generation: generation}}}, request)
	return err == nil && mine[0], err
}

// Requested says whether a request has made a promise for any life of a job.
func (a *Archive) Requested(ctx context.Context, id job.ID, requestID string) (bool, error) {
	var n int64
	err := a.write.WithContext(ctx).Model(&failedRow{}).Where("job_id = ? AND requeue_request_id = ?", string(id), requestID).Count(&n).Error
	if err != nil {
		return false, unavailable("look for a request", err)
	}
	return n > 0, nil
}

// PromiseRequeues is PromiseRequeue for many letters, in a few statements; only their ids and generations matter. After job.ErrAmbiguous
// some of the promises may have been made: the same call again says which.
func (a *Archive) PromiseRequeues(ctx context.Context, letters []job.DeadLetter, request job.Request) ([]bool, error) {
	if request.ID == "" || len(request.ID) > maxRequestID {
		return nil, errors.New("promise requeue: a request's id has 1 to 64 bytes")
	}
	update := "UPDATE failed_jobs SET requeue_requested_at = " + a.dialect.ago + ", requeue_request_id = ?, requeue_reason = ? " +
		"WHERE requeue_requested_at IS NULL AND requeued_at IS NULL AND "
	mine := make([]bool, 0, len(letters))
	for part := range slices.Chunk(letters, lettersAtOnce) {
		where, keys := theseLetters(part)
		marked, err := a.mark(ctx, update+where, append([]any{0, request.ID, request.Reason}, keys...))
		switch {
		case err != nil && len(mine) == 0 && a.unmade(err):
			return nil, unavailable("promise requeue", err)
		case err != nil:
			return nil, ambiguous("promise requeue", err)
		}
		if marked == int64(len(part)) {
			mine = append(mine, slices.Repeat([]bool{true}, len(part))...)
			continue
		}
		var rows []failedRow
		// The writing connection: what it cannot reach must not look absent.
		err = a.write.WithContext(ctx).Raw("SELECT job_id, generation, requeue_request_id FROM failed_jobs WHERE "+where, keys...).Scan(&rows).Error
		if err != nil {
			return nil, ambiguous("promise requeue", err)
		}
		held := make(map[key]bool, len(rows))
		for _, r := range rows {
			held[key{job.ID(r.JobID), r.Generation}] = r.RequeueRequestID != nil && *r.RequeueRequestID == request.ID
		}
		for i := range part {
			mine = append(mine, held[key{part[i].ID, part[i].Generation}])
		}
	}
	return mine, nil
}

// Promised reads promises older than olderThan, by the database's clock, that were not kept yet: the oldest first, at most limit (and at
// most 500), whole. A letter that cannot be read is logged and passed over.
func (a *Archive) Promised(ctx context.Context, olderThan time.Duration, limit int) ([]job.DeadLetter, error) {
	var rows []failedRow
	query := wholeLetter + "f.requeued_at IS NULL AND f.requeue_requested_at <= " + a.dialect.ago + " ORDER BY f.requeue_requested_at LIMIT ?"
	err := a.read.WithContext(ctx).Raw(query, olderThan.Milliseconds(), min(max(limit, 1), promisesAtOnce)).Scan(&rows).Error
	if err != nil {
		return nil, unavailable("read promised requeues", err)
	}
	letters := make([]job.DeadLetter, 0, len(rows))
	for i := range rows {
		l, err := rows[i].letter()
		if err != nil {
			a.log.Error("a promised requeue cannot be read", "job_id", rows[i].JobID, "err", err)
			continue
		}
		letters = append(letters, l)
	}
	return letters, nil
}

// Requeued notes that the letters' next generations exist, in the Redis that has this run id. A letter that is marked already, perhaps
// because that generation has ended meanwhile, stays as it is.
func (a *Archive) Requeued(ctx context.Context, letters []job.DeadLetter, runID string) error {
	update := "UPDATE failed_jobs SET requeued_at = " + a.dialect.ago + ", requeued_run_id = ? WHERE requeued_at IS NULL AND "
	for part := range slices.Chunk(letters, lettersAtOnce) {
		where, keys := theseLetters(part)
		if _, err := a.mark(ctx, update+where, append([]any{0, runID}, keys...)); err != nil {
			return unavailable("note requeue", err)
		}
	}
	return nil
}

// promisesAtOnce is how many letters Promised reads at most: more than can stay in the way of others (see recovery).
const promisesAtOnce = 500

// lettersAtOnce is how many letters one statement marks or reads.
const lettersAtOnce = job.MaxBatch

// Reopen makes promises of the requeues whose new life a Redis took with it: it was marked under another run than the present ones, and has
// no outcome. They are kept again, which changes nothing where the life is still there. It says how many there were.
func (a *Archive) Reopen(ctx context.Context, runs []string) (int64, error) {
	args := make([]any, len(runs))
	for i, run := range runs {
		args[i] = run
	}
	n, err := a.mark(ctx, "UPDATE failed_jobs SET requeued_at = NULL, requeued_run_id = NULL WHERE requeued_run_id NOT IN "+marks(len(runs))+" AND NOT EXISTS "+
		"(SELECT 1 FROM job_outcomes o WHERE o.job_id = failed_jobs.job_id AND o.generation = failed_jobs.generation + 1)", args)
	if err != nil {
		return 0, unavailable("reopen requeues", err)
	}
	return n, nil
}

// theseLetters is a condition that the primary key serves. It names one letter or lettersAtOnce, the last one repeated, so that there are
// but two texts to prepare.
func theseLetters(letters []job.DeadLetter) (where string, keys []any) {
	n := 1
	if len(letters) > 1 {
		n = lettersAtOnce
	}
	const one = "job_id = ? AND generation = ?"
	for i := range n {
		l := &letters[min(i, len(letters)-1)]
		keys = append(keys, string(l.ID), l.Generation)
	}
	return "(" + one + strings.Repeat(" OR "+one, n-1) + ")", keys
}

// mark runs an update and returns how many rows it changed. It is tried again after a deadlock or a lock wait.
func (a *Archive) mark(ctx context.Context, update string, args []any) (changed int64, err error) {
	for try := range patience {
		var done *gorm.DB
		if done = a.write.WithContext(ctx).Exec(update, args...); done.Error == nil {
			return done.RowsAffected, nil
		}
		if err = done.Error; a.dialect.verdict(err) != again {
			return 0, err
		}
		if err := pause(ctx, time.Duration(rand.Int64N(int64(10*time.Millisecond)<<try))); err != nil {
			return 0, fmt.Errorf("try again: %w", err)
		}
	}
	return 0, err
}
