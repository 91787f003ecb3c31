package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// claimLead is how long before its handler began a job may have been claimed. onItsWay is how long after the end
// of a handler its report may still be under way, beyond the time of its lease.
const (
	claimLead = 2 * time.Second
	onItsWay  = 3 * time.Second
)

// explained is S14: each execution beyond the first of a generation has a reason. The attempt before it was asked
// not to end well, or ran too long, or a fault that may repeat jobs overlaps its lease.
func explained(b *book) {
	crashed := b.ownCrashes()
	for _, id := range b.order {
		j := b.jobs[id]
		runs := j.runs
		if b.forgotWithin(j) { // a Redis that forgot counts attempts again: only the time has their order
			runs = slices.Clone(runs)
			slices.SortStableFunc(runs, func(x,
				y Run) int {
				return cmp.Or(cmp.Compare(x.Generation, y.Generation), x.Began.Compare(y.Began))
			})
		}
		for i := 1; i < len(runs); i++ {
			before, r := &runs[i-1], &runs[i]
			if before.Generation != r.Generation {
				continue
			}
			b.report.Counts.Beyond++
			reason := b.reason(j, before, r, crashed)
			if reason == "" {
				b.report.Counts.Unexplained++
				b.say("S14", id, "attempt %d ran without a reason: attempt %d ran in process %s from %s to %s, result %.8q",
					r.Attempt, before.Attempt, before.Worker,
					clock(before.Began), clock(before.Ended), before.Result)
				continue
			}
			b.report.Explained[reason]++
		}
	}
}

// reason returns why r followed before; "" = there is no reason.
func (b *book) reason(j *entry, before, r *Run, crashed map[string]Fault) string {
	if before.Lease > 0 {
		return b.reasonOutside(j, before, r)
	}
	plan, planned := b.planOf(j)
	if j.submit != nil && before.Attempt <= j.submit.Crashes && before.Ended.IsZero() {
		return crash
	}
	// The attempt failed, as it was asked to, before the next attempt began.
	if j.submit != nil && before.Attempt <= j.submit.Fails && before.Result == "" && !before.Ended.IsZero() &&
		!r.Began.Before(before.Ended) {
		return byHandler
	}
	from, to := before.Began.Add(-claimLead), r.Began
	if !before.Ended.IsZero() {
		if held := b.delivered(before.Ended, plan.HeartbeatTimeout+onItsWay); held.Before(to) {
			to = held
		}
	}
	if f, ok := crashed[before.Worker]; ok && f.overlaps(from, to) {
		return f.Kind
	}
	found := ""
	for i := range b.Faults {
		f := &b.Faults[i]
		switch {
		case !f.Repeats:
		case f.ForgetsAcked && f.overlaps(from, r.Began): // Redis may have taken the report and forgotten it
			found = f.Kind
		case !f.overlaps(from, to):
		case f.Target == before.Worker:
			return f.Kind
		case f.Target == "" || f.Target == "redis" || f.Target == "mysql":
			found = f.Kind
		}
	}
	if found != "" {
		return found
	}
	if until := before.Ended; planned && plan.MaxProcessingTime > 0 {
		if until.IsZero() && j.submit.Hangs {
			until = r.Began
			if try, ok := j.taken(before, string(job.MaxTimeExceeded)); ok &&
				try.FinishedAt.Sub(try.StartedAt) >= plan.MaxProcessingTime {
				return byMaxTime // the handler began late and recorded no end: Redis' times show the reason
			}
		}
		if until.Sub(before.Began) >= plan.MaxProcessingTime || b.begunLate(before, plan) {
			return byMaxTime
		}
	}
	if b.claimedLate(j, before, plan) {
		return byLateClaim
	}
	return ""
}

// claimedLate says whether a run had less than its time because its claim's answer was late, without any fault:
// counted from the claim by Redis' clock, all of its time had passed when it was stopped.
func (b *book) claimedLate(j *entry, r *Run, plan job.Plan) bool {
	if r.Why != handler.ErrMaxTime.Error() {
		return false
	}
	try, ok := j.taken(r, string(job.MaxTimeExceeded))
	if !ok {
		return b.forgotWithin(j) // Redis forgot the record of the attempt too
	}
	return !r.Ended.Before(try.StartedAt.Add(plan.MaxProcessingTime - slow))
}

// delivered returns when a report that was made at a time was in Redis or given up. A Redis that stands still or
// is away takes it later.
func (b *book) delivered(ended time.Time, within time.Duration) time.Time {
	until := ended.Add(within)
	for i := range b.Faults {
		f := &b.Faults[i]
		if (f.Target == "redis" || f.Target == "") && f.overlaps(ended, until) && f.To.Add(within).After(until) {
			until = f.To.Add(within)
		}
	}
	return until
}

// begunLate says whether a run had less than its time because it began late: the time counts from the claim, and a
// fault delayed the claim's answer.
func (b *book) begunLate(r *Run, plan job.Plan) bool {
	if r.Why != handler.ErrMaxTime.Error() {
		return false
	}
	claimed := r.Ended.Add(-plan.MaxProcessingTime)
	return slices.ContainsFunc(b.Faults, func(f Fault) bool {
		return (f.Target == "" || f.Target == "redis" || f.Target == r.Worker) &&
			f.overlaps(claimed.Add(-time.Second), r.Began)
	})
}

// crash is the kind of fault that a job makes whose payload kills its process.
const crash = "F46"

// ownCrashes returns the processes that a job killed, by pid. Such a death is a fault for the other jobs of the
// process.
func (b *book) ownCrashes() map[string]Fault {
	crashed := map[string]Fault{}
	for _, j := range b.jobs {
		for i := range j.runs {
			if r := &j.runs[i]; j.submit != nil && r.Attempt <= j.submit.Crashes && r.Ended.IsZero() {
				crashed[r.Worker] = Fault{Kind: crash, Target: r.Worker, From: r.Began, Repeats: true}
			}
		}
	}
	return crashed
}

// planOf returns the plan of a job's tier, if the tier and the plan are known.
func (b *book) planOf(j *entry) (plan job.Plan, ok bool) {
	if j.submit == nil {
		return plan, false
	}
	plan, ok = b.Plans[j.submit.Tier]
	if j.submit.Type == Elsewhere {
		plan.HeartbeatTimeout, plan.MaxProcessingTime = b.Outside.HeartbeatTimeout, b.Outside.MaxProcessingTime
	}
	return plan, ok
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("15:04:05.000")
}
