package check

import "github.com/tierq/tierq/internal/job"

// payloadIntegrity is S18: handlers get the payload that was submitted, and clients get, from Redis and from SQL,
// the result that a handler returned.
func payloadIntegrity(b *book) {
	for _, id := range b.order {
		j := b.jobs[id]
		for i := range j.runs {
			if r := &j.runs[i]; j.submit != nil && r.Sum != b.wanted(j, r) {
				b.say("S18", id, "attempt %d got the payload %.8q, %.8q was submitted", r.Attempt, r.Sum, b.wanted(j, r))
			}
		}
		for i := range j.outcomes {
			o := &j.outcomes[i]
			if o.Outcome != job.Completed {
				continue
			}
			if returned, ok := j.returned(o); ok && o.ResultSum != returned {
				b.say("S18", id, "attempt %d returned %.8q, SQL has %.8q", o.Attempt, returned, o.ResultSum)
			}
			for _, p := range j.polls {
				if p.Generation == o.Generation && p.Status == job.Completed && p.ResultSum != o.ResultSum && !b.forgotWithin(j) {
					b.say("S18", id, "%s got the result %.8q, SQL has %.8q", p.By, p.ResultSum, o.ResultSum)
					break
				}
			}
		}
	}
}

// wanted returns the sum of the payload that a run has to get: its job's, or that of a submit under the same unique
// key, which may have replaced it.
func (b *book) wanted(j *entry, r *Run) string {
	if s := b.byKey[r.Key]; s != nil && s.Unique.Key != "" && s.Unique.Key == j.submit.Unique.Key {
		return s.Sum
	}
	return j.submit.Sum
}

// returned returns the result of the attempt that made the outcome. After a Redis that forgot, two attempts can
// have one number: a result that equals SQL's is preferred.
func (j *entry) returned(o *Outcome) (sum string, ok bool) {
	runs := j.of(o.Generation)
	for i := range runs {
		if r := &runs[i]; r.Attempt == o.Attempt && r.Result != "" {
			if sum, ok = r.Result, true; sum == o.ResultSum {
				return sum, ok
			}
		}
	}
	return sum, ok
}

// sums is S20: the tables have no row beside those of the outcomes, and the servers' metrics, if no server died,
// count what happened.
func sums(b *book) {
	c := b.report.Counts
	differ := func(who string, theirs Sums) {
		if got := (Sums{theirs.Accepted, c.Completed, c.Failed, c.Cancelled}); got != theirs {
			b.say("S20", who, "%d completed, %d failed, %d cancelled; the outcomes are %d, %d, %d",
				theirs.Completed, theirs.Failed, theirs.Cancelled, c.Completed, c.Failed, c.Cancelled)
		}
	}
	if b.Tables != nil {
		differ("tables", *b.Tables)
	}
	if b.Metrics == nil {
		return
	}
	differ("metrics", *b.Metrics)
	if taken := c.Accepted + c.UnknownExist; b.Metrics.Accepted != taken {
		b.say("S20", "metrics", "%d accepted; the clients know of %d", b.Metrics.Accepted, taken)
	}
}
