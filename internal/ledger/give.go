package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/failpoint"
	"github.com/tierq/tierq/internal/job"
)

// lateTries is how many times rows are sent if they arrive too late. Each time the call has Redis' time from the
// answer before.
const lateTries = 3

var errWords = errors.New("another number of words than entries")

// present returns those rows whose partition has an incarnation in runs.
func (l *Ledger) present(rows []job.JournalRow, runs []string) []job.JournalRow {
	ours := rows[:0:0]
	for i := range rows {
		switch {
		case !l.ours(rows[i].ID):
			l.Log.Error("a job that SQL has is of a partition that this cluster does not have", "job_id", rows[i].ID)
		case runs[rows[i].ID.Partition()] != "":
			ours = append(ours, rows[i])
		}
	}
	return ours
}

// unknown returns the jobs of these rows that Redis does not have, or has in an earlier generation. It marks the
// other rows as found.
func (l *Ledger) unknown(
	ctx context.Context,
	rows []job.JournalRow,
	runs []string,
) (lost []job.ID, failed map[int]error) {
	failed = map[int]error{}
	id, weight := func(r *job.JournalRow) job.ID { return r.ID }, func(*job.JournalRow) int { return 0 }
	for p, batch := range job.Batches(rows, id, weight) {
		if failed[p] != nil {
			continue
		}
		there, missing, err := l.look(ctx, batch)
		if err == nil {
			err = l.found(ctx, p, there, runs[p])
		}
		if err != nil {
			failed[p] = err
		}
		lost = append(lost, missing...)
	}
	return lost, failed
}

// look asks Redis for the jobs of one partition, each in its row's generation.
func (l *Ledger) look(
	ctx context.Context, batch []job.JournalRow,
) (there []job.JournalRow, missing []job.ID, err error) {
	ids := make([]job.ID, len(batch))
	for i := range batch {
		ids[i] = batch[i].ID
	}
	missing, err = within(ctx, livePatience,
		func(ctx context.Context) ([]job.ID, error) { return l.Restorer.Missing(ctx, ids) })
	if err != nil {
		return nil, nil, fmt.Errorf("look for jobs: %w", err)
	}
	for i := range batch {
		r := &batch[i]
		if slices.Contains(missing, r.ID) {
			continue
		}
		older := r.CancelRequested // Redis may not have the cancel or the kill
		if r.Generation > 1 && !older {
			j, err := l.live(ctx, r.ID)
			if err != nil && !errors.Is(err, job.ErrNotFound) {
				return nil, nil, fmt.Errorf("look for jobs: %w", err)
			}
			older = err != nil || j.Generation < r.Generation
		}
		if older {
			missing = append(missing, r.ID)
		} else {
			there = append(there, *r)
		}
	}
	return there, missing, nil
}

// found stores which incarnation of a partition has these jobs, if that may be stored by now; otherwise a later
// Reconcile does it. Before that it sends Redis the cancels and kills that were stored meanwhile: a row that is
// marked as found is not read again.
func (l *Ledger) found(ctx context.Context, partition int, there []job.JournalRow, run string) error {
	if len(there) == 0 {
		return nil
	}
	ids := make([]job.ID, len(there))
	for i := range there {
		ids[i] = there[i].ID
	}
	rows, err := l.rowsOf(ctx, listPatience, ids)
	if err != nil {
		return fmt.Errorf("read rows again: %w", err)
	}
	rows = slices.DeleteFunc(rows, func(r job.JournalRow) bool { return !r.CancelRequested })
	if err := l.endAgain(ctx, partition, rows); err != nil || l.Mover.KnownIncarnation(partition) != run {
		return err
	}
	_, err = within(ctx, actPatience, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.Rows.Found(ctx, there, run)
	})
	return err
}

// Give gives Redis the jobs that SQL has rows of and Redis may lack, and returns how many were missing. A later
// Reconcile gives those that it could not give.
func (l *Ledger) Give(ctx context.Context, ids []job.ID) (missing int, err error) {
	read := time.Now()
	rows, err := l.rowsOf(ctx, archivePatience, ids)
	if err != nil {
		return 0, fmt.Errorf("give: %w", err)
	}
	return l.GiveRows(ctx, rows, read)
}

// rowsOf reads the rows of those of some jobs that have not ended.
func (l *Ledger) rowsOf(ctx context.Context, patience time.Duration, ids []job.ID) ([]job.JournalRow, error) {
	return within(
		ctx,
		patience,
		func(ctx context.Context) ([]job.JournalRow, error) { return l.Rows.LivingOf(ctx, ids) },
	)
}

