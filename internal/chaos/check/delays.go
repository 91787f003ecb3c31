package check

import (
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// These bounds of detection are those of the design, beyond a plan's own time: the time until the next look of a
// watch, the time until its second look, and a second of slack. The last two are for a busy machine.
const (
	crashedLook = 3 * time.Second
	stuckLook   = 5 * time.Second
	secondLook  = 2 * time.Second
	slack       = time.Second
	busy        = 6 * time.Second
	longest     = 2 * time.Minute // even with faults in the way nothing takes longer than this beyond its bound
)

// late says whether something took longer than its bound: by more than busy if no fault was in the way, and by
// more than longest otherwise.
func late(took, bound time.Duration, disturbed bool) bool {
	return !disturbed && took > bound+busy || took > bound+longest
}

// crashDetection is L2: the job of a process that died is reclaimed within its heartbeat timeout, a look of the
// watch, and a second one. A death with other faults in the way only has to stay below longest.
func crashDetection(b *book) {
	deaths := map[string][]*Fault{} // by pid; the system may give a pid again
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
			disturbed := b.disturbed(f, f.From, taken.FinishedAt)
			if !disturbed {
				b.report.Crashed.Quiet++
			}
			if bound := plan.HeartbeatTimeout + crashedLook + secondLook + slack; late(took, bound, disturbed) {
				b.say("L2", id, "process %s died, and attempt %d was taken back only after %s; the bound is %s", f.Target,
					r.Attempt, took, bound)
			}
		}
	}
	b.report.Crashed.of(all)
}

// stuckDetection is L3: an attempt that takes longer than its tier allows is ended soon after, and not before. It
// does not end as a success long after its time.
func stuckDetection(b *book) {
	var all []time.Duration
	for _, id := range b.order {
		j := b.jobs[id]
		plan, ok := b.planOf(j)
		if !ok || plan.MaxProcessingTime == 0 {
			continue
		}
		bound := plan.MaxProcessingTime + stuckLook + secondLook + slack
		for i := range j.outcomes {
			o := &j.outcomes[i]
			took := o.EndedAt.Sub(o.StartedAt)
			if o.Outcome == job.Completed && !o.StartedAt.IsZero() && took > bound+busy &&
				late(took, bound, b.disturbed(nil, o.StartedAt, o.EndedAt)) {
				b.say("L3", id, "attempt %d was taken for a success after %s; the bound is %s", o.Attempt, took, bound)
			}
			for _, t := range o.Tries {
				if t.Outcome != string(job.MaxTimeExceeded) || t.StartedAt.IsZero() {
					continue
				}
				took := t.FinishedAt.Sub(t.StartedAt)
				all = append(all, took)
				disturbed := b.disturbed(nil, t.StartedAt, t.FinishedAt)
				if !disturbed {
					b.report.Stuck.Quiet++
				}
				if late(took, bound, disturbed) {
					b.say("L3", id, "attempt %d was ended only after %s; the bound is %s", t.Number, took, bound)
				}
				if took < plan.MaxProcessingTime-slow && !b.claimHeldUp(&t, plan) {
					b.say("L3", id, "attempt %d was ended for taking too long after %s; it may take %s", t.Number, took,
						plan.MaxProcessingTime)
				}
			}
		}
	}
	b.report.Stuck.of(all)
}

// slow is how long before Redis executed it a claim may have been sent on a busy machine. The attempt's time
// counts from the sending.
const slow = time.Second

// claimHeldUp says whether a fault may have delayed the claim of an attempt after it was sent, so that little of
// the attempt's time was left.
func (b *book) claimHeldUp(t *job.Attempt, plan job.Plan) bool {
	pid := process(t.Worker)
	return slices.ContainsFunc(b.Faults, func(f Fault) bool {
		of := f.Target == "" || f.Target == "redis" || f.Target == pid || pid == ""
		return of && f.overlaps(t.StartedAt.Add(-plan.MaxProcessingTime-slow), t.StartedAt)
	})
}

// taken returns the attempt of a run from the history, if it has this outcome. After a Redis that forgot, two
// attempts can have one number; the pid tells them apart.
func (j *entry) taken(r *Run, outcome string) (job.Attempt, bool) {
	if o := j.outcome(r.Generation); o != nil {
		for _, t := range o.Tries {
			if pid := process(t.Worker); t.Number == r.Attempt && t.Outcome == outcome && (pid == "" || pid == r.Worker) {
				return t, true
			}
		}
	}
	return job.Attempt{}, false
}

// death returns the first of the deaths after the run began, or nil.
func (r *Run) death(deaths []*Fault) *Fault {
	var first *Fault
	for _, f := range deaths {
		if !f.From.Before(r.Began) && (first == nil || f.From.Before(first.From)) {
			first = f
		}
	}
	return first
}

// disturbed says whether other faults than f may have kept the watches from looking between the two times: a fault
// of Redis, a fault of all, or faults of more than one other server. Jobs that ignore their time (F47) and clients
// that hang up (F55) do not disturb the watches.
func (b *book) disturbed(f *Fault, from, to time.Time) bool {
	servers := map[string]bool{}
	for i := range b.Faults {
		other := &b.Faults[i]
		if other == f || !other.overlaps(from, to) || other.Target == "mysql" || other.Kind == "F47" || other.Kind == "F55" {
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
