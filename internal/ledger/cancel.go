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

// Cancel ends a waiting job (job.WasCancelled) or asks a running one to end (job.Cancel): from then on it can only end
// CANCELLED. Asked again it answers the same, also when the job has ended so. A job that ended otherwise is
// job.ErrWrongState. After job.ErrAmbiguous it may have been cancelled, or will be.
func (l *Ledger) Cancel(ctx context.Context, id job.ID) (job.Word, error) {
	if !l.ours(id) {
		return "", fmt.Errorf("cancel %s: %w", id, job.ErrNotFound)
	}
	word, err := l.cancel(ctx, id)
	if err != nil || word != job.Empty {
		return word, err
	}
	word, err = l.cancelled(ctx, id)
	if errors.Is(err, job.ErrNotFound) || errors.Is(err, errBetween) {
		return l.cancelLost(ctx, id, err)
	}
	return word, err
}

// CancelBecause is Cancel with a reason, which is kept in SQL before Redis is asked: a cancel that was answered has
// its reason there. Where SQL does not answer nothing is cancelled: job.ErrNotKept. A crash in between leaves the
// reason of a cancel that was not carried out, which Reasons passes over until the generation is cancelled: a later
// reason takes its place, but a cancel without one does not ask SQL, and shows the reason that was left. A job that was
// cancelled before keeps the reason it has.
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
		if err != nil { // nothing was cancelled, whether or not the reason is there now
			return "", fmt.Errorf("cancel %s: %w: %w", id, job.ErrNotKept, unread(err))
		}
		failpoint.Hit("reason.after", id)
	}
	return l.Cancel(ctx, id)
}

// Reasons are why a job that Find found was requeued and cancelled, over all its generations, the oldest first; a
// cancel that was asked for and not carried out is none. A job in its first generation whom nobody cancelled or
// requeued has none, whether or not SQL answers.
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

// cancel asks Redis: job.Empty is for a job that it does not know.
func (l *Ledger) cancel(ctx context.Context, id job.ID) (job.Word, error) {
	run := l.Mover.KnownIncarnation(
		id.Partition(),
	) // before the script: a Redis that forgets what it did has another one
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
		if err := l.remember(ctx, id, run); err != nil {
			return "", fmt.Errorf("cancel %s: %w", id, err)
		}
		return words[0], nil
	case job.Ended:
		state := &job.StateError{Reason: "it has ended"}
		if j, err := l.Find(ctx, id); err == nil {
			if !j.Status.Ended() {
				return "", fmt.Errorf("cancel %s: %w", id, errBetween)
			}
			state.Status = j.Status.Shown()
		}
		return "", fmt.Errorf("cancel %s: %w", id, state)
	case job.Empty:
		return job.Empty, nil
	}
	return "", fmt.Errorf("cancel %s: unexpected word %q", id, words[0])
}

// remember notes in the job's row, if it has one, that somebody is told of a cancel: a Redis that forgets it is told
// again. Redis decided already. If SQL does not answer, the cancel stands as long as Redis does; with an accept journal
// that is less than was promised, and job.ErrAmbiguous.
func (l *Ledger) remember(ctx context.Context, id job.ID, run string) error {
	_, err := within(ctx, archivePatience, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.Rows.Cancelling(ctx, id, run)
	})
	if err != nil {
		l.Log.Warn("a cancel is not noted in SQL", "job_id", id, "err", err)
	}
	if err != nil && l.Journal != nil {
		return fmt.Errorf("%w: %s", job.ErrAmbiguous, err.Error())
	}
	return nil
}

// errBetween is the answer about a job whose end, or whose promised next life, is on its way to the other store.
var errBetween = fmt.Errorf("%w: it is between two states, ask again", job.ErrUnavailable)

// cancelled answers for a job that Redis has forgotten.
func (l *Ledger) cancelled(ctx context.Context, id job.ID) (job.Word, error) {
	j, err := l.archived(ctx, id)
	switch {
	case err != nil:
		return "", fmt.Errorf("cancel %s: %w", id, err)
	case j.Status == job.Cancelled:
		return job.WasCancelled, nil
	}
	next, err := l.promised(ctx, j)
	switch {
	case err != nil:
		return "", fmt.Errorf("cancel %s: %w", id, err)
	case next.Generation > j.Generation:
		return "", fmt.Errorf("cancel %s: %w", id, errBetween)
	}
	return "", fmt.Errorf("cancel %s: %w", id, &job.StateError{Status: j.Status, Reason: "it has ended"})
}

// cancelLost notes the cancel of a job that Redis does not have and is given. Redis decides: if it has not got the job
// by now, nobody can say more.
func (l *Ledger) cancelLost(ctx context.Context, id job.ID, unknown error) (job.Word, error) {
	_, err := l.row(ctx, id)
	if errors.Is(err, job.ErrNotFound) {
		return "", unknown
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

// ours says whether the id is of a partition that this cluster has.
func (l *Ledger) ours(id job.ID) bool {
	p := id.Partition()
	return p >= 0 && p < l.Partitions
}
