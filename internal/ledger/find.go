package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tierq/tierq/internal/job"
)

// Find returns the job as users may see it, or job.ErrNotFound. While Redis is down, Find answers for jobs that
// have ended for good, if SQL has their outcome; for any other job it returns the error of Redis, because the job
// may have moved. With Options.Outbox, Find waits at most a second for the row of an ended job, and shows a job
// without a row as it was before its end.
func (l *Ledger) Find(ctx context.Context, id job.ID) (job.Job, error) {
	j, err := l.live(ctx, id)
	switch {
	case errors.Is(err, job.ErrNotFound):
		j, err := l.archived(ctx, id)
		if errors.Is(err, job.ErrNotFound) { // Redis lost the job, or gets it soon
			if j, err = l.row(ctx, id); !errors.Is(err, job.ErrNotFound) {
				return j, err
			}
			j, err = l.archived(ctx, id) // the job may have ended since, and then has no row
			if errors.Is(err, job.ErrNotFound) {
				return l.inFlow(ctx, id)
			}
		}
		if err == nil {
			j, err = l.promised(ctx, j) // only SQL knows the job: one of its two reads alone is no answer
		}
		return j, err
	case job.Outage(err):
		return l.final(ctx, id, err)
	case err != nil:
		return j, err
	case l.Outbox != nil && j.Status.Ended():
		j, err := within(ctx, archivePatience, func(ctx context.Context) (job.Job, error) { return l.stored(ctx, j) })
		if err == nil {
			j, err = l.promised(ctx, j) // only SQL knows the job: one of its two reads alone is no answer
		}
		return j, err
	case j.Status == job.Completed && j.Result == nil:
		archived, err := l.archived(ctx, id)
		if errors.Is(err, job.ErrNotFound) { // the holder reported no result, and SQL does not have the outcome yet
			return j, nil
		}
		return archived, err
	case j.Status == job.Failed:
		if next, err := l.promised(ctx, j); err == nil {
			return next, nil
		}
		j = l.later(ctx, j)
	case j.Status.Final():
		j.Cause, j.LastError = "", "" // they are of an earlier attempt: the history has them, and SQL's answer does not
	}
	return j, nil
}

// Whole adds to a job that Find found what only its detail page shows: the payload and the options of a dead
// letter, which Redis deletes once SQL has them. kept is false for a job without payload and options: a COMPLETED,
// CANCELLED or EXPIRED job, even while Redis still has them, and a job whose dead letter is gone or was requeued
// meanwhile.
func (l *Ledger) Whole(ctx context.Context, j job.Job) (whole job.Job, kept bool, err error) {
	switch j.Status {
	case job.Completed, job.Cancelled, job.Expired:
	case job.Failed:
		d, err := l.letter(ctx, j.ID)
		switch {
		case job.Outage(err):
			return j, false, fmt.Errorf("payload: %w", err)
		case err == nil && d.Generation == j.Generation:
			j.Payload, j.Options = d.Payload, d.Options
			return j, true, nil
		case err != nil && !errors.Is(err, job.ErrNotFound) && !errors.Is(err, job.ErrWrongState):
			l.Log.Error("a dead letter cannot be read whole", "job_id", j.ID, "err", err) // the rest of the job is shown
		}
	default:
		return j, true, nil
	}
	j.Payload, j.Options = nil, job.Options{Queue: j.Queue}
	return j, false, nil
}

func (l *Ledger) live(ctx context.Context, id job.ID) (job.Job, error) {
	return within(ctx, livePatience, func(ctx context.Context) (job.Job, error) { return l.Live.Find(ctx, id) })
}

func (l *Ledger) archived(ctx context.Context, id job.ID) (job.Job, error) {
	return within(ctx, archivePatience, func(ctx context.Context) (job.Job, error) { return l.Archive.Find(ctx, id) })
}

func (l *Ledger) letter(ctx context.Context, id job.ID) (job.DeadLetter, error) {
	return within(ctx, actPatience,
		func(ctx context.Context) (job.DeadLetter, error) { return l.Promises.DeadLetter(ctx, id) })
}

