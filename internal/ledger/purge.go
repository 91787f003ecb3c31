package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tierq/tierq/internal/job"
)

const (
	purgeMost   = 2000 // the largest number of jobs that one Purge cancels
	purgeAtOnce = 32   // how many of them it cancels at the same time
)

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
	cancelled, _, err = l.cancelAll(ctx, ids)
	if err != nil {
		return cancelled, true, fmt.Errorf("purge %s: %w", queue, err)
	}
	return cancelled, len(ids) == purgeMost, nil
}

// cancelAll cancels jobs, some at the same time. asked counts the running jobs, which are asked to stop. It leaves out
// jobs that ended meanwhile. After an error both counts are right, and the other jobs were left alone.
func (l *Ledger) cancelAll(ctx context.Context, ids []job.ID) (cancelled, asked int, err error) {
	var (
		group sync.WaitGroup
		mu    sync.Mutex // of what follows
		left  = ids
	)
	next := func() (id job.ID, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if len(left) == 0 || err != nil {
			return "", false
		}
		id, left = left[0], left[1:]
		return id, true
	}
	for range min(purgeAtOnce, len(ids)) {
		group.Go(func() {
			for id, ok := next(); ok; id, ok = next() {
				word, failed := l.Cancel(ctx, id)
				mu.Lock()
				switch {
				case word == job.WasCancelled:
					cancelled++
				case failed == nil:
					asked++
				case errors.Is(failed, job.ErrNotFound), errors.Is(failed, job.ErrWrongState): // it ended meanwhile
				case err == nil:
					err = failed
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return cancelled, asked, err
}
