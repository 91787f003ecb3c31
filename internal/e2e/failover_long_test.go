//go:build long

package e2e

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/testkit"
)

// Ten failovers under load, with and without the journal. Under sentinels every second failover is ordered: the
// old master stays up and accepts calls until it learns that it is a replica; then it refuses them. The log has
// the losses of each, and the table of docs/operations/DURABILITY.md their sums.
func TestManyFailovers(t *testing.T) {
	t.Attr("proves", "F24")
	for _, tc := range []struct {
		name       string
		open       func(t *testing.T) replicated
		partitions int
		journal    bool
	}{
		{"cluster", func(t *testing.T) replicated { return clustered{testkit.NewCluster(t, 3)} }, 6, false},
		{"cluster, journal", func(t *testing.T) replicated { return clustered{testkit.NewCluster(t, 3)} }, 6, true},
		{"sentinels", func(t *testing.T) replicated { return watched{testkit.NewSentinel(t)} }, 1, false},
		{"sentinels, journal", func(t *testing.T) replicated { return watched{testkit.NewSentinel(t)} }, 1, true},
	} {
		t.Run(tc.name, func(t *testing.T) { // one after the other, because each needs the machine
			f := newFleet(t, tc.open(t), tc.partitions, tc.journal)
			f.submitting(3)
			var losses []*loss
			for i := range 10 {
				var l *loss
				if w, ok := f.stores.(watched); ok && i%2 == 1 {
					l = f.order(w)
				} else {
					l = f.kill(5, nil)
				}
				losses = append(losses, l)
				if tc.journal {
					f.back(l)
				}
				f.flows(l.had, 20, "by the promoted")
				if i%2 == 0 || tc.partitions > 1 {
					f.must(l.dead.Restart())
				}
			}
			lost := f.rest(losses...)
			answered := 0
			for _, l := range losses {
				answered += l.answered
			}
			t.Logf("ten failovers: %d lost of %d accepted; %d were accepted while no replica heard of it", len(lost),
				len(f.when), answered)
		})
	}
}

// order makes the sentinels swap the master and its replica.
func (f *fleet) order(w watched) *loss {
	f.t.Helper()
	w.Settled(f.t)
	l := &loss{dead: w.Master(), its: map[int]bool{0: true}, cut: time.Now()}
	heir := w.Other(l.dead)
	c := redis.NewClient(&redis.Options{Addr: w.Watchers()[0].Addr()})
	defer func() { _ = c.Close() }()
	testkit.Eventually(f.t, 30*time.Second, "the sentinels take the order", func() (bool, string) {
		err := c.Do(f.t.Context(), "SENTINEL", "FAILOVER", "tierq").Err()
		return err == nil, "refused"
	})
	before := f.accepted(l.had)
	testkit.Eventually(f.t, 30*time.Second, "they change places", func() (bool, string) { return w.Master() == heir, "" })
	w.Settled(f.t)
	l.until, l.answered = time.Now(), f.accepted(l.had)-before
	f.t.Logf("evidence: %s follows %s", l.dead.Addr(), heir.Addr())
	return l
}
