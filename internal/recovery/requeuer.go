package recovery

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Promised lists requeues that were promised at least so long ago and not yet kept, whole, the oldest first.
type Promised interface {
	Promised(ctx context.Context, olderThan time.Duration, limit int) ([]job.DeadLetter, error)
}

// Keeper gives promised dead letters their new life, and says of each whether its promise is kept now. It may be told twice.
type Keeper interface {
	Keep(ctx context.Context, letters []job.DeadLetter) (kept []bool, err error)
	// Recall makes promises again of requeues that a Redis which began anew may have forgotten.
	Recall(ctx context.Context) error
}

// promiseAge is how old a promise must be: before that, who made it is about to keep it.
const promiseAge = 5 * time.Second

// maxStayed bounds what is read again and passed over in one run: promises that cannot be kept yet.
const maxStayed = 4 * job.MaxBatch

var requeuePace = Pace{Floor: 5 * time.Second, Ceiling: 30 * time.Second}

// Requeuer keeps the promises that a crash, or a Redis that did not answer, left between a promise and its mark.
type Requeuer struct {
	*Loop
	promised Promised
	keeper   Keeper
	log      *slog.Logger
	wait     time.Duration
}

// NewRequeuer makes a requeuer.
func NewRequeuer(p Promised, k Keeper, log *slog.Logger) *Requeuer {
	r := &Requeuer{promised: p, keeper: k, log: log, wait: requeuePace.Floor}
	r.Loop = NewLoop(r.runOnce)
	return r
}

func (r *Requeuer) runOnce(ctx context.Context) time.Duration {
	err := r.recall(ctx)
	kept, keeping := r.keep(ctx)
	err = errors.Join(err, keeping)
	if kept > 0 {
		r.log.Info("kept promised requeues", "jobs", kept)
	}
	r.wait = requeuePace.next(r.wait, err != nil)
	if err != nil && ctx.Err() == nil {
		r.log.Warn("keeping promised requeues failed", "err", err, "next_in", r.wait)
	}
	return r.wait
}

// keep goes through the promises once. Those that cannot be kept yet stay the oldest, so each page is longer by as many as stayed: they hold
// up nobody behind them. An error ends the run after its page.
func (r *Requeuer) keep(ctx context.Context) (total int, err error) {
	stayed := map[life]bool{}
	for range maxPages {
		letters, kept, err := r.round(ctx, stayed)
		if len(letters) == 0 {
			return total, err
		}
		for i := range letters {
			if i < len(kept) && kept[i] {
				total++
			} else {
				stayed[life{letters[i].ID, letters[i].Generation}] = true
			}
		}
		if err != nil || len(stayed) > maxStayed || len(letters) < job.MaxBatch {
			return total, err
		}
	}
	return total, nil
}

// life is one generation of a job.
type life struct {
	id         job.ID
	generation int
}

// round reads a page of promises, without those that stayed, and keeps them. Both have one bound: a process that stood
// still between the two keeps nothing that may be over and forgotten by now.
func (r *Requeuer) round(ctx context.Context, stayed map[life]bool) (letters []job.DeadLetter, kept []bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout+recordTimeout)
	defer cancel()
	page, err := r.page(ctx, job.MaxBatch+len(stayed))
	if err != nil {
		return nil, nil, err
	}
	for i := range page {
		if !stayed[life{page[i].ID, page[i].Generation}] {
			letters = append(letters, page[i])
		}
	}
	if len(letters) > 0 {
		kept, err = r.fulfil(ctx, letters)
	}
	return letters, kept, err
}

func (r *Requeuer) recall(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	return r.keeper.Recall(ctx)
}

func (r *Requeuer) page(ctx context.Context, limit int) ([]job.DeadLetter, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.promised.Promised(ctx, promiseAge, limit)
}

func (r *Requeuer) fulfil(ctx context.Context, letters []job.DeadLetter) ([]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	return r.keeper.Keep(ctx, letters)
}
