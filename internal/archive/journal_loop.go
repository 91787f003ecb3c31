package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/failpoint"
	"github.com/tierq/tierq/internal/job"
)

// loop writes batch after batch until Stop, and then what still waits. While SQL is down and nothing waits, loop
// probes SQL now and then, so that Down is not true for longer than the outage.
func (j *Journal) loop(ctx context.Context) {
	looks := 0
	for ctx.Err() == nil {
		if j.runOnce(ctx) {
			continue
		}
		j.mu.Lock()
		stopping := j.stopping
		j.mu.Unlock()
		if stopping {
			return
		}
		if !j.archive.db.Down() {
			looks = 0
			select {
			case <-j.wake:
			case <-ctx.Done():
			}
			continue
		}
		again := time.NewTimer(min(retryFloor<<min(looks, 10), retryCeiling))
		select {
		case <-j.wake:
		case <-ctx.Done():
		case <-again.C:
			looks++
			_ = j.Probe(ctx) // the result is in Down
		}
		again.Stop()
	}
}

// runOnce writes all waiting notes as one batch. It returns false if nothing waited.
func (j *Journal) runOnce(ctx context.Context) bool {
	j.mu.Lock()
	batch := j.waiting.Next(nil, nil)
	j.mu.Unlock()
	if len(batch) == 0 {
		return false
	}
	j.write(ctx, batch)
	return true
}

// write writes a batch to SQL and settles it. If SQL refuses a row, write splits the batch in halves. It returns
// false if SQL cannot serve, and then the rest of the batch need not be tried.
func (j *Journal) write(ctx context.Context, batch []*noted) bool {
	var n notes
	for _, b := range batch {
		switch b.kind {
		case submitNote:
			n.submits = append(n.submits, b)
		case backNote:
			n.backs = append(n.backs, b)
		case claimNote:
			n.claims = append(n.claims, b)
		case waitsNote:
			n.waits = append(n.waits, b)
		}
	}
	once, cancel := context.WithTimeout(ctx, j.opts.Timeout)
	err := j.archive.note(once, &n, j.opts.KeepKeys)
	cancel()
	switch {
	case err == nil:
		j.archive.db.Wrote(nil)
		j.opts.Observe(nil)
		j.written.Add(int64(len(batch)))
		j.batches.Add(1)
		if failpoint.Enabled {
			failpoint.Hit("journal.after", idsOf(batch)...)
		}
		j.settle(batch, nil)
		return true
	case errors.Is(err, job.ErrAmbiguous) || j.archive.db.Dialect.Verdict(err) != database.BadData:
		j.fail(ctx, batch, err)
		return false
	case len(batch) == 1:
		j.refused.Add(1)
		j.log.Error("SQL refuses a row of the journal", "job_id", idsOf(batch)[0], "err", err)
		j.settle(batch, database.Unavailable("SQL refuses the row", err))
		return true
	}
	half := len(batch) / 2
	if !j.write(ctx, batch[:half]) {
		j.settle(batch[half:], fmt.Errorf("SQL is down: %w", job.ErrUnavailable))
		return false
	}
	return j.write(ctx, batch[half:])
}

// fail settles with an error a batch that SQL could not take. It settles everything else that waits too: those
// notes have waited as long, and none of them was sent.
func (j *Journal) fail(ctx context.Context, batch []*noted, err error) {
	if !errors.Is(err, job.ErrAmbiguous) {
		err = database.Unavailable("SQL is down", err)
	}
	if ctx.Err() == nil {
		if !j.archive.db.Wrote(err) {
			j.log.Warn("SQL is down: nothing can be journaled", "err", err)
		}
		j.opts.Observe(err)
	}
	j.settle(batch, err)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.drop(nil, fmt.Errorf("SQL is down: %w", job.ErrUnavailable))
}

// drop removes the waiting notes of one call, or all of them (nil), and settles them with an error. The caller
// holds the lock.
func (j *Journal) drop(of *call, err error) {
	j.waiting.Remove(func(n *noted) bool {
		if of != nil && n.of != of {
			return false
		}
		n.of.settle(err)
		return true
	})
}

func (j *Journal) settle(batch []*noted, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, n := range batch {
		n.of.settle(err)
	}
}

func idsOf(batch []*noted) []job.ID {
	ids := make([]job.ID, len(batch))
	for i, n := range batch {
		ids[i] = n.id()
	}
	return ids
}

// Probe checks whether the journal could be written now, with a statement that changes nothing. It works before
// Start too.
func (j *Journal) Probe(ctx context.Context) error {
	once, cancel := context.WithTimeout(ctx, j.opts.Timeout)
	defer cancel()
	if err := j.archive.probeWrite(once); err != nil {
		return fmt.Errorf("probe the journal: %w", err)
	}
	return nil
}
