package archive

import (
	"context"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	giveTimeout = 5 * time.Second // of one call of WriterOptions.Give
	oweTimeout  = 5 * time.Second // of the rows of a batch's late debts
)

// give hands to Redis the jobs that are owed for outcomes of this writer.
func (w *Writer) give(ctx context.Context, owed []job.JournalRow, since time.Time) {
	if len(owed) == 0 || w.opts.Give == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, giveTimeout)
	defer cancel()
	w.opts.Give(ctx, owed, since)
}

// debts are the jobs that are owed for the outcomes of a batch which this writer inserted, and a time before that.
// Where SQL had an outcome before, the writer that inserted it wrote the row of the owed job too, unless that writer
// was of a version without such rows: then the owed job gets its row here. Where SQL takes no row the outcome is left
// out of ours: it is not acknowledged, and the outbox brings it again.
func (w *Writer) debts(ctx context.Context, batch []settled) (ours []settled, owed []job.JournalRow, since time.Time) {
	if w.opts.Owes == nil {
		return batch, nil, since
	}
	ours = batch[:0:0]
	for _, s := range batch {
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

// oweLate writes the row of the job that is owed for an outcome that SQL had before, unless that job has ended. What
// SQL holds is told: a job that ran twice may have ended alike with another result. If the job's next life has ended
// meanwhile, that one's ending is told in its place.
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
