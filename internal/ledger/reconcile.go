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
	reconcileLease = 12 * time.Second // renewed with each look and each page
	// youngRow is how old a row that no Redis is known to have must be to be looked for: before that, whoever wrote it is
	// about to send it.
	youngRow  = 5 * time.Second
	tidyEvery = time.Minute
	// sweepPages bounds what one Reconcile looks at for rows that outlived their jobs; the next one goes on from there.
	sweepPages = 20
	// dropRounds bounds how many calls of DropKeys one Reconcile makes: what Redis lost must not wait for a long sweep.
	dropRounds = 20
)

// Reconcile gives Redis what SQL has and it does not: jobs that no Redis had yet, and jobs that it lost, with their
// arrival, generation and retries. A job that Redis has stays as it is; its row names the run that has it from then on.
// Each partition is compared with the life of its own server; one that does not answer holds up no other, and is an
// error in the end. It says how many jobs were missing. Several processes may call it at once, each one call at a time,
// and one of them looks. Once a minute it also tidies up.
func (l *Ledger) Reconcile(ctx context.Context) (restored int, err error) {
	// Read before anything is looked for: a Redis that loses what follows has another one.
	runs, unread := within(ctx, livePatience, l.Mover.Incarnations)
	if !slices.ContainsFunc(runs, func(run string) bool { return run != "" }) {
		return 0, fmt.Errorf("reconcile: %w", unread)
	}
	tidies := time.Since(l.tidied) >= tidyEvery
	var unswept error
	restored, err = l.restoreLost(ctx, runs)
	if restored > 0 {
		l.Log.Warn("Redis was given jobs that it did not have", "jobs", restored)
	}
	if tidies {
		unswept = l.tidy(ctx)
	}
	if err = errors.Join(unread, err, unswept); err != nil {
		return restored, fmt.Errorf("reconcile: %w", err)
	}
	l.began = true
	return restored, nil
}

func (l *Ledger) mine(ctx context.Context) (bool, error) {
	return within(ctx, livePatience,
		func(ctx context.Context) (bool, error) { return l.Restorer.Lease(ctx, "reconcile", reconcileLease) })
}

// restoreLost looks for the rows that no Redis is known to have, and for those of each life that is over. One process
// at a time looks.
func (l *Ledger) restoreLost(ctx context.Context, runs []string) (restored int, err error) {
	named, err := within(ctx, listPatience, l.Rows.Runs)
	if err != nil {
		return 0, err
	}
	present := slices.Clone(runs)
	for p, run := range runs {
		if run == "" { // as far as is known it lives
			present = append(present, l.Mover.KnownIncarnation(p))
		}
	}
	over := slices.DeleteFunc(named, func(run string) bool { return run != "" && slices.Contains(present, run) })
	if len(over) == 0 {
		return 0, nil
	}
	// A lease that cannot be had is no reason to wait: it saves work, and its server may be the one that is away.
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

// young is how old rows of a run must be to be looked for. The embedded server's first look finds what an earlier
// process left: no submit of that one goes on.
func (l *Ledger) young(run string) time.Duration {
	if run != "" || l.Outbox != nil && !l.began {
		return 0
	}
	return youngRow
}

// restoreIncarnation gives back the rows of one life. A partition whose server fails on the way has no run from then
// on.
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
			return restored, errors.Join(problems...) // nobody is there to take these, and hardly those behind them
		}
		_, _ = l.mine(ctx) // one page more before another process begins
	}
}

// owed reads the rows of jobs that Redis did not know, and a time before that. A row that is still without an outcome
// now is of a job that has not ended. One that its submit could take back is no submit's any more.
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

// without takes partitions that failed out of runs, and returns their errors.
func without(runs []string, failed map[int]error) (problems []error) {
	for p, err := range failed {
		runs[p] = ""
		problems = append(problems, err)
	}
	return problems
}

// tidy deletes rows of jobs that have ended: they ended while no journal was kept, or in the hands of a process of an
// earlier version. It also deletes Idempotency-Keys that have expired, and gives promises of such processes their
// rows. Where there is more of it than one call does, the next Reconcile goes on.
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

// priority is a tier's, 0 for one without a plan.
func (l *Ledger) priority(t job.Tier) int {
	plan, _ := l.Plans.Plan(t)
	return plan.Priority
}
