package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	reconcilePage  = 500
	reconcileLease = 30 * time.Second // renewed with each page
	// sweepPages bounds what one Reconcile looks at for rows that outlived their jobs; the next one goes on from there.
	sweepPages = 20
)

// Reconcile gives back to Redis what the journal has and it forgot: jobs, with their arrival, generation and retries, and Idempotency-Keys. What is
// there is left as it is. It says how many jobs were missing, and with done false that another process is at it. It may be called at any
// time, by several processes at once; while nothing is missing it is one cheap read. Requeued lives without a row are Recall's.
func (l *Ledger) Reconcile(ctx context.Context) (restored int, done bool, err error) {
	if l.Journal == nil {
		return 0, true, nil
	}
	// Read before anything is looked for: a Redis that loses what follows has another one.
	run, err := within(ctx, livePatience, l.Mover.RunID)
	if err != nil {
		return 0, false, fmt.Errorf("reconcile: %w", err)
	}
	if err := l.giveBackKeys(ctx, run); err != nil { // whoever else is at it: submits with a key wait for it
		return 0, false, fmt.Errorf("reconcile: %w", err)
	}
	if mine, err := l.mine(ctx); err != nil || !mine {
		return 0, false, err
	}
	if restored, err = l.giveBackLost(ctx, run); err != nil {
		return restored, false, fmt.Errorf("reconcile: %w", err)
	}
	if restored > 0 {
		l.Log.Warn("jobs were given back to Redis from the journal", "jobs", restored, "run", run)
	}
	if err := l.sweep(ctx); err != nil {
		return restored, false, fmt.Errorf("reconcile: %w", err)
	}
	return restored, true, nil
}

func (l *Ledger) mine(ctx context.Context) (bool, error) {
	return within(ctx, livePatience, func(ctx context.Context) (bool, error) { return l.Restorer.Lease(ctx, "reconcile", reconcileLease) })
}

func (l *Ledger) giveBackLost(ctx context.Context, run string) (restored int, err error) {
	after := job.ID("")
	for {
		page, err := within(ctx, listPatience, func(ctx context.Context) ([]job.Living, error) {
			return l.Journal.Lost(ctx, run, after, reconcilePage)
		})
		if err != nil || len(page) == 0 {
			return restored, err
		}
		after = page[len(page)-1].ID
		n, err := l.GiveBack(ctx, page, run)
		restored += n
		if err != nil {
			return restored, err
		}
		if _, err := l.mine(ctx); err != nil {
			return restored, err
		}
	}
}

// GiveBack restores rows that were read just now, and notes them as known to this run of Redis. It says how many were missing.
func (l *Ledger) GiveBack(ctx context.Context, rows []job.Living, run string) (restored int, err error) {
	ours := rows[:0:0]
	for i := range rows {
		if l.ours(rows[i].ID) {
			ours = append(ours, rows[i])
		} else {
			l.Log.Error("a journaled job is of a partition that this cluster does not have", "job_id", rows[i].ID)
		}
	}
	id, weight := func(r *job.Living) job.ID { return r.ID }, func(r *job.Living) int { return len(r.Payload) + 512 }
	for p, batch := range job.Batches(ours, id, weight) {
		there, missing, err := l.restore(ctx, p, batch)
		restored += missing
		if err != nil {
			return restored, err
		}
		if _, err := within(ctx, actPatience, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, l.Journal.Found(ctx, there, run)
		}); err != nil {
			return restored, err
		}
	}
	return restored, nil
}

