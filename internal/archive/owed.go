package archive

import (
	"context"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	giveTimeout = 5 * time.Second // of one call of WriterOptions.Give
	oweTimeout  = 5 * time.Second // of the query and the row for one late callback job
)

// give hands to Redis the jobs that are owed for outcomes which this writer inserted.
func (w *Writer) give(ctx context.Context, owed []job.JournalRow, since time.Time) {
	if len(owed) == 0 || w.opts.Give == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, giveTimeout)
	defer cancel()
	w.opts.Give(ctx, owed, since)
}

// debts returns the jobs that are owed for the outcomes which this writer inserted, the jobs that these outcomes
// released, and a time before the insert.
// If SQL had an outcome before, its writer wrote the owed job's row too, unless that writer was of a version
// without such rows; then debts writes the row now. If SQL does not take that row, the outcome is missing in ours:
// it is not acknowledged, and the outbox delivers it again.
func (w *Writer) debts(ctx context.Context, batch []settled) (ours []settled, owed []job.JournalRow, since time.Time) {
	ours = batch[:0:0]
	for _, s := range batch {
		if len(s.released) > 0 {
			owed, since = append(owed, s.released...), s.since
		}
		if w.opts.Owes == nil {
			ours = append(ours, s)
			continue
		}
		if s.known {
			if err := w.oweLate(ctx, s); err != nil {
				w.log.Warn("an ending is not acknowledged yet: its callback has no row", "job_id", s.ID, "err", err)
				w.acknowledged([]settled{s}, err)
				continue
			}
		} else if l, ok := w.opts.Owes(&s.Outcome); ok {
			owed, since = append(owed, l), s.since
		}
		ours = append(ours, s)
	}
	return ours, owed, since
}

// oweLate writes the row of the job that is owed for an outcome which SQL had before, unless the owed job has
// ended. The callback reports the outcome that SQL holds, which may differ from s: a job that ran twice may have
// completed with another result. If a later generation has an outcome by now, that outcome is the one reported,
// with the row of its own writer.
func (w *Writer) oweLate(ctx context.Context, s settled) error {
	if s.CallbackURL == "" || s.held == job.Cancelled {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, oweTimeout)
	defer cancel()
	j, err := w.archive.Find(ctx, s.ID)
	if err != nil {
		return fmt.Errorf("owe: %w", err)
	}
	j.Options = s.Options
	l, ok := w.opts.Owes(&job.Outcome{Job: j})
	if j.Generation != s.Generation || !ok {
		return nil
	}
	l.Incarnation = ""
	if err := w.archive.owe(ctx, &l); err != nil {
		return fmt.Errorf("owe: %w", err)
	}
	return nil
}
