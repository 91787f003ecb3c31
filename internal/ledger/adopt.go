package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Adopt sees to it that jobs which another process accepted have their rows, and the Idempotency-Keys under which they are answered: it may have died
// before it wrote them.
func (l *Ledger) Adopt(ctx context.Context, firsts []job.KeyKept) error {
	ids := make([]job.ID, len(firsts))
	for i, k := range firsts {
		ids[i] = k.ID
	}
	known, err := within(ctx, archivePatience, func(ctx context.Context) ([]bool, error) { return l.Journal.Known(ctx, ids) })
	if err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	var rows []job.Living
	var keys []job.KeyKept
	for i, id := range ids {
		if known[i] {
			keys = append(keys, firsts[i])
			continue
		}
		run := l.Mover.KnownRun(id.Partition())
		j, err := l.live(ctx, id)
		if err != nil {
			return fmt.Errorf("adopt: %w", err)
		}
		if j.Status == job.Completed {
			return fmt.Errorf("adopt %s: %w: it has ended, and SQL does not know yet", id, job.ErrAmbiguous) // without a payload it cannot be run from a row
		}
		plan, _ := l.Plans.Plan(j.Tier)
		j.StartedAt, j.Worker = time.Time{}, "" // the journal hears of claims in embedded mode only, and there from the claim itself
		j.CancelRequested = j.CancelRequested || j.Status == job.Cancelled
		rows = append(rows, job.Living{Job: j, Priority: plan.Priority, Idempotency: firsts[i].Idempotency, RunID: run})
	}
	if len(keys) > 0 {
		err = l.Journal.AcceptKeys(ctx, keys)
	}
	if err == nil && len(rows) > 0 {
		err = l.Journal.Accept(ctx, rows)
	}
	if err != nil {
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
	_, err := within(ctx, archivePatience, func(ctx context.Context) (struct{}, error) {
		if err := l.journalRequeued(ctx, id); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, l.Journal.Cancelling(ctx, id)
	})
	if err != nil {
		l.Log.Warn("a cancel is not in the journal", "job_id", id, "err", err)
	}
}

// journalRequeued gives a cancelled job of a later generation its row. Without one the promise of its requeue alone
// would bring the job back, and not the cancel.
func (l *Ledger) journalRequeued(ctx context.Context, id job.ID) error {
	j, err := l.live(ctx, id)
	if errors.Is(err, job.ErrNotFound) || err == nil && j.Generation <= 1 {
		return nil
	}
	if err != nil {
		return err
	}
	plan, _ := l.Plans.Plan(j.Tier)
	j.CancelRequested, j.StartedAt, j.Worker = true, time.Time{}, "" // embedded mode's claim has written the row already
	// No run: Redis may have lost the job since it was read, and Reconcile looks for the jobs of such rows.
	return l.Journal.Accept(ctx, []job.Living{{Job: j, Priority: plan.Priority}})
}
