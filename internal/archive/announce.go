package archive

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// announceTimeout bounds one call of WriterOptions.Announce.
const announceTimeout = 5 * time.Second

// announce tells of the endings that have a callback, and returns those of the batch that may be acknowledged: all, or, when the telling
// failed, the others. What is held back stays in the outbox, and the drainer brings it again.
func (w *Writer) announce(ctx context.Context, batch []settled) []settled {
	if w.opts.Announce == nil {
		return batch
	}
	var heard, rest []settled
	for _, s := range batch {
		if s.CallbackURL != "" && s.held != job.Cancelled {
			heard = append(heard, s)
		} else {
			rest = append(rest, s)
		}
	}
	if len(heard) == 0 {
		return batch
	}
	var err error
	unannounced := 0
	for part := range slices.Chunk(heard, announceSlice) { // one after the other: a slow SQL must not keep all of them from being told for ever
		if err == nil {
			err = w.tell(ctx, part)
		}
		if err != nil {
			w.stats.unannounced.Add(int64(len(part)))
			unannounced += len(part)
			w.acknowledged(part, err)
			continue
		}
		rest = append(rest, part...)
	}
	if err != nil {
		w.log.Warn("endings with a callback could not be announced", "jobs", unannounced, "err", err)
	}
	return rest
}

// announceSlice is how many endings one call of WriterOptions.Announce tells of.
const announceSlice = 50

func (w *Writer) tell(ctx context.Context, part []settled) error {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	outcomes, err := w.held(ctx, part)
	if err == nil && len(outcomes) > 0 {
		err = w.opts.Announce(ctx, outcomes)
	}
	if err != nil {
		return fmt.Errorf("announce: %w: %w", job.ErrUnannounced, err)
	}
	return nil
}

// held is what SQL holds of the outcomes. Where it had one before ours, that one is read: a job that ran twice may have ended alike with another result; if the job's next life has ended meanwhile,
// that one's ending was announced in its place.
func (w *Writer) held(ctx context.Context, batch []settled) ([]job.Outcome, error) {
	outcomes := make([]job.Outcome, 0, len(batch))
	for _, s := range batch {
		o := s.Outcome
		o.Status = s.held
		if s.known {
			j, err := w.archive.Find(ctx, s.ID)
			if err != nil {
				return nil, err
			}
			if j.Generation != s.Generation {
				continue
			}
			j.Options = s.Options
			o = job.Outcome{Job: j}
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}
