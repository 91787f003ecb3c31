package sim

import (
	"fmt"

	"github.com/tierq/tierq/internal/queue"
)

// spending is what Redis must have of a line, or of a tier, in a minute: how many attempts ended, their worker time in
// ms, and from when on it counts.
type spending struct{ ended, ms, since int64 }

// spent are the spendings of all minutes, by the key in Redis and the name of the line or the tier.
type spent map[[2]string]*spending

// spends adds an attempt of a job that ends now to the minutes in which it ran, the last six at most.
func (s *shadow) spends(k *known) {
	if k.line == "" {
		return
	}
	const minute = 60_000
	now := s.w.ms()
	for m := max(k.lease.since/minute, now/minute-5); m <= now/minute; m++ {
		key := fmt.Sprint(queue.Key(k.id.Partition(), "lines"), "spent:", m)
		since := max(k.lease.since, m*minute)
		for _, name := range []string{k.lineName(), string(k.tier.Tier)} {
			of := s.spent[[2]string{key, name}]
			if of == nil {
				of = &spending{since: since}
				s.spent[[2]string{key, name}] = of
			}
			of.ms, of.since = of.ms+min(now, (m+1)*minute)-since, min(of.since, since)
			if m == now/minute {
				of.ended++
			}
			s.spentNow = append(s.spentNow, [2]string{key, name})
		}
	}
}

// checkSpent compares what Redis has of the lines whose attempts the last call ended.
func (s *shadow) checkSpent() {
	for _, at := range s.spentNow {
		of := s.spent[at]
		want := fmt.Sprint(of.ended, " ", of.ms, " ", of.since)
		if got, _ := s.w.store.do("HGET", at[0], at[1]); fmt.Sprint(got) != want {
			s.wrong("S27", "%s spent %v in %s, not %s", at[1], got, at[0], want)
		}
	}
	s.spentNow = nil
}
