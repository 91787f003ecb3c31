package check

import (
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	// atWork is how long a server may be at work on a submit that it has read: admission answers each within 2 s. A
	// process that is frozen meanwhile finishes the submit when it goes on.
	atWork = 2 * time.Second
	// thawSlack is how long before the recorded end of its freeze a process may have gone on: the run records the end
	// after the SIGCONT, on a machine that has a lot else to do.
	thawSlack = time.Second
)

// thawed says whether a frozen server explains that a job of this submit arrived at that time. Submits wait in the
// sockets of a frozen process. When the process goes on it executes them, even if their clients gave up long ago.
// The excuse needs a request of the submit that got no answer, sent to a server that was frozen before it can
// have executed the request. The job arrives after the thaw, and no later than a submit may arrive after its
// client gave up.
func (b *book) thawed(s *submit, arrived time.Time) bool {
	return slices.ContainsFunc(s.ops, func(op *Op) bool {
		if op.Server == "" || op.Fate != Unknown || op.Status != 0 {
			return false
		}
		gaveUp := op.Sent
		if op.Answered.After(gaveUp) {
			gaveUp = op.Answered
		}
		return slices.ContainsFunc(b.Faults, func(f Fault) bool {
			return f.Froze == op.Server && f.overlaps(op.Sent, gaveUp.Add(atWork)) &&
				!arrived.Before(f.To.Add(-thawSlack)) && !arrived.After(f.To.Add(unanswered))
		})
	})
}

// ranOut says whether the Idempotency-Key of a submit had expired each time that another of its jobs arrived, and
// a frozen server executed the request that made that job.
func (b *book) ranOut(s *submit, jobs []job.ID) bool {
	if b.KeyLife == 0 {
		return false
	}
	jobs = slices.Clone(jobs)
	slices.SortFunc(jobs, func(x, y job.ID) int { return b.jobs[x].arrived().Compare(b.jobs[y].arrived()) })
	for i, id := range jobs {
		at := b.jobs[id].arrived()
		if at.IsZero() {
			return false
		}
		if i == 0 {
			continue
		}
		expires := b.jobs[jobs[i-1]].arrived().Add(b.KeyLife - keySlack)
		if at.Before(expires) || !b.thawed(s, at) {
			return false
		}
	}
	return true
}

// lastArrival returns when the last of a submit's jobs arrived, not later than until. From then on the submit's
// Idempotency-Key stands for that job, for the whole time. A submit has several jobs if a frozen server executed a
// request late. Jobs that nothing explains are reported by idempotentSubmit.
func (b *book) lastArrival(s *submit, until time.Time) (last time.Time) {
	for _, id := range s.jobs {
		if at := b.jobs[id].arrived(); at.After(last) && !at.After(until) {
			last = at
		}
	}
	return last
}

// arrived returns when the job arrived according to SQL; the zero time if SQL has no outcome of generation 1.
func (j *entry) arrived() time.Time {
	if o := j.outcome(1); o != nil {
		return o.ArrivedAt
	}
	return time.Time{}
}
