package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierq/tierq/internal/job"
)

// purgeMost is the largest number of jobs that one Purge cancels.
const purgeMost = 2000

// Purge cancels the jobs of a queue that are ready, best first, at most some thousand; more says that there may be
// others. It leaves out scheduled jobs. A job that a worker claims meanwhile is asked to stop, and not counted. After
// an error, cancelled jobs are as many as it says.
func (l *Ledger) Purge(ctx context.Context, queue string) (cancelled int, more bool, err error) {
	ids, err := twice(ctx, livePatience, func(ctx context.Context) ([]job.ID, error) {
		return l.Ready.ReadyIn(ctx, queue, purgeMost)
	})
	if err != nil {
		return 0, false, fmt.Errorf("purge %s: %w", queue, err)
	}
	for _, id := range ids {
		word, err := l.Cancel(ctx, id)
		switch {
		case word == job.WasCancelled:
			cancelled++
		case errors.Is(err, job.ErrNotFound), errors.Is(err, job.ErrWrongState), err == nil: // it ran meanwhile
		default:
			return cancelled, true, fmt.Errorf("purge %s: %w", queue, err)
		}
	}
	return cancelled, len(ids) == purgeMost, nil
}
