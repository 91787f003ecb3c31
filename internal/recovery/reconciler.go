package recovery

import (
	"context"
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/loop"
)

// Reconciling restores the jobs that SQL has and Redis lacks.
type Reconciling interface {
	Reconcile(ctx context.Context) (restored int, err error)
}

const reconcileBound = 10 * time.Minute

var reconcilePace = loop.Pace{Floor: 5 * time.Second, Ceiling: 30 * time.Second}

// Reconciler checks every five seconds whether SQL has jobs that Redis lacks, and less often while a store does
// not answer. A caller that sees Redis come back wakes it.
type Reconciler struct {
	*loop.Loop
	ledger Reconciling
	log    *slog.Logger
	wait   time.Duration
}

// NewReconciler makes a reconciler.
func NewReconciler(l Reconciling, log *slog.Logger) *Reconciler {
	r := &Reconciler{ledger: l, log: log, wait: reconcilePace.Floor}
	r.Loop = loop.New(r.runOnce)
	return r
}

func (r *Reconciler) runOnce(ctx context.Context) time.Duration {
	call, cancel := context.WithTimeout(ctx, reconcileBound)
	defer cancel()
	_, err := r.ledger.Reconcile(call)
	r.wait = reconcilePace.Next(r.wait, err != nil)
	if err != nil && ctx.Err() == nil {
		r.log.Warn("SQL and Redis could not be compared", "err", err, "next_in", r.wait)
	}
	return r.wait
}
