package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// EnsureJournaled sees to it that jobs which another process accepted have their rows, and the Idempotency-Keys under
// which they are answered: it may have died before it wrote them.
func (l *Ledger) EnsureJournaled(ctx context.Context, firsts []job.KeyKept) error {
	ids := make([]job.ID, len(firsts))
	for i, k := range firsts {
		ids[i] = k.ID
	}
	known, err := within(
		ctx,
		archivePatience,
		func(ctx context.Context) ([]bool, error) { return l.Journal.Known(ctx, ids) },
	)
	if err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	var rows []job.JournalRow
	var keys []job.KeyKept
	for i, id := range ids {
		if known[i] {
			keys = append(keys, firsts[i])
			continue
		}
		run := l.Mover.KnownIncarnation(id.Partition())
		j, err := l.live(ctx, id)
		if err != nil {
			return fmt.Errorf("adopt: %w", err)
		}
		if j.Status == job.Completed {
			return fmt.Errorf(
				"adopt %s: %w: it has ended, and SQL does not know yet",
				id,
				job.ErrAmbiguous,
			) // without a payload it cannot be run from a row
		}
		plan, _ := l.Plans.Plan(j.Tier)
		// The journal hears of claims in embedded mode only, and there from the claim itself.
		j.StartedAt, j.Worker = time.Time{}, ""
		j.CancelRequested = j.CancelRequested || j.Status == job.Cancelled
		rows = append(
			rows,
			job.JournalRow{Job: j, Priority: plan.Priority, Idempotency: firsts[i].Idempotency, Incarnation: run},
		)
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
