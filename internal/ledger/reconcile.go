package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
// there is left as it is. Each partition is compared with the life of its own server; one that does not answer holds up no other, and is
// an error in the end. It says how many jobs were missing, and with done false that another process is at it. Several processes may call it at
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
	if err = errors.Join(unread, failed, unasked, err, l.sweep(ctx)); err != nil {
		return restored, false, fmt.Errorf("reconcile: %w", err)
	}
	return restored, true, nil
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
		n, tried, failed := l.giveBack(ctx, page, runs)
		restored += n
		for p, err := range failed {
			runs[p] = ""
			problems = append(problems, err)
		}
		if !tried { // nobody is there to take these, and hardly those behind them
			return restored, errors.Join(problems...)
		}
		_, _ = l.mine(ctx) // one page more for whoever else begins
	}
}

// GiveBack restores rows that were read just now, and notes them as known to these runs of Redis, which were read before. It says how many were
// missing.
func (l *Ledger) GiveBack(ctx context.Context, rows []job.Living, runs []string) (restored int, err error) {
	restored, _, failed := l.giveBack(ctx, rows, runs)
	return restored, errors.Join(slices.Collect(maps.Values(failed))...)
}

// giveBack is GiveBack partition by partition; those without a run are left out. tried says whether any of the rows was sent.
func (l *Ledger) giveBack(ctx context.Context, rows []job.Living, runs []string) (restored int, tried bool, failed map[int]error) {
	ours := rows[:0:0]
	for i := range rows {
		switch {
		case !l.ours(rows[i].ID):
			tried = true // as far as it goes
			l.Log.Error("a journaled job is of a partition that this cluster does not have", "job_id", rows[i].ID)
		case runs[rows[i].ID.Partition()] != "":
			ours = append(ours, rows[i])
		}
	}
	failed = map[int]error{}
	id, weight := func(r *job.Living) job.ID { return r.ID }, func(r *job.Living) int { return len(r.Payload) + 512 }
	for p, batch := range job.Batches(ours, id, weight) {
		if failed[p] != nil {
			continue
		}
		there, missing, err := l.restore(ctx, p, batch)
		restored += missing
		if err == nil && l.Mover.KnownRun(p) == runs[p] { // otherwise it is noted at a later look
			_, err = within(ctx, actPatience, func(ctx context.Context) (struct{}, error) {
				return struct{}{}, l.Journal.Found(ctx, there, runs[p])
			})
		}
		if err != nil {
			failed[p] = err
		}
	}
	return restored, tried || len(ours) > 0, failed
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
		run := l.Mover.KnownRun(id.Partition())
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
