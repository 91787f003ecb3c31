package check

import (
	"slices"
	"time"
)

// together is how long two handlers may seem to run at once: a process ends its handler two seconds before anybody else
// may have the job.
const together = time.Second

// oneAtATime is the other half of S5: while a handler runs, the job is nobody else's. A process that stands still
// cannot end its handler in time, a handler may ignore that it is told to end, and a Redis that forgot gives out what
// it had given out.
func oneAtATime(b *book) {
	for _, id := range b.order {
		j := b.jobs[id]
		if j.submit == nil || j.submit.Hangs {
			continue
		}
		for i := range j.runs {
			for k := range j.runs {
				before, r := &j.runs[k], &j.runs[i]
				if k == i || r.Began.Before(before.Began) || !before.Ended.After(r.Began.Add(together)) || b.mayOverlap(before, r) {
					continue
				}
				b.say("S5", id, "attempt %d began at %s in process %s, while attempt %d ran in process %s, from %s to %s",
					r.Attempt, clock(r.Began), r.Worker,
					before.Attempt, before.Worker, clock(before.Began), clock(before.Ended))
			}
		}
	}
}

// mayOverlap says whether a fault let a handler run on when another had begun.
func (b *book) mayOverlap(before, r *Run) bool {
	return slices.ContainsFunc(b.Faults, func(f Fault) bool {
		frozen := (f.Kind == "F10" || f.Kind == "F12") && f.Target == before.Worker && f.overlaps(before.Began, before.Ended)
		return frozen || f.ForgetsAcked && f.overlaps(before.Began.Add(-claimLead), r.Began)
	})
}
