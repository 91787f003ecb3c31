package check

import (
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// takenForDead is the second part of S14: an attempt that ended with HeartbeatStopped belongs to a process that a
// fault killed, froze or cut off. It also finds attempts that never ran: a claim that no process knows of, or one
// look of the watch too few.
func takenForDead(b *book) {
	crashed := b.ownCrashes()
	for i := range b.Outcomes {
		o := &b.Outcomes[i]
		for _, t := range o.Tries {
			pid := process(t.Worker)
			if t.Outcome != string(job.HeartbeatStopped) || pid == "" || t.StartedAt.IsZero() {
				continue
			}
			from := b.sent(t.StartedAt)
			if f, ok := crashed[pid]; ok && f.overlaps(from, t.FinishedAt) {
				continue
			}
			excused := false
			for n := range b.Faults {
				f := &b.Faults[n]
				of := f.Target == pid || f.Target == "" || f.Target == "redis" || f.Target == "mysql"
				excused = excused || f.Repeats && of && f.overlaps(from, t.FinishedAt) && !b.drains(f)
			}
			if !excused {
				b.say("S14", o.ID, "attempt %d, of %s to %s, was taken for dead, and nothing had happened to process %s",
					t.Number, clock(t.StartedAt), clock(t.FinishedAt), pid)
			}
		}
	}
}

// drains says whether the fault asked a server to stop once, with no fault of Redis in the way. Such a server
// gives back its jobs, and no attempt is spent (L7).
func (b *book) drains(f *Fault) bool {
	if f.Kind != "F09" || strings.Contains(f.What, "twice") {
		return false
	}
	for i := range b.Faults {
		other := &b.Faults[i]
		if (other.Target == "redis" || other.Target == "") && other.overlaps(f.From.Add(-claimLead), f.To) &&
			other.Kind != "F47" && other.Kind != "F55" {
			return false
		}
	}
	return true
}

// sent returns when the claim that Redis executed at a time may have been sent. A Redis that stands still executes
// what was sent meanwhile when it goes on, even for a process that is dead by then.
func (b *book) sent(claimed time.Time) time.Time {
	from := claimed.Add(-claimLead)
	for i := range b.Faults {
		f := &b.Faults[i]
		if f.Target == "redis" && f.overlaps(claimed.Add(-claimLead), claimed) && f.From.Before(from) {
			from = f.From
		}
	}
	return from
}

// process returns the pid in a worker's name, host-pid-nonce; "" = another kind of name.
func process(worker string) string {
	parts := strings.Split(worker, "-")
	if len(parts) < 3 {
		return ""
	}
	return parts[len(parts)-2]
}
