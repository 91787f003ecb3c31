package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierq/tierq/internal/job"
)

// Kill makes a dead letter of a job that is SCHEDULED or PENDING: FAILED, with the cause job.Killed and the reason as
// its error. nil means that the job was killed, by this call or an earlier one, and never runs again in this
// generation. A running job, and one that ended otherwise, is job.ErrWrongState. After job.ErrAmbiguous the job may
// have been killed: the call may be repeated.
func (l *Ledger) Kill(ctx context.Context, id job.ID, reason string) error {
	j, err := l.waiting(ctx, id)
	if err == nil && j.Status == job.Failed { // it was killed
		j, err = l.promised(ctx, j) // and may have been requeued since
		err = unread(err)
	}
	if err == nil && j.Status != job.Failed {
		err = l.kill(ctx, &j, reason)
	}
	if err != nil {
		return fmt.Errorf("kill %s: %w", id, err)
	}
	return nil
}

// kill asks Redis to kill the generation that was found, and stores what Redis answered. It names the generation: a
// late copy of the call leaves a requeued job alone.
func (l *Ledger) kill(ctx context.Context, j *job.Job, reason string) error {
	killed := job.Killing{ID: j.ID, Generation: j.Generation, Reason: job.KillReason(reason)}
	run := l.Mover.KnownIncarnation(j.ID.Partition())
	word, err := l.moveWaiting(ctx, j, func(ctx context.Context) ([]job.Word, error) {
		return l.Mover.Kill(ctx, j.ID.Partition(), []job.Killing{killed})
	})
	if err != nil {
		return err
	}
	if word != job.Discarded {
		return fmt.Errorf("unexpected word %q", word)
	}
	return l.remember(ctx, j.ID, func(ctx context.Context) error { return l.Rows.Killing(ctx, killed, run) })
}

// Hasten makes a SCHEDULED job PENDING now, whether it was delayed or is backing off: it goes to the place that its
// arrival gives it. nil means that the job is PENDING, or was already. A running job, and one that has ended, is
// job.ErrWrongState. After job.ErrAmbiguous the job may have been hastened: the call may be repeated.
func (l *Ledger) Hasten(ctx context.Context, id job.ID) error {
	j, err := l.waiting(ctx, id)
	if err == nil {
		err = l.hasten(ctx, &j)
	}
	if err != nil {
		return fmt.Errorf("hasten %s: %w", id, err)
	}
	return nil
}

func (l *Ledger) hasten(ctx context.Context, j *job.Job) error {
	if j.Status.Ended() {
		return &job.StateError{Status: j.Status.Shown(), Reason: "it has ended"}
	}
	run := l.Mover.KnownIncarnation(j.ID.Partition())
	word, err := l.moveWaiting(ctx, j, func(ctx context.Context) ([]job.Word, error) {
		return l.Mover.Hasten(ctx, j.ID.Partition(), []job.ID{j.ID})
	})
	if err != nil {
		return err
	}
	if word != job.OK {
		return fmt.Errorf("unexpected word %q", word)
	}
	return l.remember(ctx, j.ID, func(ctx context.Context) error { return l.Rows.Hastening(ctx, j.ID, j.ArrivedAt, run) })
}

// waiting finds a job that may be killed or hastened: one that waits, that was killed, or whose end is not in SQL yet.
// About that end only the script can say whether it was a kill; with Options.Outbox such a job may be shown as running.
func (l *Ledger) waiting(ctx context.Context, id job.ID) (job.Job, error) {
	if !l.ours(id) {
		return job.Job{}, job.ErrNotFound
	}
	j, err := l.Find(ctx, id)
	switch {
	case err != nil:
		return j, unread(err)
	case j.Status == job.Processing && l.Outbox == nil:
		return j, errRunning
	case j.Status == job.Waiting:
		return j, &job.StateError{Status: j.Status, Reason: "it waits for other jobs of its flow: it can only be cancelled"}
	case j.Status.Final(), j.Status == job.Failed && j.Cause != job.Killed:
		return j, &job.StateError{Status: j.Status, Reason: "it has ended"}
	}
	return j, nil
}

var errRunning = &job.StateError{Status: job.Processing, Reason: "it runs, and only a job that waits can be killed or " +
	"hastened"}

// moveWaiting runs a script on a waiting job. A job that only SQL has is given to Redis first: then the script finds it
// at its old place. If Redis does not get it, the error is errBetween, and nothing was changed.
func (l *Ledger) moveWaiting(
	ctx context.Context, j *job.Job, script func(ctx context.Context) ([]job.Word, error),
) (job.Word, error) {
	for _, again := range []bool{false, true} {
		words, err := twice(ctx, livePatience, script)
		switch {
		case err != nil:
			return "", err
		case len(words) != 1:
			return "", errWords
		case words[0] == job.Busy:
			return "", errRunning
		case words[0] == job.Ended:
			return "", l.hasEnded(ctx, j.ID)
		case words[0] != job.Empty:
			return words[0], nil
		case again:
			continue
		}
		if _, err := l.Give(ctx, []job.ID{j.ID}); err != nil {
			return "", unread(err)
		}
	}
	return "", errBetween
}

// Dismiss takes a dead letter off the list of dead letters without a new generation: the job stays FAILED, with its
// history. nil means that the letter is dismissed, by this call or an earlier one, whose reason stays. A later requeue
// brings the job back as it does from the list. Only SQL is asked, unless there is no such letter.
//
// The error is job.ErrWrongState for a job that is not FAILED, whose failure is not in SQL yet, or that somebody asked
// to requeue. After job.ErrAmbiguous the letter may have been dismissed: the call may be repeated.
func (l *Ledger) Dismiss(ctx context.Context, id job.ID, reason string) error {
	if !l.ours(id) {
		return fmt.Errorf("dismiss %s: %w", id, job.ErrNotFound)
	}
	done, err := twice(ctx, actPatience, func(ctx context.Context) (bool, error) {
		return l.Promises.Dismiss(ctx, id, reason)
	})
	if err == nil && !done {
		err = l.notDismissed(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("dismiss %s: %w", id, err)
	}
	return nil
}

// notDismissed returns why a job has no letter to dismiss; nil = it was dismissed before.
func (l *Ledger) notDismissed(ctx context.Context, id job.ID) error {
	live, liveErr := l.live(ctx, id)
	d, sqlErr := l.letter(ctx, id)
	switch {
	case sqlErr == nil && d.Open() && !d.DismissedAt.IsZero():
		return nil
	case job.Outage(sqlErr):
		return unread(sqlErr)
	case liveErr == nil && live.Status == job.NeedDiscard:
		return errUnstored
	case liveErr == nil && live.Status != job.Failed:
		return &job.StateError{Status: live.Status, Reason: noLetter}
	case errors.Is(sqlErr, job.ErrWrongState):
		return &job.StateError{Reason: "the job did not end FAILED: " + noLetter}
	case sqlErr == nil && !d.Open():
		return errTaken
	case sqlErr == nil: // the letter was written after the first look
		return errUnstored
	case liveErr == nil:
		return errGone
	case !errors.Is(sqlErr, job.ErrNotFound) || !errors.Is(liveErr, job.ErrNotFound):
		return unread(errors.Join(sqlErr, liveErr))
	}
	j, err := l.row(ctx, id)
	if err == nil {
		return &job.StateError{Status: j.Status.Shown(), Reason: noLetter}
	}
	return unread(err)
}

const noLetter = "only a FAILED job has a dead letter"
