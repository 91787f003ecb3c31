package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tierq/tierq/internal/job"
)

// Find returns the job as users may see it, or job.ErrNotFound. While Redis is down it answers for jobs that have ended
// for good, if SQL has their outcome; any other may have moved, which is the store's error. With Options.Outbox it
// waits for an end's row in SQL, a second at most, and shows a job without one as it was before its end.
func (l *Ledger) Find(ctx context.Context, id job.ID) (job.Job, error) {
	j, err := l.live(ctx, id)
	switch {
	case errors.Is(err, job.ErrNotFound):
		j, err := l.archived(ctx, id)
		if errors.Is(err, job.ErrNotFound) { // Redis lost it, or gets it soon
			return l.row(ctx, id)
		}
		if err == nil {
			j, err = l.promised(ctx, j) // SQL alone knows the job: half of what it knows is no answer
		}
		return j, err
	case job.Outage(err):
		return l.final(ctx, id, err)
	case err != nil:
		return j, err
	case l.Outbox != nil && j.Status.Ended():
		j, err := within(ctx, archivePatience, func(ctx context.Context) (job.Job, error) { return l.stored(ctx, j) })
		if err == nil {
			j, err = l.promised(ctx, j) // SQL alone knows the job: half of what it knows is no answer
		}
		return j, err
	case j.Status == job.Completed && j.Result == nil:
		return l.archived(ctx, id)
	case j.Status == job.Failed:
		if next, err := l.promised(ctx, j); err == nil {
			return next, nil
		}
		j = l.later(ctx, j)
	case j.Status == job.Completed || j.Status == job.Cancelled:
		j.Cause, j.LastError = "", "" // of an earlier attempt; the history has them. SQL's answer has none either
	}
	return j, nil
}

// Whole adds to a job that Find found what only its detail shows: the payload and the options of a dead letter, which
// Redis lets go once SQL has them. kept is false for a job that keeps neither any more: one that is COMPLETED or
// CANCELLED, also while Redis still has them, and one whose dead letter is gone, or has moved on meanwhile.
func (l *Ledger) Whole(ctx context.Context, j job.Job) (whole job.Job, kept bool, err error) {
	switch j.Status {
	case job.Completed, job.Cancelled:
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
	j.Payload, j.Options = nil, job.Options{}
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

// later is the job's later generation if SQL has one: a Redis that went back in time may still show an old FAILED.
// Without SQL, what Redis says stands.
func (l *Ledger) later(ctx context.Context, j job.Job) job.Job {
	if archived, err := l.archived(ctx, j.ID); err == nil && archived.Generation > j.Generation {
		return archived
	}
	return j
}

// promised is the next life that was promised to a job, where the stores still show the FAILED one. A client that was
// answered 202 for the requeue is not told FAILED again, also when Redis has lost the new life or does not have it yet.
// An error says that SQL does not tell.
func (l *Ledger) promised(ctx context.Context, j job.Job) (job.Job, error) {
	if j.Status != job.Failed {
		return j, nil
	}
	next, err := l.row(ctx, j.ID)
	switch {
	case errors.Is(err, job.ErrNotFound): // that life may have ended since j was read: then it has no row any more
		return l.later(ctx, j), nil
	case err != nil || next.Generation <= j.Generation:
		return j, err
	}
	return next, nil
}

// row is a living job as its row in SQL has it, job.ErrNotFound without one.
func (l *Ledger) row(ctx context.Context, id job.ID) (job.Job, error) {
	return within(ctx, archivePatience, func(ctx context.Context) (job.Job, error) { return l.Rows.Journaled(ctx, id) })
}

// final is what SQL has of a job that nothing can move any more, although Redis does not answer: a completed or
// cancelled one, or a dead letter that nobody asked to requeue. Of any other only Redis knows, so its error stands.
func (l *Ledger) final(ctx context.Context, id job.ID, down error) (job.Job, error) {
	j, err := l.archived(ctx, id)
	if err != nil {
		return job.Job{}, down
	}
	if j.Status == job.Failed {
		d, err := l.letter(ctx, id)
		if err != nil || d.Generation != j.Generation || !d.Open() {
			return job.Job{}, down
		}
	}
	return j, nil
}

// Attempts are the job's attempts that did not end well, over all generations, the oldest first. It is all of them or
// an error: what a store that is down may have is not passed over in silence. A job that does not exist has none.
func (l *Ledger) Attempts(ctx context.Context, id job.ID) ([]job.Attempt, error) {
	// Redis first: what it drops at an acknowledge is in SQL by then.
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
		// An ended job's attempts are in SQL with its outcome.
		if _, err := l.final(ctx, id, liveErr); err != nil {
			return nil, fmt.Errorf("attempts: %w", err)
		}
		return union(kept, nil), nil
	case liveErr == nil && job.Outage(sqlErr):
		// In its first generation, and not yet in SQL, a job has all its attempts in Redis.
		if j, err := l.live(ctx, id); err == nil && j.Generation == 1 && (!j.Status.Ended() || j.Status == job.NeedDiscard) {
			return union(recent, nil), nil
		}
	}
	return nil, fmt.Errorf("attempts: %w", errors.Join(liveErr, sqlErr))
}

// union is both lists by attempt number; one that is in both is taken once.
func union(a, b []job.Attempt) []job.Attempt {
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, func(x, y job.Attempt) int { return cmp.Compare(x.Number, y.Number) })
	return slices.CompactFunc(all, func(x, y job.Attempt) bool { return x.Number == y.Number })
}
