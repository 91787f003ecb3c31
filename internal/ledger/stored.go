package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Outbox is the way of ended jobs to SQL in this process. The channel of Written is closed when SQL has the next batch
// of outcomes. Wake has what waits in Redis' outbox written now.
type Outbox interface {
	Written() <-chan struct{}
	Wake()
}

// stored shows an ended job as SQL has it, and waits until it has, or ctx ends. Until then the job is shown as it was
// before its end. An error says that SQL could not be asked.
func (l *Ledger) stored(ctx context.Context, j job.Job) (job.Job, error) {
	for missing := false; ; missing = true {
		written := l.Outbox.Written() // before the look: what is written after the look closes it
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
		if j.Status != job.Completed { // the pool has those written by itself
			l.Outbox.Wake()
		}
		select {
		case <-written:
		case <-ctx.Done():
			return unended(j), nil
		}
	}
}

// unended is a job as it was before it ended.
func unended(j job.Job) job.Job {
	j.CancelRequested = j.CancelRequested || j.Status == job.Cancelled
	j.Status = job.Processing
	if j.Attempt == 0 { // cancelled before its first claim
		j.Status = job.Pending
	}
	j.EndedAt, j.Result, j.Note = time.Time{}, nil, ""
	return j
}

// onlyStored leaves out of a page of Redis' list what SQL has by now, for SQL's part of the list shows it. A job that
// ended and is not in SQL within a moment is shown as it was before, if the filter takes that.
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
