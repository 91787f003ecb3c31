package ledger

import (
	"testing"
	"testing/synctest"
)

// Expired Idempotency-Keys are dropped until none is left: each Reconcile drops as many as it may. After that the
// ledger waits a minute until it looks again.
func TestReconcile_DropsExpiredKeysUntilNoneIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, j := journaled(0)
		j.expired = 2*dropRounds + 1
		for calls, left := range []int{dropRounds + 1, 1, 0} {
			if _, err := l.Reconcile(t.Context()); err != nil || j.expired != left {
				t.Errorf("call %d: %v; %d keys are left, not %d", calls+1, err, j.expired, left)
			}
		}
		j.expired = 1
		for _, left := range []int{1, 0} {
			if _, err := l.Reconcile(t.Context()); err != nil || j.expired != left {
				t.Errorf("%v; %d keys are left, not %d", err, j.expired, left)
			}
			sleep(tidyEvery)
		}
		if j.sql.adopts != 5-1 {
			t.Errorf("promises without rows were looked for %d times", j.sql.adopts)
		}
	})
}