// restore runs the script over one batch. there are the jobs that Redis has now.
func (l *Ledger) restore(ctx context.Context, partition int, batch []job.Living) (there []job.ID, missing int, err error) {
	var cancelled []job.Cancellation
	for range lateTries {
		words, err := twice(ctx, livePatience, func(ctx context.Context) ([]job.Word, error) { return l.Restorer.Restore(ctx, partition, batch) })
		if err == nil && len(words) != len(batch) {
			err = errWords
		}
		if err != nil {
			return nil, missing, fmt.Errorf("restore: %w", err)
		}
		var late []job.Living
		for i, w := range words {
			r := &batch[i]
			switch w {
			case job.OK, job.Duplicate:
				there = append(there, r.ID)
				if w == job.OK {
					missing++
				}
				if r.CancelRequested {
					cancelled = append(cancelled, job.Cancellation{ID: r.ID, Generation: r.Generation})
				}
			case job.Late:
				late = append(late, *r)
			case job.Busy:
				l.Log.Info("a journaled job waits for its old generation", "job_id", r.ID)
			default:
				return nil, missing, fmt.Errorf("restore %s: unexpected word %q", r.ID, w)
			}
		}
		if batch = late; len(batch) == 0 {
			break
		}
	}
	if len(cancelled) > 0 { // somebody was told that it is cancelled, or will be
		if _, err := twice(ctx, livePatience, func(ctx context.Context) ([]job.Word, error) { return l.Mover.Cancel(ctx, partition, cancelled) }); err != nil {
			return nil, missing, fmt.Errorf("restore: cancel again: %w", err)
		}
	}
	return there, missing, nil
}

// giveBackKeys restores all Idempotency-Keys if Redis may have lost some, and says in Redis that they are there.
func (l *Ledger) giveBackKeys(ctx context.Context, run string) error {
	known := l.reconciled.Load()
	for after := ""; known == nil || *known != run; {
		keys, err := within(ctx, listPatience, func(ctx context.Context) ([]job.KeyKept, error) { return l.Journal.Keys(ctx, after, reconcilePage) })
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		after = keys[len(keys)-1].Key
		home := func(key string) int { return job.Home(key, l.Partitions) }
		if _, err := twice(ctx, livePatience, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, l.Restorer.RestoreKeys(ctx, keys, home)
		}); err != nil {
			return err
		}
	}
	_, err := twice(ctx, livePatience, func(ctx context.Context) (struct{}, error) { return struct{}{}, l.Restorer.MarkKeys(ctx, run) })
	if err == nil {
		l.reconciled.Store(&run)
	}
	return err
}

// sweep deletes rows that came in after their job's outcome: another process had ended it by then.
func (l *Ledger) sweep(ctx context.Context) error {
	for range sweepPages {
		next, err := within(ctx, listPatience, func(ctx context.Context) (job.ID, error) {
			next, _, err := l.Journal.Sweep(ctx, l.swept, reconcilePage)
			return next, err
		})
		if err != nil {
			return err
		}
		if l.swept = next; next == "" {
			break
		}
	}
	_, err := within(ctx, listPatience, l.Journal.DropKeys)
	return err
}

// Adopt sees to it that jobs which another process accepted have their rows: it may have died before it wrote them.
func (l *Ledger) Adopt(ctx context.Context, ids []job.ID) error {
	known, err := within(ctx, archivePatience, func(ctx context.Context) ([]bool, error) { return l.Journal.Known(ctx, ids) })
	if err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	var rows []job.Living
	for i, id := range ids {
		if known[i] {
			continue
		}
		run, err := within(ctx, livePatience, l.Mover.RunID)
		if err != nil {
			return fmt.Errorf("adopt: %w", err)
		}
		j, err := l.live(ctx, id)
		if err != nil {
			return fmt.Errorf("adopt: %w", err)
		}
		plan, _ := l.Plans.Plan(j.Tier)
		j.StartedAt, j.Worker = time.Time{}, "" // the journal hears of claims in embedded mode only, and there from the claim itself
		rows = append(rows, job.Living{Job: j, Priority: plan.Priority, RunID: run})
	}
	if len(rows) == 0 {
		return nil
	}
	if err := l.Journal.Accept(ctx, rows); err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	return nil
}

// remember notes in the journal that somebody was told of a cancel, so that a Redis that forgets it is told again. Redis decided already: if
// the journal does not answer, the cancel stands as long as Redis does.
func (l *Ledger) remember(ctx context.Context, id job.ID) {
	if l.Journal == nil {
		return
	}
	if _, err := within(ctx, archivePatience, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.Journal.Cancelling(ctx, id)
	}); err != nil {
		l.Log.Warn("a cancel is not in the journal", "job_id", id, "err", err)
	}
}
