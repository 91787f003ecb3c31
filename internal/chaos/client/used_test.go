package client

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// An Idempotency-Key is used again by its own caller only, while it is young or after it has expired, and not in
// between.
func TestUsedKeys(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 1))
	now := time.Now()
	u := &usedKeys{}
	u.add(usedKey{"another's", 1, now.Add(-80 * time.Second)})
	u.add(usedKey{"old", 0, now.Add(-70 * time.Second)})
	u.add(usedKey{"doubtful", 0, now.Add(-59 * time.Second)})
	u.add(usedKey{"young", 0, now})
	expired := now.Add(-68 * time.Second)
	if once, late := u.take(0, expired, dice); once != "old" || !late {
		t.Errorf("first %q, late: %t", once, late)
	}
	soon := map[string]bool{}
	for range 100 {
		once, late := u.take(0, expired, dice)
		if late {
			t.Errorf("%q is taken for expired", once)
		}
		soon[once] = true
	}
	if len(soon) != 2 || !soon["young"] || !soon[""] {
		t.Errorf("used young: %v", soon)
	}
	if once, late := u.take(1, expired, dice); once != "another's" || !late {
		t.Errorf("another's %q, late: %t", once, late)
	}
}

// AddTier makes the load submit in the new tier as in the others.
func TestAddTier(t *testing.T) {
	t.Parallel()
	l, err := New(Options{Tiers: []job.Tier{job.Paid}})
	if err != nil {
		t.Fatal(err)
	}
	l.AddTier("ADDED")
	drawn := map[job.Tier]int{}
	for range 100 {
		drawn[l.tier(l.dice(drawn[job.Paid]))]++
	}
	if drawn["ADDED"] == 0 || drawn[job.Paid] == 0 || len(drawn) != 2 {
		t.Errorf("drawn %v", drawn)
	}
}
