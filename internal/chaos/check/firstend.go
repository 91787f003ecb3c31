package check

import (
	"slices"

	"github.com/tierq/tierq/internal/job"
)

// firstStands says whether a late write to SQL explains that a poll showed another end of the same generation than
// an earlier poll. In external mode Redis may lose an end before SQL has it. The job then runs again, and polls
// show its second end. The process that made the first end still has that in memory and writes it to SQL, where it
// stands (DURABILITY.md).
//
// The excuse has three conditions: the later poll shows SQL's outcome; Redis decided that outcome before a loss of its
// memory; Redis decided the end that the earlier poll showed after the loss. A fault after which the servers keep their
// ends, as in embedded mode, is no such loss.
func (b *book) firstStands(j *entry, earlier, later *Poll) bool {
	o := j.outcome(earlier.Generation)
	if o == nil || o.EndedAt.IsZero() || later.Status != o.Outcome {
		return false
	}
	again := func(r Run) bool { return r.madeAgain(earlier, o) && b.lost(o.EndedAt, r.Began, keptEnds) }
	stands := slices.ContainsFunc(j.of(earlier.Generation), again) || b.endedUnrun(j, earlier, o)
	if this := (life{j.id, o.Generation}); stands && !b.replaced[this] {
		b.replaced[this] = true
		b.report.Counts.Replaced++
	}
	return stands
}

// madeAgain says whether the run may have made the end that a poll showed, after the end that SQL has.
func (r *Run) madeAgain(p *Poll, o *Outcome) bool {
	if !r.Began.After(o.EndedAt) || r.Began.After(p.At) {
		return false
	}
	switch p.Status {
	case job.Completed:
		return r.Result != "" && r.Result == p.ResultSum && !r.Ended.After(p.At)
	case job.Failed:
		return r.Result == ""
	}
	return false // a run does not make a CANCELLED, only a cancel does
}

// endedUnrun says whether the end that a poll showed may have come without another run, after a loss of Redis: by a
// cancel that a client had sent, or by a watch. The watch fails a job if the lease of SQL's last attempt is back in
// Redis and no retry is left. It needs two looks for that.
func (b *book) endedUnrun(j *entry, p *Poll, o *Outcome) bool {
	switch p.Status {
	case job.Cancelled:
		asked := func(op *Op) bool { return op.Fate != Fail && op.Sent.Before(p.At) }
		return slices.ContainsFunc(j.cancels, asked) && b.lost(o.EndedAt, p.At, keptEnds)
	case job.Failed:
		last := o.Attempt > 0 && o.RetryCount >= o.MaxRetries
		return last && b.lost(o.EndedAt, p.At.Add(-secondLook), keptEnds)
	}
	return false
}
