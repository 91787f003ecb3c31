package check

import "time"

// released is how much the time of a cancel of a waiting job, which a process takes from its last reading of Redis'
// clock, may differ from that clock.
const released = estimate

// flowOrder is S29: no job of a flow is claimed, or runs, before the outcome of each job that it waits for. That
// outcome is in SQL, whatever Redis forgot; so there is no excuse.
func flowOrder(b *book) {
	for _, id := range b.order {
		j := b.jobs[id]
		if j.submit == nil || len(j.submit.After) == 0 {
			continue
		}
		began, how := j.began()
		if began.IsZero() {
			continue
		}
		for _, key := range j.submit.After {
			parent := b.byKey[key]
			if parent == nil || len(parent.jobs) != 1 {
				continue // nobody knows the job: S1 has that
			}
			switch o := b.jobs[parent.jobs[0]].outcome(1); {
			case o == nil && !b.Rested.IsZero():
				b.say("S29", id, "it %s at %s, and %s, which it waits for, has no outcome", how, clock(began), parent.jobs[0])
			case o != nil && o.EndedAt.After(began.Add(released)):
				b.say("S29", id, "it %s at %s, and %s, which it waits for, ended at %s", how, clock(began), o.ID, clock(o.EndedAt))
			}
		}
	}
}

// began returns when a job was claimed or ran for the first time; the zero time = never.
func (j *entry) began() (began time.Time, how string) {
	how = "ran"
	if len(j.runs) > 0 {
		began = j.runs[0].Began
	}
	if o := j.outcome(1); o != nil && !o.FirstTriedAt.IsZero() && (began.IsZero() || o.FirstTriedAt.Before(began)) {
		began, how = o.FirstTriedAt, "was claimed"
	}
	return began, how
}
