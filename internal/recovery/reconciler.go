package recovery

import (
	"context"
	"log/slog"
	"time"
)

// Reconciling gives back to Redis what it forgot, as far as the journal has it. done false: another process is at it,
// or there is more to sweep than one call does.
type Reconciling interface {
	Reconcile(ctx context.Context) (restored int, done bool, err error)
}

const (
	reconcileEvery = time.Minute
	reconcileSoon  = 5 * time.Second // after an error, or while it is not done
	reconcileBound = 10 * time.Minute
)

// Reconciler looks once a minute whether Redis forgot jobs; whoever sees Redis come back wakes it.
type Reconciler struct {
	*Loop
	ledger Reconciling
	log    *slog.Logger
}

// NewReconciler makes a reconciler.
func NewReconciler(l Reconciling, log *slog.Logger) *Reconciler {
	r := &Reconciler{ledger: l, log: log}
	r.Loop = NewLoop(r.runOnce)
	return r
}

func (r *Reconciler) runOnce(ctx context.Context) time.Duration {
	call, cancel := context.WithTimeout(ctx, reconcileBound)
	defer cancel()
	_, done, err := r.ledger.Reconcile(call)
	if err != nil && ctx.Err() == nil {
		r.log.Warn("the journal and Redis could not be compared", "err", err, "next_in", reconcileSoon)
	}
	if err != nil || !done {
		return reconcileSoon
	}
	return reconcileEvery
}
