package ledger

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// A process stops between a promise and its script. Meanwhile another process fulfils the promise, the next
// generation ends, and Redis forgets it. When the first process goes on, that generation does not begin again. A
// promise that no other process fulfilled is fulfilled now.
func TestRequeue_StoodStill(t *testing.T) {
	for name, requeue := range map[string]func(ctx context.Context, l *Ledger) error{
		"one": func(ctx context.Context, l *Ledger) error { return l.Requeue(ctx, someID, job.Request{ID: "mine"}) },
		"many": func(ctx context.Context, l *Ledger) error {
			_, _, err := l.RequeueDead(ctx, job.Filter{}, 10, false, "")
			return err
		},
	} {
		for where, still := range map[string]func(s *fakeSQL, stand func()){
			"after the promise": func(s *fakeSQL, stand func()) {
				s.after = func(call string) error {
					if call == "promise" {
						stand()
					}
					return nil
				}
			},
			"after its row was read": func(s *fakeSQL, stand func()) { s.living.readRows = stand },
		} {
			for _, kept := range []bool{false, true} {
				t.Run(name+" "+where, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						l, r, s := given(nil, archived(job.Failed, 1))
						stood := false
						still(s, func() {
							if stood {
								return
							}
							stood = true
							if kept {
								s.living.ended[someID] = true
							}
							sleep(time.Minute)
						})
						_ = requeue(t.Context(), l)
						if s.rows[someID].RequestedAt.IsZero() || !stood {
							t.Fatal("no promise was made, or it did not stand still")
						}
						if _, back := r.jobs[someID]; back && kept {
							t.Error("a life that is over began again")
						}
						if kept {
							return
						}
						if _, err := l.Reconcile(t.Context()); err != nil || r.jobs[someID].Generation != 2 {
							t.Errorf("nobody kept it: %v, %+v", err, r.jobs[someID])
						}
					})
				})
			}
		}
	}
}

func sleep(d time.Duration) { <-time.After(d) }
