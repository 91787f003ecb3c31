package admission

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func TestHints(t *testing.T) {
	for name, c := range map[string]struct {
		rate         float64
		fresh, limit int64
		delayed      bool
		full, hint   time.Duration
	}{
		"1 % of the limit drains in 2.5 s": {rate: 40, fresh: 10000, limit: 10000, full: 2500 * time.Millisecond,
			hint: time.Minute},
		"what is over the limit goes first": {rate: 500, fresh: 9000, limit: 6000, full: 6120 * time.Millisecond,
			hint: 18002 * time.Millisecond},
		"a small limit: one job": {rate: 0.5, fresh: 3, limit: 3, full: 2 * time.Second, hint: 8 * time.Second},
		"a stale load, below the limit": {rate: 10, fresh: 5000, limit: 10000, full: 10 * time.Second,
			hint: time.Minute},
		"fast": {rate: 1e6, fresh: 10000, limit: 10000, full: time.Second, hint: time.Second},
		"slow": {rate: 1e-9, fresh: 1, limit: math.MaxInt64, full: time.Minute,
			hint: time.Minute},
		"no load known": {rate: 0.25, full: 4 * time.Second, hint: 4 * time.Second},
		"no rate":       {fresh: 10000, limit: 10000, full: 5 * time.Second, hint: time.Second},
		"a rate that is no number": {rate: math.NaN(), fresh: 10000, limit: 10000, full: 5 * time.Second,
			hint: time.Second},
		"scheduled ones leave by the clock": {rate: 40, fresh: 100, limit: 10000, delayed: true, full: 5 * time.Second,
			hint: 2525 * time.Millisecond},
		"a rate measured over a counter reset": {rate: -3, fresh: 100, limit: 100, full: 5 * time.Second, hint: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, _ := begin(t, &fakeQueue{answer: script(job.Full)}, 1)
				a.drain = drain{rate: func() float64 { return c.rate }, load: func(tier job.Tier) (int64, int64) {
					if tier != job.Unpaid {
						t.Errorf("asked for %s", tier)
					}
					return c.fresh, c.limit
				}}
				s := job.Submission{Tier: job.Unpaid}
				if c.delayed {
					s.Delay = time.Hour
				}
				_, err := a.Submit(t.Context(), s)
				var refusal *Refusal
				if !errors.As(err, &refusal) || !errors.Is(err, job.ErrQueueFull) || refusal.RetryIn() != c.full {
					t.Errorf("%v, retry in %v, want %v", err, refusal.RetryIn(), c.full)
				}
				if got := a.Hint(job.Unpaid); got != c.hint {
					t.Errorf("hint %v, want %v", got, c.hint)
				}
			})
		})
	}
	t.Run("nobody measures", func(t *testing.T) {
		a := New(Options{Plans: &job.PlanBook{}, Gate: NewGate(GateOptions{})})
		if hint, full := a.Hint(job.Paid), a.drain.room(&job.Submission{}); hint != time.Second || full != 5*time.Second {
			t.Errorf("hint %v, full %v", hint, full)
		}
	})
}
