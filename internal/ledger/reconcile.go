package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	reconcilePage  = 500
	reconcileLease = 12 * time.Second // renewed with each page
	// youngRow is the age from which a row without an incarnation is looked for: before that age its writer is about
	// to send the job to Redis.
	youngRow  = 5 * time.Second
	tidyEvery = time.Minute
	// sweepPages bounds the pages that one Reconcile sweeps for rows of ended jobs. The next Reconcile goes on from
	// there.
	sweepPages = 20
	// dropRounds bounds the calls of DropKeys in one Reconcile: lost jobs must not wait for a long cleanup.
	dropRounds = 20
)

// Reconcile gives Redis the jobs that SQL has and Redis lacks, with their arrival, generation and retries: jobs
// that no Redis had yet, and jobs that Redis lost. A job that Redis has stays unchanged; its row then names the
// incarnation that has it. Each partition is compared with the incarnation of its own server. A server that does
// not answer delays no other partition, and its error is returned at the end.
//
// restored is how many jobs were missing. Several processes may call Reconcile at once, each one call at a time;
// one of them does the work. Once a minute Reconcile also tidies up.
func (l *Ledger) Reconcile(ctx context.Context) (restored int, err error) {
	// Read before any job is looked for: a Redis that loses jobs after this has another incarnation.
	runs, unread := within(ctx, livePatience, l.Mover.Incarnations)
	if !slices.ContainsFunc(runs, func(run string) bool { return run != "" }) {
		return 0, fmt.Errorf("reconcile: %w", unread)
	}
	tidies := time.Since(l.tidied) >= tidyEvery
	var unswept, unsynced error
	if l.Lines != nil {
		unsynced = l.Lines.Sync(ctx, runs)
	}
	if l.Places != nil {
		unsynced = errors.Join(unsynced, l.Places.Sync(ctx, runs), l.Places.Sweep(ctx))
	}
	restored, err = l.restoreLost(ctx, runs)
	if restored > 0 {
		l.Log.Warn("Redis was given jobs that it did not have", "jobs", restored)
	}
	if tidies {
		unswept = l.tidy(ctx)
	}
	if err = errors.Join(unread, unsynced, err, unswept); err != nil {
		return restored, fmt.Errorf("reconcile: %w", err)
	}
	l.began = true
	return restored, nil
}

func (l *Ledger) mine(ctx context.Context) (bool, error) {
	return within(ctx, livePatience,
		func(ctx context.Context) (bool, error) { return l.Restorer.Lease(ctx, "reconcile", reconcileLease) })
}

// restoreLost restores the jobs of rows without an incarnation, and of rows whose incarnation is over. One process
// at a time does it.
func (l *Ledger) restoreLost(ctx context.Context, runs []string) (restored int, err error) {
	named, err := within(ctx, listPatience, l.Rows.Runs)
	if err != nil {
		return 0, err
	}
	present := slices.Clone(runs)
	for p, run := range runs {
		if run == "" { // as far as is known this incarnation is not over
			present = append(present, l.Mover.KnownIncarnation(p))
		}
	}
	over := slices.DeleteFunc(named, func(run string) bool { return run != "" && slices.Contains(present, run) })
	if len(over) == 0 {
		return 0, nil
	}
	// Without an answer about the lease, the work is done anyway: the lease only saves work, and its server may be
	// the one that is down.
	mine, unasked := l.mine(ctx)
	if unasked == nil && !mine {
		return 0, nil
	}
	problems := []error{unasked}
	runs = slices.Clone(runs)
	for _, run := range over {
		n, err := l.restoreIncarnation(ctx, run, runs)
		restored += n
		problems = append(problems, err)
	}
	return restored, errors.Join(problems...)
}

// young returns the age from which rows of an incarnation are looked for. The first Reconcile of an embedded
// server takes rows of any age, because the process that wrote them has ended.
func (l *Ledger) young(run string) time.Duration {
	if run != "" || l.Outbox != nil && !l.began {
		return 0
	}
	return youngRow
}

// restoreIncarnation restores the jobs whose rows name one incarnation. If the server of a partition fails, its
// entry in runs becomes "" for the rest of the call.
func (l *Ledger) restoreIncarnation(ctx context.Context, lost string, runs []string) (restored int, err error) {
	var problems []error
	after := job.ID("")
	for {
		page, err := within(ctx, listPatience, func(ctx context.Context) ([]job.JournalRow, error) {
			return l.Rows.Lost(ctx, lost, l.young(lost), after, reconcilePage)
		})
		if err != nil || len(page) == 0 {
			return restored, errors.Join(append(problems, err)...)
		}
		after = page[len(page)-1].ID
		ours := l.present(page, runs)
		missing, failed := l.unknown(ctx, ours, runs)
		problems = append(problems, without(runs, failed)...)
		if len(missing) > 0 {
			rows, read, err := l.owed(ctx, lost, missing)
			if err != nil {
				return restored, errors.Join(append(problems, err)...)
			}
			n, failed := l.restoreRows(ctx, l.present(rows, runs), runs, read)
			restored += n
			problems = append(problems, without(runs, failed)...)
		}
		if len(ours) == 0 && slices.ContainsFunc(page, func(r job.JournalRow) bool { return l.ours(r.ID) }) {
			return restored, errors.Join(problems...) // no server is there for these rows, and hardly for the rows behind them
		}
		_, _ = l.mine(ctx) // the lease lasts for one page more before another process begins
	}
}

// owed reads again the rows of jobs that Redis did not have, and returns a time before that read. A job whose row
// is still without an outcome now has not ended. For run "", Owe first ends the right of the submits to take their
// rows back.
func (l *Ledger) owed(ctx context.Context, run string, missing []job.ID) (rows []job.JournalRow, read time.Time,
	err error) {
	if run == "" {
		_, err := within(ctx, listPatience, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, l.Rows.Owe(ctx, missing)
		})
		if err != nil {
			return nil, read, err
		}
	}
	read = time.Now()
	rows, err = l.rowsOf(ctx, listPatience, missing)
	return rows, read, err
}

// without clears the partitions that failed in runs, and returns their errors.
func without(runs []string, failed map[int]error) (problems []error) {
	for p, err := range failed {
		runs[p] = ""
		problems = append(problems, err)
	}
	return problems
}

// tidy deletes rows of ended jobs: jobs that ended while there was no journal, or in a process of an earlier
// version. It also deletes expired Idempotency-Keys, and writes the missing rows of promises of an earlier
// version. What one call does not finish, the next Reconcile does.
func (l *Ledger) tidy(ctx context.Context) error {
	if _, err := within(ctx, listPatience, func(ctx context.Context) (int, error) {
		return l.Promises.AdoptPromises(ctx, l.priority)
	}); err != nil {
		return err
	}
	for range sweepPages {
		next, err := within(ctx, listPatience, func(ctx context.Context) (job.ID, error) {
			next, _, err := l.Rows.Sweep(ctx, l.swept, reconcilePage)
			return next, err
		})
		if err != nil {
			return err
		}
		if l.swept = next; next == "" {
			break
		}
	}
	more := l.Journal != nil
	for range dropRounds {
		if !more {
			l.tidied = time.Now()
			return nil
		}
		var err error
		more, err = within(ctx, listPatience, func(ctx context.Context) (bool, error) {
			_, more, err := l.Journal.DropKeys(ctx)
			return more, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// priority returns a tier's priority, 0 for a tier without a plan.
func (l *Ledger) priority(t job.Tier) int {
	plan, _ := l.Plans.Plan(t)
	return plan.Priority
}
