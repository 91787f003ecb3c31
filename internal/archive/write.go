package archive

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/failpoint"
	"github.com/tierq/tierq/internal/job"
)

const (
	transactionTimeout = 10 * time.Second
	retryFloor         = 100 * time.Millisecond
	retryCeiling       = 2 * time.Second
	lastTries          = 3 // how many times in a row SQL is tried while the writer stops
)

// settled is an outcome that SQL has, together with the status that SQL holds for it.
type settled struct {
	*entry
	held  job.Status
	known bool      // SQL had an outcome before. That one stands, even if it differs from ours.
	since time.Time // a time before this writer inserted the outcome; zero if SQL had it before

	released []job.JournalRow // on the first of a batch: jobs that the batch set free, to be given after since
}

// loop writes batch after batch until Stop. Then it writes what still waits.
func (w *Writer) loop(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		worked, err := w.runOnce(ctx)
		if err != nil {
			failures++
			if w.isStopping() && failures >= lastTries {
				return
			}
			_ = database.Pause(ctx, min(retryFloor<<min(failures-1, 10), retryCeiling)) // loop checks ctx itself
			continue
		}
		failures = 0
		if worked {
			continue
		}
		if w.isStopping() {
			return
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
		}
	}
}

func (w *Writer) isStopping() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopping
}

// runOnce writes one batch. If nothing waits and SQL was down at the last attempt, runOnce probes SQL, so that
// Down is not true for longer than the outage.
func (w *Writer) runOnce(ctx context.Context) (worked bool, err error) {
	w.mu.Lock()
	batch, left := w.backlog.take(time.Now())
	w.mu.Unlock()
	if left > 0 && w.stats.left.Add(int64(left)) == int64(left) {
		w.log.Warn("SQL does not keep up: outcomes are left to the outbox, which brings them when it can")
	}
	if len(batch) == 0 {
		if !w.archive.db.Down() || w.isStopping() {
			return false, nil
		}
		probe, cancel := context.WithTimeout(ctx, transactionTimeout)
		defer cancel()
		return false, w.archive.probeWrite(probe)
	}
	rest, err := w.write(ctx, batch)
	if err == nil {
		w.archive.db.Wrote(nil)
		return true, nil
	}
	err = database.Unavailable("record", err)
	if ctx.Err() == nil && !w.archive.db.Wrote(err) {
		w.log.Warn("SQL is down: outcomes wait", "err", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.backlog.AddFirst(rest...)
	w.backlog.dropRecorded(err)
	return true, err
}

// write writes a batch to SQL. If SQL refuses a row, write splits the batch in halves. It returns the entries that
// are left if SQL cannot serve.
func (w *Writer) write(ctx context.Context, batch []*entry) (rest []*entry, err error) {
	outcomes := make([]*job.Outcome, len(batch))
	for i, e := range batch {
		outcomes[i] = &e.Outcome
	}
	once, cancel := context.WithTimeout(ctx, transactionTimeout)
	since := time.Now()
	there, released, err := w.archive.record(once, outcomes, w.opts.Owes)
	cancel()
	switch {
	case err == nil:
		w.settle(ctx, batch, there, released, since)
		return nil, nil
	case w.archive.db.Dialect.Verdict(err) != database.BadData:
		return batch, err
	case len(batch) == 1:
		w.refuse(batch[0], err)
		return nil, nil
	}
	half := len(batch) / 2
	if rest, err = w.write(ctx, batch[:half]); err != nil {
		return append(rest, batch[half:]...), err
	}
	return w.write(ctx, batch[half:])
}

// settle passes a written batch on to be acknowledged. It blocks while the acknowledging is one batch behind.
func (w *Writer) settle(ctx context.Context, batch []*entry, there map[key]ending, released []job.JournalRow,
	since time.Time) {
	done := make([]settled, len(batch))
	written := int64(len(batch) - len(there))
	for i, e := range batch {
		done[i] = settled{entry: e, held: e.Status.Shown(), since: since}
		held, known := there[keyOf(&e.Outcome)]
		if !known {
			continue
		}
		done[i].held, done[i].known = held.status, true
		if held.status != e.Status.Shown() || held.attempt != e.Attempt {
			w.stats.differences.Add(1)
			w.log.Warn("SQL has another outcome, which stands", "job_id", e.ID, "generation", e.Generation,
				"held", held.status, "held_attempt", held.attempt, "offered", e.Status.Shown(), "attempt", e.Attempt)
		}
	}
	done[0].released = released
	w.stats.written.Add(written)
	if written > 0 {
		w.stats.batches.Add(1)
	}
	w.mu.Lock()
	close(w.next)
	w.next = make(chan struct{})
	if len(w.refused.rows) > 0 {
		for _, e := range batch {
			w.refused.remove(keyOf(&e.Outcome))
		}
	}
	w.mu.Unlock()
	if failpoint.Enabled {
		ids := make([]job.ID, len(batch))
		for i, e := range batch {
			ids[i] = e.ID
		}
		failpoint.Hit("record.after", ids...)
	}
	select {
	case w.written <- done:
	case <-ctx.Done():
		w.acknowledged(done, ctx.Err())
	}
}

// refuse sets an outcome aside that SQL refuses for its data. Its caller gets no error for it.
func (w *Writer) refuse(e *entry, err error) {
	w.stats.refused.Add(1)
	w.mu.Lock()
	wait := w.refused.add(keyOf(&e.Outcome), time.Now())
	e.of.settle(nil)
	w.mu.Unlock()
	w.log.Error("SQL refuses an outcome", "job_id", e.ID, "generation", e.Generation, "tier", e.Tier, "type", e.Type,
		"again_in", wait, "err", err)
}
