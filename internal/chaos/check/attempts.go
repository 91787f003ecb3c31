package check

import (
	"github.com/tierq/tierq/internal/job"
)

// kept is how many attempts of a generation the history keeps. A history of that length says nothing about the
// number of attempts.
const kept = 50

// boundedAttempts is S4: the retries that are counted, the attempts in the history and the runs all stay within
// the retries of a generation. No plan of a run has a maxCrashes, so a crash costs a retry.
func boundedAttempts(b *book) {
	for _, id := range b.order {
		j := b.jobs[id]
		for i := range j.outcomes {
			o := &j.outcomes[i]
			cost, free := 0, 0 // attempts that did not end well
			for _, t := range o.Tries {
				switch {
				case t.Outcome == "RELEASED", t.Outcome == "LATER", t.Outcome == "CANCELLED", b.costsNothing(j, &t):
					free++
				default:
					cost++
				}
			}
			spent := o.RetryCount
			if o.Outcome == job.Failed || o.Outcome == job.Cancelled && cost > spent {
				spent++ // no retry follows the last attempt; a cancelled job's last attempt may have been taken back
			}
			runs, forgot := len(j.of(o.Generation)), b.forgotWithin(j)
			first := o.StartedAt // its first claim, as far as the history goes back
			if len(o.Tries) > 0 {
				first = o.Tries[0].StartedAt
			}
			switch {
			case o.RetryCount > o.MaxRetries:
				b.say("S4", id, "generation %d: %d retries of %d", o.Generation, o.RetryCount, o.MaxRetries)
			case cost > o.MaxRetries+1:
				b.say("S4", id, "generation %d: %d attempts did not end well, %d retries are allowed", o.Generation, cost,
					o.MaxRetries)
			case len(o.Tries) >= kept || forgot:
			// The last attempt was taken back, and a cancel had been requested: no retry is spent.
			case o.Outcome == job.Cancelled && cost == spent+1:
			case cost != spent:
				b.say("S4", id, "generation %d is %s with %d retries, and its history has %d that cost one", o.Generation,
					o.Outcome, o.RetryCount, cost)
			case !first.IsZero() && !o.FirstTriedAt.Equal(first):
				b.say("S4", id, "generation %d was first tried at %s, its first claim was at %s", o.Generation,
					clock(o.FirstTriedAt), clock(first))
			case runs > o.RetryCount+1+free:
				b.say("S4", id, "generation %d ran %d times, with %d retries and %d attempts given back", o.Generation, runs,
					o.RetryCount, free)
			}
		}
	}
}

// costsNothing says whether an attempt by an external worker was lost with Redis, which is no crash of it.
func (b *book) costsNothing(j *entry, t *job.Attempt) bool {
	outside := j.submit != nil && j.submit.Type == Elsewhere
	return outside && t.Outcome == string(job.HeartbeatStopped) && b.forgot(t.StartedAt, t.FinishedAt)
}

// fencing is S5: attempts only grow, and the last attempt makes the outcome. A Redis that forgot counts again from
// where its memory ends.
func fencing(b *book) {
	for _, id := range b.order {
		j := b.jobs[id]
		if len(j.runs) == 0 && !j.wrote() || b.forgotWithin(j) && !b.keepsAttempts {
			continue
		}
		highest := 0 // the last attempt of the earlier generations
		for i := range j.runs {
			r := &j.runs[i]
			if i > 0 && j.runs[i-1].Generation < r.Generation {
				highest = j.runs[i-1].Attempt
			}
			switch {
			case i > 0 && j.runs[i-1].Generation == r.Generation && j.runs[i-1].Attempt == r.Attempt:
				b.say("S5", id, "attempt %d ran twice, in the processes %s and %s", r.Attempt, j.runs[i-1].Worker, r.Worker)
			case r.Attempt <= highest:
				b.say("S5", id, "attempt %d of generation %d ran after attempt %d of an earlier one", r.Attempt, r.Generation,
					highest)
			}
		}
		for i := range j.outcomes {
			b.lastWord(j, &j.outcomes[i])
		}
	}
}

// lastWord compares an outcome with the runs of its generation.
func (b *book) lastWord(j *entry, o *Outcome) {
	runs := j.of(o.Generation)
	if n := len(runs); n > 0 && runs[n-1].Attempt > o.Attempt {
		if runs[n-1].Result != "" {
			b.endedTwice(j.id, o.Generation)
		}
		b.say("S5", j.id, "attempt %d made the outcome %s, and attempt %d ran", o.Attempt, o.Outcome, runs[n-1].Attempt)
		return
	}
	if o.Outcome != job.Completed || !j.wrote() {
		return
	}
	for i := range runs {
		if runs[i].Attempt == o.Attempt && runs[i].Result != "" {
			return
		}
	}
	b.say("S5", j.id, "completed by attempt %d, which never came to its end", o.Attempt)
}

// wrote says whether the job is of a type whose runs are recorded.
func (j *entry) wrote() bool {
	return j.submit != nil && (j.submit.Type == Type || j.submit.Type == Elsewhere)
}

// Type is the job type whose handler records its runs.
const Type = "CHAOS"

// Elsewhere is the job type that no server runs, and Queue the declared queue of its jobs. Workers of other programs
// run them and record their runs.
const (
	Elsewhere = "ELSEWHERE"
	Queue     = "elsewhere"
)
