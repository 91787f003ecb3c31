package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/failpoint"
	"github.com/tierq/tierq/internal/job"
)

const (
	keepPatience = 2 * time.Second // for a caller who waits while a promise is kept
	letterFresh  = 5 * time.Second // between a letter's reading and the script; older promises are the requeuer's to keep
	lateTries    = 3               // a call that came late is sent again with the time that Redis then told
)

var errWords = errors.New("another number of words than entries")

// Keep gives dead letters whose requeue was promised their new life, and marks it. It says of each whether its promise is kept; one that is
// not is kept at a later call: its old generation still lives, its tier has no plan, or a store did not answer, which alone is an error. It may
// be called twice, and by several processes at once: the script looks at the job again, and makes each generation once,
// as long as Redis knows it. So ctx ends soon after the letters were read: later that life may be over and forgotten.
func (l *Ledger) Keep(ctx context.Context, letters []job.DeadLetter) (kept []bool, err error) {
	kept = make([]bool, len(letters))
	at := make(map[job.ID]int, len(letters))
	ready := make([]job.DeadLetter, 0, len(letters))
	for i := range letters {
		if d := &letters[i]; l.served(d) {
			at[d.ID] = i
			ready = append(ready, *d)
		}
	}
	if len(ready) == 0 {
		return kept, nil
	}
	var problems []error
	id, weight := func(d *job.DeadLetter) job.ID { return d.ID }, func(d *job.DeadLetter) int { return len(d.Payload) + 512 }
	for p, batch := range job.Batches(ready, id, weight) {
		// Known before the script: a Redis that forgets what the script did has another one afterwards, and the mark shows it.
		run := l.Mover.KnownRun(p)
		var alive []job.DeadLetter
		err := l.restoreCancelled(ctx, p, batch)
		if err == nil {
			alive, err = l.revive(ctx, p, batch)
		}
		if err == nil && len(alive) > 0 {
			failpoint.Hit("requeue.after", alive[0].ID)
			_, err = twice(ctx, actPatience, func(ctx context.Context) (struct{}, error) {
				return struct{}{}, l.Promises.Requeued(ctx, alive, run)
			})
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		for i := range alive {
			kept[at[alive[i].ID]] = true
		}
	}
	return kept, errors.Join(problems...)
}

// Recall looks whether Redis began a new life since the last call, in any partition, which is also what the first call assumes, and promises
// again what the old one may have taken with it. It is cheap while nothing has changed. A partition that does not answer lives as it did.
func (l *Ledger) Recall(ctx context.Context) error {
	runs, unread := within(ctx, livePatience, l.Mover.RunIDs)
	for p, run := range runs {
		if run == "" {
			runs[p] = l.Mover.KnownRun(p)
		}
	}
	if len(runs) == 0 || slices.Contains(runs, "") { // what lives there is not known: everything would seem forgotten
		return fmt.Errorf("recall requeues: %w", unread)
	}
	known := l.runs.Load()
	if known != nil && slices.Equal(*known, runs) {
		return nil
	}
	again, err := within(ctx, listPatience, func(ctx context.Context) (int64, error) { return l.Promises.Reopen(ctx, runs) })
	if err != nil {
		return fmt.Errorf("recall requeues: %w", err)
	}
	if l.settled(runs) {
		l.runs.Store(&runs)
	}
	if again > 0 {
		l.Log.Warn("Redis began anew: requeues that it may have forgotten are made again", "jobs", again)
	}
	return nil
}

// settled says whether each of the runs may be noted by now. Until then what was sent may have reached the server before it, which does not
// know yet that it is not asked any more: it is looked at once more.
func (l *Ledger) settled(runs []string) bool {
	for p, run := range runs {
		if run != "" && l.Mover.KnownRun(p) != run {
			return false
		}
	}
	return true
}

// served says whether a dead letter can have a new life here; if not, the log has it.
func (l *Ledger) served(d *job.DeadLetter) bool {
	_, planned := l.Plans.Plan(d.Tier)
	if planned && l.ours(d.ID) {
		return true
	}
	l.Log.Warn("a dead letter cannot be requeued: its tier has no plan, or its partition is not ours", "job_id", d.ID, "tier", string(d.Tier))
	return false
}

// restoreCancelled gives back, as CANCELLED, those next generations whose cancel is in the journal. Redis may have lost
// them, and the script of a requeue would make them anew without the cancel.
func (l *Ledger) restoreCancelled(ctx context.Context, partition int, letters []job.DeadLetter) error {
	if l.Journal == nil {
		return nil
	}
	ids, next := make([]job.ID, len(letters)), make(map[job.ID]int, len(letters))
	for i := range letters {
		ids[i] = letters[i].ID
		next[ids[i]] = letters[i].Generation + 1
	}
	rows, err := within(ctx, archivePatience, func(ctx context.Context) ([]job.Living, error) {
		return l.Journal.LivingOf(ctx, ids)
	})
	if err != nil {
		return fmt.Errorf("requeue: %w", err)
	}
	rows = slices.DeleteFunc(rows, func(r job.Living) bool { return !r.CancelRequested || r.Generation != next[r.ID] })
	if len(rows) == 0 {
		return nil
	}
	_, _, err = l.restore(ctx, partition, rows)
	return err
}

// revive runs the script over one batch and returns the letters whose next generation exists now.
func (l *Ledger) revive(ctx context.Context, partition int, letters []job.DeadLetter) (alive []job.DeadLetter, err error) {
	for range lateTries {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("requeue: %w", err)
		}
		next := make([]job.Job, len(letters))
		for i := range letters {
			next[i] = letters[i].Job
			next[i].Generation++
		}
		words, err := twice(ctx, livePatience, func(ctx context.Context) ([]job.Word, error) { return l.Mover.Requeue(ctx, partition, next) })
		if err == nil && len(words) != len(letters) {
			err = errWords
		}
		if err != nil {
			return nil, fmt.Errorf("requeue: %w", err)
		}
		var late []job.DeadLetter
		for i, w := range words {
			switch w {
			case job.OK, job.Duplicate:
				alive = append(alive, letters[i])
			case job.Late:
				late = append(late, letters[i])
			case job.Busy:
				l.Log.Info("a promised requeue waits for the old generation", "job_id", letters[i].ID)
			default:
				return nil, fmt.Errorf("requeue %s: unexpected word %q", letters[i].ID, w)
			}
		}
		if letters = late; len(letters) == 0 {
			break
		}
	}
	return slices.Clip(alive), nil
}
