package auth

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// An API key may have a bounded number of Idempotency-Keys at once, over all processes, and one more when one of
// them has expired. Another API key has its own number, and callers without an API key are not counted.
func TestSpendIdempotency(t *testing.T) {
	t.Attr("proves", "A29")
	options := DoorsOptions{Idempotency: 10, KeepIdempotency: 100 * time.Second}
	inDoors(t, options, func(t *testing.T, d *Doors, _ *desk) {
		other := NewDoors(d.opts) // another process
		mine := job.Caller{Key: job.Key{ID: "mine", Role: job.RoleSubmit}}
		passes := func(d *Doors, c job.Caller, n int) bool { return d.SpendIdempotency(t.Context(), &c, n).RetryIn <= 0 }
		for i, want := range []struct {
			d    *Doors
			n    int
			pass bool
		}{{d, 4, true}, {other, 4, true}, {d, 3, false}, {d, 2, true}, {other, 1, false}} {
			if passes(want.d, mine, want.n) != want.pass {
				t.Errorf("ask %d, for %d: passes is not %v", i, want.n, want.pass)
			}
		}
		for name, c := range map[string]job.Caller{
			"another key": {Key: job.Key{ID: "theirs"}}, "open": {Open: true}, "a stranger": {},
		} {
			if !passes(d, c, 10) {
				t.Errorf("%s is refused", name)
			}
		}
		within(10 * time.Second) // a tenth of the time for which a key is stored
		if !passes(d, mine, 1) || passes(d, mine, 1) {
			t.Error("ten seconds later not exactly one more passes")
		}
	})
}

// A process takes some keys in advance, so that not every submit calls the store. The store counts them as spent.
func TestSpendIdempotency_TakesSomeForLater(t *testing.T) {
	options := DoorsOptions{Idempotency: 20_000, KeepIdempotency: time.Hour}
	inDoors(t, options, func(t *testing.T, d *Doors, _ *desk) {
		mine := job.Caller{Key: job.Key{ID: "mine"}}
		asked := 0
		for range 210 {
			if a := d.SpendIdempotency(t.Context(), &mine, 1); a.Limited {
				asked++
			}
		}
		if asked != 10 {
			t.Errorf("210 submits asked the store %d times, not once for each 21", asked)
		}
	})
}
