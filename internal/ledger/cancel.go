package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tierq/tierq/internal/failpoint"
	"github.com/tierq/tierq/internal/job"
)

// Cancel ends a waiting job (job.WasCancelled) or asks a running job to end (job.Cancel); from then on the job can
// only end CANCELLED. A repeat gets the same answer, also when the job has ended CANCELLED. A job that ended
// otherwise is job.ErrWrongState. After job.ErrAmbiguous the job may have been cancelled, or will be.
func (l *Ledger) Cancel(ctx context.Context, id job.ID) (job.Word, error) {
	if !l.ours(id) {
		return "", fmt.Errorf("cancel %s: %w", id, job.ErrNotFound)
	}
	word, err := l.cancel(ctx, id)
	if err != nil || word != job.Empty {
		return word, err
	}
	if done, err := l.cancelWaiting(ctx, id); err != nil || done {
		return job.WasCancelled, err
	}
	word, err = l.cancelled(ctx, id)
	if errors.Is(err, job.ErrNotFound) || errors.Is(err, errBetween) {
		return l.cancelLost(ctx, id)
	}
	return word, err
}

// CancelBecause is Cancel with a reason, which is stored in SQL before Redis is asked: a cancel that was answered
// has its reason in SQL. If SQL does not answer, nothing is cancelled and the error is job.ErrNotKept.
//
// A crash in between leaves the reason of a cancel that was not carried out. Reasons leaves it out until the
// generation is cancelled. A later reason replaces it; a later cancel without a reason does not ask SQL, and then
// shows the reason that was left. A job that is already cancelled keeps the reason it has.
func (l *Ledger) CancelBecause(ctx context.Context, id job.ID, reason string) (job.Word, error) {
	if reason == "" || !l.ours(id) {
		return l.Cancel(ctx, id)
	}
	j, err := l.Find(ctx, id)
	if err != nil {
		return "", fmt.Errorf("cancel %s: %w", id, unread(err))
	}
	if j.Status == job.Cancelled || !j.Status.Ended() {
		over := j.Status != job.Cancelled && !j.CancelRequested
		_, err := within(ctx, actPatience, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, l.Options.Reasons.KeepCancelReason(ctx, id, j.Generation, reason, over)
		})
		if err != nil { // nothing was cancelled, whether or not SQL has the reason now
			return "", fmt.Errorf("cancel %s: %w: %w", id, job.ErrNotKept, unread(err))
		}
		failpoint.Hit("reason.after", id)
	}
	return l.Cancel(ctx, id)
}

// Reasons returns why a job that Find found was requeued and cancelled, over all its generations, the oldest
// first. It leaves out a cancel that was asked for and not carried out. A job in its first generation without a
// cancel or failure has no reasons, whether or not SQL answers.
func (l *Ledger) Reasons(ctx context.Context, j *job.Job) ([]job.Reason, error) {
	status := j.Status.Shown()
	if j.Generation <= 1 && !j.CancelRequested && status != job.Cancelled && status != job.Failed {
		return nil, nil
	}
	noted, err := within(
		ctx,
		archivePatience,
		func(ctx context.Context) ([]job.Reason, error) { return l.Options.Reasons.Reasons(ctx, j.ID) },
	)
	if err != nil {
		return nil, fmt.Errorf("reasons: %w", err)
	}
	reasons := slices.DeleteFunc(noted, func(r job.Reason) bool {
		present := r.Generation == j.Generation && (j.CancelRequested || j.Status == job.Cancelled)
		return r.Action == job.CancelAction && r.Outcome != job.Cancelled && !(r.Outcome == "" && present)
	})
	slices.SortStableFunc(reasons, func(x, y job.Reason) int { return cmp.Compare(x.Generation, y.Generation) })
	return reasons, nil
}

