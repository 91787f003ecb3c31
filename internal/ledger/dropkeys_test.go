package ledger

import "testing"

// Expired Idempotency-Keys are dropped until none is left: within one call as many as it may, then in the next ones,
// which come soon because this one says that it is not done.
func TestReconcile_DropsExpiredKeysUntilNoneIsLeft(t *testing.T) {
	l, _, j := journaled(0)
	j.expired = 2*dropRounds + 1
	for calls, left := range []int{dropRounds + 1, 1, 0} {
		_, done, err := l.Reconcile(t.Context())
		if err != nil || done != (left == 0) || j.expired != left {
			t.Errorf("call %d: done %v, %v; %d keys are left, not %d", calls+1, done, err, j.expired, left)
		}
	}
}
