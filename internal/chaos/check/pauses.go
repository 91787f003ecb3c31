package check

import (
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Pause is a pause of a tier. The servers said at Known that it was in force; it ended by itself at Ends.
type Pause struct {
	Tier        job.Tier
	Known, Ends time.Time
}

const (
	// lateClaim is how long after Known a claim may still be executed that a process sent before it had read the pause.
	lateClaim = 4 * time.Second
	// pauseSlack is how much before Ends a process' own reading of Redis' time may have ended the pause.
	pauseSlack = 500 * time.Millisecond
	// unread is how long before Known a process may have been frozen that did not read the pause: it is not listed when
	// it has been silent for a while, so that the servers do not wait for it.
	unread = 30 * time.Second
)

// pausesHold is S24: while a pause of a tier is known to be in force, no attempt of the tier's jobs starts. A Redis
// that has lost the pause, and a frozen process, are excuses.
func pausesHold(b *book) {
	for _, p := range b.Pauses {
		from, to := p.Known.Add(lateClaim), p.Ends.Add(-pauseSlack)
		froze := slices.ContainsFunc(b.Faults, func(f Fault) bool {
			return f.Froze != "" && f.overlaps(p.Known.Add(-unread), to)
		})
		if froze || b.forgot(p.Known.Add(-unread), to) {
			continue
		}
		for _, id := range b.order {
			for i := range b.jobs[id].outcomes {
				o := &b.jobs[id].outcomes[i]
				for _, a := range attemptsOf(o) {
					if o.Tier == p.Tier && a.from.After(from) && a.from.Before(to) {
						b.say("S24", id, "an attempt began at %s; %s was paused until %s, and that was known at %s",
							clock(a.from), p.Tier, clock(p.Ends), clock(p.Known))
					}
				}
			}
		}
	}
}