// cancel asks Redis. It returns job.Empty for a job that Redis does not know.
func (l *Ledger) cancel(ctx context.Context, id job.ID) (job.Word, error) {
	run := l.Mover.KnownIncarnation(
		id.Partition(),
	) // read before the script: a Redis that loses the script's effect has another incarnation
	words, err := twice(ctx, livePatience, func(ctx context.Context) ([]job.Word, error) {
		return l.Mover.Cancel(ctx, id.Partition(), []job.Cancellation{{ID: id}})
	})
	if err != nil {
		return "", fmt.Errorf("cancel %s: %w", id, err)
	}
	if len(words) != 1 {
		return "", fmt.Errorf("cancel %s: %w", id, errWords)
	}
	switch words[0] {
	case job.WasCancelled, job.Cancel:
		err := l.remember(ctx, id, func(ctx context.Context) error { return l.Rows.Cancelling(ctx, id, run) })
		if err != nil {
			return "", fmt.Errorf("cancel %s: %w", id, err)
		}
		return words[0], nil
	case job.Ended:
		return "", fmt.Errorf("cancel %s: %w", id, l.hasEnded(ctx, id))
	case job.Empty:
		return job.Empty, nil
	}
	return "", fmt.Errorf("cancel %s: unexpected word %q", id, words[0])
}

// hasEnded returns the error about a job that ended before an operator acted on it.
func (l *Ledger) hasEnded(ctx context.Context, id job.ID) error {
	state := &job.StateError{Reason: "it has ended"}
	if j, err := l.Find(ctx, id); err == nil {
		if !j.Status.Ended() {
			return errBetween
		}
		state.Status = j.Status.Shown()
	}
	return state
}

// remember stores in the job's row, if it has one, what a caller is told of a cancel, a kill or a hasten, so that a
// Redis that loses it gets it again. If SQL does not answer, it is valid as long as this incarnation of Redis. With an
// accept journal that is less than was promised, so the error is job.ErrAmbiguous.
func (l *Ledger) remember(ctx context.Context, id job.ID, note func(ctx context.Context) error) error {
	_, err := within(ctx, archivePatience, func(ctx context.Context) (any, error) { return nil, note(ctx) })
	if err != nil {
		l.Log.Warn("what an operator asked for is not noted in SQL", "job_id", id, "err", err)
	}
	if err != nil && l.Journaled {
		return fmt.Errorf("%w: %s", job.ErrAmbiguous, err.Error())
	}
	return nil
}

// errBetween is the error about a job whose end, or whose promised requeue, is on its way to the other store.
var errBetween = fmt.Errorf("%w: it is between two states, ask again", job.ErrUnavailable)

// cancelled answers a cancel for a job that Redis no longer knows.
func (l *Ledger) cancelled(ctx context.Context, id job.ID) (job.Word, error) {
	j, err := l.archived(ctx, id)
	if err != nil {
		return "", fmt.Errorf("cancel %s: %w", id, err)
	}
	next, err := l.promised(ctx, j)
	switch {
	case err != nil:
		return "", fmt.Errorf("cancel %s: %w", id, err)
	case next.Generation > j.Generation:
		return "", fmt.Errorf("cancel %s: %w", id, errBetween)
	case j.Status == job.Cancelled:
		return job.WasCancelled, nil
	}
	return "", fmt.Errorf("cancel %s: %w", id, &job.StateError{Status: j.Status, Reason: "it has ended"})
}

// cancelLost stores the cancel of a job that Redis does not have and will get from its row. If Redis still does
// not have the job after that, the answer is job.ErrAmbiguous.
func (l *Ledger) cancelLost(ctx context.Context, id job.ID) (job.Word, error) {
	_, err := l.row(ctx, id)
	if errors.Is(err, job.ErrNotFound) {
		return l.cancelled(ctx, id) // it may have ended since it was looked for, and then has no row
	}
	if err == nil {
		_, err = twice(ctx, archivePatience, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, l.Rows.Cancelling(ctx, id, "")
		})
	}
	if err != nil {
		return "", fmt.Errorf("cancel %s: %w", id, err)
	}
	word, err := l.cancel(ctx, id)
	if err == nil && word == job.Empty {
		return "", fmt.Errorf("cancel %s: it ends when Redis has it again: %w", id, job.ErrAmbiguous)
	}
	return word, err
}

// ours says whether the id is of a partition of this cluster.
func (l *Ledger) ours(id job.ID) bool {
	p := id.Partition()
	return p >= 0 && p < l.Partitions
}
