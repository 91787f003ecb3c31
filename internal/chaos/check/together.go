package check

import (
	"slices"
	"time"
)

// together is how long two handlers may seem to run at once. A process ends its handler two seconds before another
// process may have the job.
const together = time.Second

// oneAtATime is the second part of S5: while a handler runs, no other handler runs the same job. There are three
// exceptions: a process that stands still cannot end its handler in time, a handler may ignore its context, and a
// Redis that forgot may hand out a job again. A worker of another program may work on after the end of its lease.
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

// mayOverlap says whether a fault explains that one handler still ran when another began.
func (b *book) mayOverlap(before, r *Run) bool {
	if before.Lease > 0 && !r.Began.Before(before.Held) {
		return true
	}
	return slices.ContainsFunc(b.Faults, func(f Fault) bool {
		frozen := (f.Kind == "F10" || f.Kind == "F12") && f.Target == before.Worker && f.overlaps(before.Began, before.Ended)
		return frozen || f.ForgetsAcked && f.overlaps(before.Began.Add(-claimLead), r.Began)
	})
}
