package ledger

import (
	"context"
	"fmt"

	"github.com/tierq/tierq/internal/job"
)

// Cancel ends a waiting job (job.WasCancelled) or asks a running one to end (job.Cancel): from then on it can only end CANCELLED. Asked
// again it answers the same, also when the job has ended so. A job that ended otherwise is job.ErrWrongState. After job.ErrAmbiguous it may
// have been cancelled.
func (l *Ledger) Cancel(ctx context.Context, id job.ID) (job.Word, error) {
	if !l.ours(id) {
		return "", fmt.Errorf("cancel %s: %w", id, job.ErrNotFound)
	}
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
		return l.cancelled(ctx, id)
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

// ours says whether the id is of a partition that this cluster has.
func (l *Ledger) ours(id job.ID) bool {
	p := id.Partition()
	return p >= 0 && p < l.Partitions
}
