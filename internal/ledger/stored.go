package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Outbox is how ended jobs get to SQL in this process. The channel of Written is closed when SQL has the next
// batch of outcomes. Wake makes the drainer write what is in Redis' outbox now.
type Outbox interface {
	Written() <-chan struct{}
	Wake()
}

// stored returns an ended job as SQL has it. It waits until SQL has it or ctx ends, and then returns the job as it
// was before its end. An error says that SQL could not be asked.
func (l *Ledger) stored(ctx context.Context, j job.Job) (job.Job, error) {
	for missing := false; ; missing = true {
		written := l.Outbox.Written() // before Find: a write after Find closes it
		found, err := l.Archive.Find(ctx, j.ID)
		switch {
		case err == nil && found.Generation >= j.Generation:
			return found, nil
		case err == nil || errors.Is(err, job.ErrNotFound):
		case missing && ctx.Err() != nil:
			return unended(j), nil //nolint:nilerr // the time for it is over, and what it was before its end is known
		default:
			return job.Job{}, err
		}
		if j.Status != job.Completed { // the worker pool writes completed jobs itself
			l.Outbox.Wake()
		}
		select {
		case <-written:
		case <-ctx.Done():
			return unended(j), nil
		}
	}
}

// unended returns a job as it was before it ended.
func unended(j job.Job) job.Job {
	j.CancelRequested = j.CancelRequested || j.Status == job.Cancelled
	j.Status = job.Processing
	if j.Attempt == 0 { // it ended before the first claim
		j.Status = job.Pending
	}
	j.EndedAt, j.Result, j.Note = time.Time{}, nil, ""
	return j
}

// onlyStored removes from a page of Redis' list the ended jobs that SQL has, because SQL's part of the list shows
// them. An ended job that SQL does not have within a moment is shown as it was before its end, if the filter takes
// that.
func (l *Ledger) onlyStored(ctx context.Context, f job.Filter, items []job.Job) []job.Job {
	ctx, cancel := context.WithTimeout(ctx, archivePatience)
	defer cancel()
	kept := items[:0]
	for _, j := range items {
		if j.Status.Ended() {
			found, err := l.stored(ctx, j)
			if err == nil && found.Status.Ended() {
				continue
			}
			if j = unended(j); !f.Takes(&j) {
				continue
			}
		}
		kept = append(kept, j)
	}
	return kept
}
