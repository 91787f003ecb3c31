package check

import (
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// takenForDead is the other half of S14: an attempt whose heartbeats are said to have stopped belongs to a process that
// a fault killed, froze or cut off. It also sees what never ran: a claim that nobody knows of, or one look too few.
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

// drains says whether a server was asked to stop, once, and could do so properly: it gives back what it holds, and no
// attempt is spent (L7).
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

// sent is when a claim that Redis carried out at a time may have been sent: a Redis that stands still carries out what
// was sent meanwhile when it goes on, also for a process that is dead by then.
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

// process is the pid in a worker's name, host-pid-nonce; "" for another kind of name.
func process(worker string) string {
	parts := strings.Split(worker, "-")
	if len(parts) < 3 {
		return ""
	}
	return parts[len(parts)-2]
}
