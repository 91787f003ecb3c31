package ledger

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// A process that stood still between a promise and its script leaves the promise to others: the new life may be over by
// then, and Redis may have forgotten it.
func TestRequeue_StoodStill(t *testing.T) {
	for name, tc := range map[string]struct {
		call    string // of SQL, behind which it stands still
		requeue func(ctx context.Context, l *Ledger) error
	}{
		"one": {"promise", func(ctx context.Context, l *Ledger) error {
			return l.Requeue(ctx, someID, job.Request{ID: "mine"})
		}},
		"many": {"promises", func(ctx context.Context, l *Ledger) error {
			_, _, err := l.RequeueDead(ctx, job.Filter{}, 10, false, "")
			return err
		}},
	} {
		for _, still := range []time.Duration{0, time.Minute} {
			t.Run(name+" "+still.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, r, s := given(nil, archived(job.Failed, 1))
					s.after = func(call string) error {
						if call == tc.call {
							<-time.After(still)
						}
						return nil
					}
					err := tc.requeue(t.Context(), l)
					if s.rows[someID].RequestedAt.IsZero() {
						t.Fatalf("no promise was made: %v", err)
					}
					if kept := slices.Contains(r.calls, "requeue"); kept != (still == 0) {
						t.Errorf("kept: %v, %v; calls %v", kept, err, r.calls)
					}
				})
			})
		}
	}
}
