package check

import (
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// The bounds of detection that the design gives, beyond a plan's own time: up to so long to the next look of a watch, and to its second one,
// and a second of slack. The rest is for a machine that has a lot else to do.
const (
	crashedLook = 3 * time.Second
	stuckLook   = 5 * time.Second
	secondLook  = 2 * time.Second
	slack       = time.Second
	busy        = 6 * time.Second
)

// timeOrder is S15: a job arrives, is first tried, is started for the last time and ends, in this order, by Redis' clock.
func timeOrder(b *book) {
	for i := range b.Outcomes {
		o := &b.Outcomes[i]
		names := []string{"arrived", "first tried", "started", "ended"}
		before := -1
		times := []time.Time{o.ArrivedAt, o.FirstTriedAt, o.StartedAt, o.EndedAt}
		for n, t := range times {
			if t.IsZero() {
				continue
			}
			if before >= 0 && t.Before(times[before]) {
				b.say("S15", o.ID, "generation %d %s at %s and %s at %s", o.Generation, names[before], clock(times[before]), names[n], clock(t))
			}
			before = n
		}
	}
}

// crashDetection is L2: the job of a process that died is taken back within its heartbeat timeout, a look, and a second one. Only deaths with
// no other fault in the way are held to it.
func crashDetection(b *book) {
	deaths := map[string][]*Fault{} // by pid; a pid may come again
	for i := range b.Faults {
		if f := &b.Faults[i]; f.Kills > 0 {
			deaths[f.Target] = append(deaths[f.Target], f)
		}
	}
	var all []time.Duration
	for _, id := range b.order {
		j := b.jobs[id]
		plan, ok := b.planOf(j)
		for i := range j.runs {
			r := &j.runs[i]
			taken, found := j.taken(r, string(job.HeartbeatStopped))
			f := r.death(deaths[r.Worker])
			if !ok || !found || f == nil || taken.FinishedAt.Before(f.From) {
				continue
			}
			took := taken.FinishedAt.Sub(f.From)
			all = append(all, took)
			if b.disturbed(f, f.From, taken.FinishedAt) {
				continue
			}
			b.report.Crashed.Quiet++
			if bound := plan.HeartbeatTimeout + crashedLook + secondLook + slack; took > bound+busy {
				b.say("L2", id, "process %s died, and attempt %d was taken back only after %s; the bound is %s", f.Target, r.Attempt, took, bound)
			}
		}
	}
	b.report.Crashed.of(all)
}

// stuckDetection is L3: a run that takes longer than its tier allows is ended soon after.
func stuckDetection(b *book) {
	var all []time.Duration
	for _, id := range b.order {
		j := b.jobs[id]
		plan, ok := b.planOf(j)
		if !ok || plan.MaxProcessingTime == 0 {
			continue
		}
		for i := range j.outcomes {
			for _, t := range j.outcomes[i].Tries {
				if t.Outcome != string(job.MaxTimeExceeded) {
					continue
				}
				took := t.FinishedAt.Sub(t.StartedAt)
				all = append(all, took)
				bound := plan.MaxProcessingTime + stuckLook + secondLook + slack
				if b.disturbed(nil, t.StartedAt, t.FinishedAt) {
					continue
				}
				b.report.Stuck.Quiet++
				if took > bound+busy {
					b.say("L3", id, "attempt %d was ended only after %s; the bound is %s", t.Number, took, bound)
				}
			}
		}
	}
	b.report.Stuck.of(all)
}

// taken is the attempt of a run as the history has it, if it ended so.
func (j *entry) taken(r *Run, outcome string) (job.Attempt, bool) {
	if o := j.outcome(r.Generation); o != nil {
		for _, t := range o.Tries {
			if t.Number == r.Attempt && t.Outcome == outcome {
				return t, true
			}
		}
	}
	return job.Attempt{}, false
}

// death is the first of these that came after the run began.
func (r *Run) death(deaths []*Fault) *Fault {
	var first *Fault
	for _, f := range deaths {
		if !f.From.Before(r.Began) && (first == nil || f.From.Before(first.From)) {
			first = f
		}
	}
	return first
}

// disturbed says whether other faults than f may have kept the watches from looking, between the two times: one of Redis, one of everybody, or of
// more than one other server.
func (b *book) disturbed(f *Fault, from, to time.Time) bool {
	servers := map[string]bool{}
	for i := range b.Faults {
		other := &b.Faults[i]
		if other == f || !other.overlaps(from, to) || other.Target == "mysql" {
			continue
		}
		if other.Target == "redis" || other.Target == "" {
			return true
		}
		servers[other.Target] = true
	}
	return len(servers) > 1
}

func (d *Delays) of(all []time.Duration) {
	d.N = len(all)
	if d.N == 0 {
		return
	}
	slices.Sort(all)
	d.Max, d.P95 = all[d.N-1], all[(d.N-1)*95/100]
}

// last is the end of the run.
func (b *book) last() time.Time {
	if b.Rested.IsZero() {
		return time.Now()
	}
	return b.Rested
}
