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
	// sweepPages bounds what one Reconcile looks at for rows that outlived their jobs; the next one goes on from there.
	sweepPages = 20
	// dropRounds bounds how many calls of DropKeys one Reconcile makes: what Redis forgot must not wait for a long
	// sweep.
	dropRounds = 20
)

// Reconcile gives back to Redis what the journal has and it forgot: jobs, with their arrival, generation and retries, and Idempotency-Keys. What is
// there is left as it is. Each partition is compared with the life of its own server; one that does not answer holds up no other, and is
// an error in the end. It says how many jobs were missing, and with done false that another process is at it, or that
// more keys have expired than one call deletes. Several processes may call it at
// once, each one call at a time; while nothing is missing it is a cheap read. Requeued lives without a row are Recall's.
func (l *Ledger) Reconcile(ctx context.Context) (restored int, done bool, err error) {
	if l.Journal == nil {
		return 0, true, nil
	}
	// Read before anything is looked for: a Redis that loses what follows has another one.
	runs, unread := within(ctx, livePatience, l.Mover.RunIDs)
	if !slices.ContainsFunc(runs, func(run string) bool { return run != "" }) {
		return 0, false, fmt.Errorf("reconcile: %w", unread)
	}
	failed := l.giveBackKeys(ctx, runs) // whoever else is at it: submits with a key wait for it
	mine, unasked := l.mine(ctx)
	if unasked == nil && !mine {
		if failed != nil {
			failed = fmt.Errorf("reconcile: %w", failed)
		}
		return 0, false, failed
	}
	// A lease that cannot be had is no reason to wait: it saves work, and its server may be the one that is away.
	restored, err = l.giveBackLost(ctx, runs)
	if restored > 0 {
		l.Log.Warn("jobs were given back to Redis from the journal", "jobs", restored)
	}
	swept, unswept := l.sweep(ctx)
	if err = errors.Join(unread, failed, unasked, err, unswept); err != nil {
		return restored, false, fmt.Errorf("reconcile: %w", err)
	}
	return restored, swept, nil
}

func (l *Ledger) mine(ctx context.Context) (bool, error) {
	return within(ctx, livePatience, func(ctx context.Context) (bool, error) { return l.Restorer.Lease(ctx, "reconcile", reconcileLease) })
}

// giveBackLost looks for the rows of each life that is over.
func (l *Ledger) giveBackLost(ctx context.Context, runs []string) (restored int, err error) {
	named, err := within(ctx, listPatience, l.Journal.Runs)
	if err != nil {
		return 0, err
	}
	present := slices.Clone(runs)
	for p, run := range runs {
		if run == "" { // as far as is known it lives
			present = append(present, l.Mover.KnownRun(p))
		}
	}
	runs = slices.Clone(runs)
	var problems []error
	for _, run := range named {
		if run != "" && slices.Contains(present, run) {
			continue
		}
		n, err := l.giveBackRun(ctx, run, runs)
		restored += n
		problems = append(problems, err)
	}
	return restored, errors.Join(problems...)
}

// giveBackRun gives back the rows of one life. A partition whose server fails on the way has no run from then on.
func (l *Ledger) giveBackRun(ctx context.Context, lost string, runs []string) (restored int, err error) {
	var problems []error
	after := job.ID("")
	for {
		page, err := within(ctx, listPatience, func(ctx context.Context) ([]job.Living, error) {
			return l.Journal.Lost(ctx, lost, after, reconcilePage)
		})
		if err != nil || len(page) == 0 {
			return restored, errors.Join(append(problems, err)...)
		}
		after = page[len(page)-1].ID
		ours := l.present(page, runs)
		lost, failed := l.unknown(ctx, ours, runs)
		problems = append(problems, without(runs, failed)...)
		if len(lost) > 0 {
			// Read once more: a row that is still without an outcome after Redis did not know its job is of a job that has not ended.
			rows, err := within(ctx, listPatience, func(ctx context.Context) ([]job.Living, error) { return l.Journal.LivingOf(ctx, lost) })
			if err != nil {
				return restored, errors.Join(append(problems, err)...)
			}
			n, failed := l.giveBack(ctx, l.present(rows, runs), runs)
			restored += n
			problems = append(problems, without(runs, failed)...)
		}
		if len(ours) == 0 && slices.ContainsFunc(page, func(r job.Living) bool { return l.ours(r.ID) }) {
			return restored, errors.Join(problems...) // nobody is there to take these, and hardly those behind them
		}
		_, _ = l.mine(ctx) // one page more for whoever else begins
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

// giveBackKeys restores the Idempotency-Keys of partitions that may have lost some, and says in Redis that they are there: a partition whose server
// fails holds up no other.
func (l *Ledger) giveBackKeys(ctx context.Context, runs []string) error {
	if len(l.reconciled) != len(runs) {
		l.reconciled = make([]string, len(runs))
	}
	home := func(key string) int { return job.Home(key, l.Partitions) }
	there := func(k job.KeyKept) bool { p := home(k.Key); return runs[p] == "" || l.reconciled[p] == runs[p] }
	stale := false
	for p, run := range runs {
		stale = stale || run != "" && l.reconciled[p] != run
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
		if l.Mover.KnownRun(p) == runs[p] {
			l.reconciled[p] = runs[p]
		}
	}
	return errors.Join(append(problems, err)...)
}

// sweep deletes rows that came in after their job's outcome: another process had ended it by then. It also deletes
// Idempotency-Keys that have expired; whole says that it came to the end of these.
func (l *Ledger) sweep(ctx context.Context) (whole bool, err error) {
	for range sweepPages {
		next, err := within(ctx, listPatience, func(ctx context.Context) (job.ID, error) {
			next, _, err := l.Journal.Sweep(ctx, l.swept, reconcilePage)
			return next, err
		})
		if err != nil {
			return false, err
		}
		if l.swept = next; next == "" {
			break
		}
	}
	for range dropRounds {
		more, err := within(ctx, listPatience, func(ctx context.Context) (bool, error) {
			_, more, err := l.Journal.DropKeys(ctx)
			return more, err
		})
		if err != nil || !more {
			return err == nil, err
		}
	}
	return false, nil
}
