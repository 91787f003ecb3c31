package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// CheckOrder checks a run without faults against S7 and S8, by Redis' own times. Of two ready jobs of one partition the
// job of the better tier is claimed first, and within a tier the job that arrived first. Delayed and cancelled jobs,
// and those with a unique key, were not ready all the time and are left out, and so are jobs of flows and the then jobs
// of batches: they arrive when SQL lets them go, and come to Redis later. The check has no tolerance, however many jobs
// a claim takes: a claim takes the best ready jobs in one step.
func CheckOrder(e Evidence) []Violation {
	b := newBook(e)
	type class struct{ partition, priority int }
	lines := map[class][]*Outcome{}
	for _, id := range b.order {
		j := b.jobs[id]
		o := j.outcome(1)
		plan, ok := b.planOf(j)
		if !ok || o == nil || o.FirstTriedAt.IsZero() || o.Outcome == job.Cancelled || j.submit.Delay > 0 ||
			j.submit.Unique.Key != "" || j.submit.Flow != "" || j.isThen() {
			continue
		}
		c := class{id.Partition(), plan.Priority}
		lines[c] = append(lines[c], o)
	}
	for c, line := range lines {
		slices.SortFunc(line, func(x, y *Outcome) int {
			return cmp.Or(x.ArrivedAt.Compare(y.ArrivedAt),
				cmp.Compare(x.ID, y.ID))
		})
		b.fifo(line)
		for better, ahead := range lines {
			if better.partition == c.partition && better.priority < c.priority {
				b.tierOrder(ahead, line)
			}
		}
	}
	slices.SortFunc(b.report.Violations, func(x, y Violation) int {
		return cmp.Or(cmp.Compare(x.Invariant, y.Invariant), cmp.Compare(x.ID, y.ID))
	})
	return b.report.Violations
}

// fifo is S8: within a tier, no job that arrived later is tried first.
func (b *book) fifo(line []*Outcome) {
	var latest *Outcome // of the jobs that arrived earlier, the one that was claimed last
	for i := 0; i < len(line); {
		same := i
		for same < len(line) && line[same].ArrivedAt.Equal(line[i].ArrivedAt) {
			if latest != nil && line[same].FirstTriedAt.Before(latest.FirstTriedAt) {
				b.say("S8", line[same].ID, "arrived at %s and tried at %s, before %s, which arrived at %s",
					clock(line[same].ArrivedAt),
					clock(line[same].FirstTriedAt), latest.ID, clock(latest.ArrivedAt))
			}
			same++
		}
		for ; i < same; i++ {
			if latest == nil || line[i].FirstTriedAt.After(latest.FirstTriedAt) {
				latest = line[i]
			}
		}
	}
}

// tierOrder is S7: while a job of the better tier waits, no job of the worse tier is claimed.
func (b *book) tierOrder(better, worse []*Outcome) {
	better = slices.Clone(better)
	slices.SortFunc(better, func(x, y *Outcome) int { return x.ArrivedAt.Compare(y.ArrivedAt) })
	until := make([]time.Time, len(better)+1) // until[n] is the latest claim among the first n jobs
	for i, o := range better {
		if until[i+1] = until[i]; o.FirstTriedAt.After(until[i]) {
			until[i+1] = o.FirstTriedAt
		}
	}
	for _, o := range worse {
		before, _ := slices.BinarySearchFunc(better, o.FirstTriedAt,
			func(x *Outcome, t time.Time) int { return x.ArrivedAt.Compare(t) })
		if until[before].After(o.FirstTriedAt) {
			b.say("S7", o.ID, "%s was tried at %s, while a better tier waited until %s", o.Tier, clock(o.FirstTriedAt),
				clock(until[before]))
		}
	}
}
