package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierq/tierq/internal/job"
)

// Cancel ends a waiting job (job.WasCancelled) or asks a running one to end (job.Cancel): from then on it can only end CANCELLED. Asked
// again it answers the same, also when the job has ended so. A job that ended otherwise is job.ErrWrongState. After job.ErrAmbiguous it may
// have been cancelled, or will be.
func (l *Ledger) Cancel(ctx context.Context, id job.ID) (job.Word, error) {
	if !l.ours(id) {
		return "", fmt.Errorf("cancel %s: %w", id, job.ErrNotFound)
	}
	word, err := l.cancel(ctx, id)
	if err != nil || word != job.Empty {
		return word, err
	}
	word, err = l.cancelled(ctx, id)
	if !errors.Is(err, job.ErrNotFound) || l.Journal == nil {
		return word, err
	}
	return l.cancelLost(ctx, id, err)
}

// cancel asks Redis: job.Empty is for a job that it does not know.
func (l *Ledger) cancel(ctx context.Context, id job.ID) (job.Word, error) {
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
		l.remember(ctx, id)
		return words[0], nil
	case job.Ended:
		state := &job.StateError{Reason: "it has ended"}
		if j, err := l.Find(ctx, id); err == nil {
			state.Status = j.Status.Shown()
		}
		return "", fmt.Errorf("cancel %s: %w", id, state)
	case job.Empty:
		return job.Empty, nil
	}
	return "", fmt.Errorf("cancel %s: unexpected word %q", id, words[0])
}

// cancelled answers for a job that Redis has forgotten.
func (l *Ledger) cancelled(ctx context.Context, id job.ID) (job.Word, error) {
	j, err := l.archived(ctx, id)
	switch {
	case err != nil:
		return "", fmt.Errorf("cancel %s: %w", id, err)
	case j.Status == job.Cancelled:
		return job.WasCancelled, nil
	}
	return "", fmt.Errorf("cancel %s: %w", id, &job.StateError{Status: j.Status, Reason: "it has ended"})
}

// cancelLost notes the cancel of a job that Redis lost and is given back. Redis decides: if it has not got the job by now, nobody can say more.
func (l *Ledger) cancelLost(ctx context.Context, id job.ID, unknown error) (job.Word, error) {
	_, err := within(ctx, archivePatience, func(ctx context.Context) (job.Job, error) { return l.Journal.Journaled(ctx, id) })
	if errors.Is(err, job.ErrNotFound) {
		return "", unknown
	}
	if err == nil {
		_, err = twice(ctx, archivePatience, func(ctx context.Context) (struct{}, error) { return struct{}{}, l.Journal.Cancelling(ctx, id) })
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