// later returns SQL's generation of the job if it is later than j: a Redis that went back in time may still show
// an old FAILED. If SQL does not answer, j stands.
func (l *Ledger) later(ctx context.Context, j job.Job) job.Job {
	if archived, err := l.archived(ctx, j.ID); err == nil && archived.Generation > j.Generation {
		return archived
	}
	return j
}

// promised returns the promised next generation of a job whose generation j is FAILED, or CANCELLED in a flow. A client
// whose requeue was answered with 202 must not see FAILED again, even if Redis lost the next generation or does not
// have it yet. An error says that SQL did not answer.
func (l *Ledger) promised(ctx context.Context, j job.Job) (job.Job, error) {
	switch j.Status {
	case job.Failed:
	case job.Cancelled:
		return l.revived(ctx, j)
	default:
		return j, nil
	}
	next, err := l.row(ctx, j.ID)
	switch {
	case errors.Is(err, job.ErrNotFound): // the next generation may have ended since j was read, and then has no row
		return l.later(ctx, j), nil
	case err != nil || next.Generation <= j.Generation:
		return j, err
	}
	return next, nil
}

// row returns a living job from its row in SQL, and job.ErrNotFound if there is none.
func (l *Ledger) row(ctx context.Context, id job.ID) (job.Job, error) {
	return within(ctx, archivePatience, func(ctx context.Context) (job.Job, error) { return l.Rows.Journaled(ctx, id) })
}

// final returns SQL's answer about a job that Redis cannot have changed, while Redis is down: a job whose status is
// final, a dead letter without a requeue request, or a job that waits in its flow. For any other job only Redis knows
// the state, so final returns down.
func (l *Ledger) final(ctx context.Context, id job.ID, down error) (job.Job, error) {
	j, err := l.archived(ctx, id)
	if errors.Is(err, job.ErrNotFound) {
		j, err = l.inFlow(ctx, id)
		if err == nil && j.Status == job.Waiting { // Redis does not have it
			return j, nil
		}
		return job.Job{}, down
	}
	if err != nil {
		return job.Job{}, down
	}
	if j.Status == job.Cancelled {
		next, err := l.revived(ctx, j)
		if err != nil || next.Generation > j.Generation && next.Status != job.Waiting {
			return job.Job{}, down
		}
		return next, nil
	}
	if j.Status == job.Failed {
		d, err := l.letter(ctx, id)
		if err != nil || d.Generation != j.Generation || !d.Open() {
			return job.Job{}, down
		}
	}
	return j, nil
}

// Attempts returns the unsuccessful attempts of a job, over all generations, the oldest first. It returns all of
// them or an error, because a store that is down may have some. A job that does not exist has none.
func (l *Ledger) Attempts(ctx context.Context, id job.ID) ([]job.Attempt, error) {
	// Redis is read first: what it deletes at the acknowledge is in SQL by then.
	recent, liveErr := within(ctx, livePatience,
		func(ctx context.Context) ([]job.Attempt, error) { return l.Live.Attempts(ctx, id) })
	if errors.Is(liveErr, job.ErrNotFound) {
		liveErr = nil
	}
	kept, sqlErr := within(ctx, actPatience,
		func(ctx context.Context) ([]job.Attempt, error) { return l.Archive.Attempts(ctx, id) })
	switch {
	case liveErr == nil && sqlErr == nil:
		return union(kept, recent), nil
	case sqlErr == nil && job.Outage(liveErr):
		// The attempts of an ended job are in SQL with its outcome.
		if _, err := l.final(ctx, id, liveErr); err != nil {
			return nil, fmt.Errorf("attempts: %w", err)
		}
		return union(kept, nil), nil
	case liveErr == nil && job.Outage(sqlErr):
		// A job in its first generation that is not yet in SQL has all its attempts in Redis.
		if j, err := l.live(ctx, id); err == nil && j.Generation == 1 && (!j.Status.Ended() || j.Status == job.NeedDiscard) {
			return union(recent, nil), nil
		}
	}
	return nil, fmt.Errorf("attempts: %w", errors.Join(liveErr, sqlErr))
}

// union merges both lists by attempt number, without duplicates.
func union(a, b []job.Attempt) []job.Attempt {
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, func(x, y job.Attempt) int { return cmp.Compare(x.Number, y.Number) })
	return slices.CompactFunc(all, func(x, y job.Attempt) bool { return x.Number == y.Number })
}
