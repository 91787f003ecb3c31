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
	reconcileLease = 30 * time.Second // renewed with each page
	tidyEvery      = time.Minute
	// sweepPages bounds what one Reconcile looks at for rows that outlived their jobs; the next one goes on from there.
	sweepPages = 20
	// dropRounds bounds how many calls of DropKeys one Reconcile makes: what Redis forgot must not wait for a long
	// sweep.
	dropRounds = 20
)

// Reconcile gives Redis what SQL has and it does not: jobs that no Redis had yet, jobs that it forgot, with their
// arrival, generation and retries, and Idempotency-Keys. What is there is left as it is. Each partition is compared
// with the life of its own server; one that does not answer holds up no other, and is an error in the end. It says how
// many jobs were missing. Several processes may call it at once, each one call at a time, and one of them looks for
// what was lost; while nothing is missing it is a cheap read. Once a minute it also tidies up.
func (l *Ledger) Reconcile(ctx context.Context) (restored int, err error) {
	// Read before anything is looked for: a Redis that loses what follows has another one.
	runs, unread := within(ctx, livePatience, l.Mover.Incarnations)
	if !slices.ContainsFunc(runs, func(run string) bool { return run != "" }) {
		return 0, fmt.Errorf("reconcile: %w", unread)
	}
	tidies := time.Since(l.tidied) >= tidyEvery
	var failed, unswept error
	if l.Journal != nil {
		failed = l.restoreKeys(ctx, runs, tidies) // whoever else is at it: submits with a key wait for it
	}
	restored, err = l.restoreLost(ctx, runs)
	if restored > 0 {
		l.Log.Warn("Redis was given jobs that it did not have", "jobs", restored)
	}
	if tidies {
		unswept = l.tidy(ctx)
	}
	if err = errors.Join(unread, failed, err, unswept); err != nil {
		return restored, fmt.Errorf("reconcile: %w", err)
	}
	return restored, nil
}

func (l *Ledger) mine(ctx context.Context) (bool, error) {
	return within(ctx, livePatience, func(ctx context.Context) (bool, error) { return l.Restorer.Lease(ctx, "reconcile", reconcileLease) })
}

// restoreLost looks for the rows that no Redis had yet, and for those of each life that is over. One process at a time
// looks for the latter.
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
	var problems []error
	if slices.ContainsFunc(over, func(run string) bool { return run != "" }) {
		// A lease that cannot be had is no reason to wait: it saves work, and its server may be the one that is away.
		mine, unasked := l.mine(ctx)
		if problems = append(problems, unasked); unasked == nil && !mine {
			over = slices.DeleteFunc(over, func(run string) bool { return run != "" })
		}
	}
	runs = slices.Clone(runs)
	for _, run := range over {
		n, err := l.restoreIncarnation(ctx, run, runs)
		restored += n
		problems = append(problems, err)
	}
	return restored, errors.Join(problems...)
}

// restoreIncarnation gives back the rows of one life. A partition whose server fails on the way has no run from then
// on.
func (l *Ledger) restoreIncarnation(ctx context.Context, lost string, runs []string) (restored int, err error) {
	var problems []error
	after := job.ID("")
	for {
		page, err := within(ctx, listPatience, func(ctx context.Context) ([]job.JournalRow, error) {
			return l.Rows.Lost(ctx, lost, after, reconcilePage)
		})
		if err != nil || len(page) == 0 {
			return restored, errors.Join(append(problems, err)...)
		}
		after = page[len(page)-1].ID
		ours := l.present(page, runs)
		missing, failed := l.unknown(ctx, ours, runs)
		problems = append(problems, without(runs, failed)...)
		if len(missing) > 0 {
			// Read once more: a row that is still without an outcome after Redis did not know its job is of a job that has not ended.
			read := time.Now()
			rows, err := l.rowsOf(ctx, listPatience, missing)
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
		if lost != "" {
			_, _ = l.mine(ctx) // one page more for whoever else begins
		}
	}
}

// without takes partitions that failed out of runs, and returns their errors.
func without(runs []string, failed map[int]error) (problems []error) {
	for p, err := range failed {
		runs[p] = ""
		problems = append(problems, err)
	}
	return problems
}

// restoreKeys restores the Idempotency-Keys of partitions that may have lost some, and says in Redis that they are
// there: a partition whose server fails holds up no other. Where none was lost it only renews what it said, and that
// only with always.
func (l *Ledger) restoreKeys(ctx context.Context, runs []string, always bool) error {
	if len(l.reconciled) != len(runs) {
		l.reconciled = make([]string, len(runs))
	}
	home := func(key string) int { return job.Home(key, l.Partitions) }
	there := func(k job.KeyKept) bool { p := home(k.Key); return runs[p] == "" || l.reconciled[p] == runs[p] }
	stale := false
	for p, run := range runs {
		stale = stale || run != "" && l.reconciled[p] != run
	}
	if !stale && !always {
		return nil
	}
	runs = slices.Clone(runs)
	var problems []error
	for after := ""; stale; {
		keys, err := within(ctx, listPatience, func(ctx context.Context) ([]job.KeyKept, error) { return l.Journal.Keys(ctx, after, reconcilePage) })
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		after = keys[len(keys)-1].Key
		at := map[int][]job.KeyKept{}
		for _, k := range slices.DeleteFunc(keys, there) {
			at[home(k.Key)] = append(at[home(k.Key)], k)
		}
		for p, keys := range at {
			if _, err := twice(ctx, livePatience, func(ctx context.Context) (struct{}, error) {
				return struct{}{}, l.Restorer.RestoreKeys(ctx, keys, home)
			}); err != nil {
				runs[p] = "" // from here on it is passed over
				problems = append(problems, err)
			}
		}
	}
	marked, err := twice(ctx, livePatience, func(ctx context.Context) ([]int, error) { return l.Restorer.MarkKeys(ctx, runs) })
	for _, p := range marked {
		if l.Mover.KnownIncarnation(p) == runs[p] {
			l.reconciled[p] = runs[p]
		}
	}
	return errors.Join(append(problems, err)...)
}

// tidy deletes rows of jobs that have ended: another process ended them as the row was written, or a process of an
// earlier version did. It also deletes Idempotency-Keys that have expired, and gives promises of such processes their
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