// GiveRows is Give for rows that were read, or written, after the time read.
func (l *Ledger) GiveRows(ctx context.Context, rows []job.JournalRow, read time.Time) (missing int, err error) {
	runs := make([]string, l.Partitions)
	for p := range runs {
		// Read before the script: a Redis that loses the script's effect has another incarnation afterwards.
		runs[p] = l.Mover.KnownIncarnation(p)
	}
	missing, failed := l.restoreRows(ctx, l.present(rows, runs), runs, read)
	return missing, errors.Join(slices.Collect(maps.Values(failed))...)
}

// restoreRows restores rows partition by partition, and stores that these incarnations of Redis have them. runs
// was read before.
func (l *Ledger) restoreRows(
	ctx context.Context, rows []job.JournalRow, runs []string, read time.Time,
) (restored int, failed map[int]error) {
	failed = map[int]error{}
	id := func(r *job.JournalRow) job.ID { return r.ID }
	weight := func(r *job.JournalRow) int { return len(r.Payload) + 512 }
	for p, batch := range job.Batches(rows, id, weight) {
		if failed[p] != nil {
			continue
		}
		there, missing, err := l.restore(ctx, p, batch, read)
		restored += missing
		if len(there) > 0 {
			failpoint.Hit("requeue.after", there[0].ID)
		}
		if err == nil {
			err = l.found(ctx, p, there, runs[p])
		}
		if err != nil {
			failed[p] = err
		}
	}
	return restored, failed
}

// restore runs the script over one batch. It returns the rows whose jobs Redis has now.
func (l *Ledger) restore(
	ctx context.Context, partition int, batch []job.JournalRow, read time.Time,
) (there []job.JournalRow, missing int, err error) {
	for range lateTries {
		words, err := twice(ctx, livePatience, func(ctx context.Context) ([]job.Word, error) {
			return l.Restorer.Restore(ctx, partition, batch, read)
		})
		if err == nil && len(words) != len(batch) {
			err = errWords
		}
		if err != nil {
			return nil, missing, fmt.Errorf("restore: %w", err)
		}
		var late, toEnd []job.JournalRow
		for i, w := range words {
			r := &batch[i]
			switch w {
			case job.OK:
				there = append(there, *r)
				missing++
			case job.Duplicate:
				there = append(there, *r)
				if r.CancelRequested { // the job may be from before the cancel or the kill
					toEnd = append(toEnd, *r)
				}
			case job.Late:
				late = append(late, *r)
			case job.Busy:
				l.Log.Info("a requeued job waits for its old generation", "job_id", r.ID)
			default:
				return nil, missing, fmt.Errorf("restore %s: unexpected word %q", r.ID, w)
			}
		}
		if err := l.endAgain(ctx, partition, toEnd); err != nil {
			return nil, missing, fmt.Errorf("restore: %w", err)
		}
		if batch = late; len(batch) == 0 {
			break
		}
	}
	return there, missing, nil
}

// endAgain sends Redis the cancels and the kills of rows, which it may have lost. A killed job that runs by now is
// cancelled: it was to run no more.
func (l *Ledger) endAgain(ctx context.Context, partition int, rows []job.JournalRow) error {
	var cancelled []job.Cancellation
	var killed []job.Killing
	for i := range rows {
		if r := &rows[i]; r.KillReason != "" {
			killed = append(killed, job.Killing{ID: r.ID, Generation: r.Generation, Reason: r.KillReason})
		} else {
			cancelled = append(cancelled, job.Cancellation{ID: r.ID, Generation: r.Generation})
		}
	}
	if len(killed) > 0 {
		words, err := twice(ctx, livePatience,
			func(ctx context.Context) ([]job.Word, error) { return l.Mover.Kill(ctx, partition, killed) })
		if err == nil && len(words) != len(killed) {
			err = errWords
		}
		if err != nil {
			return fmt.Errorf("kill again: %w", err)
		}
		for i, w := range words {
			if w == job.Busy {
				cancelled = append(cancelled, job.Cancellation{ID: killed[i].ID, Generation: killed[i].Generation})
			}
		}
	}
	if len(cancelled) == 0 {
		return nil
	}
	if _, err := twice(ctx, livePatience,
		func(ctx context.Context) ([]job.Word, error) { return l.Mover.Cancel(ctx, partition, cancelled) }); err != nil {
		return fmt.Errorf("cancel again: %w", err)
	}
	return nil
}
