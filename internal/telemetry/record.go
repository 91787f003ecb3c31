package telemetry

import (
	"errors"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Submit says how a submit was answered, with the API's words.
type Submit string

// The answers to a submit. Only Accepted made a new job; QueueFull and SystemUnhealthy count as refusals.
const (
	Accepted            Submit = "ACCEPTED"
	Replayed            Submit = "REPLAYED" // the Idempotency-Key was known: the answer names the first submit's job
	QueueFull           Submit = "QUEUE_FULL"
	RateLimited         Submit = "RATE_LIMITED" // the owner's quota of living jobs is used up
	SystemUnhealthy     Submit = "SYSTEM_UNHEALTHY"
	OutcomeUnknown      Submit = "OUTCOME_UNKNOWN"
	IdempotencyMismatch Submit = "IDEMPOTENCY_MISMATCH"
	SubmitError         Submit = "ERROR"
)

// SubmitOf converts the result of admission.
func SubmitOf(a job.Accepted, err error) Submit {
	switch {
	case err == nil && a.Replayed:
		return Replayed
	case err == nil:
		return Accepted
	case errors.Is(err, job.ErrQueueFull):
		return QueueFull
	case errors.Is(err, job.ErrQuota):
		return RateLimited
	case errors.Is(err, job.ErrUnhealthy):
		return SystemUnhealthy
	case errors.Is(err, job.ErrFateUnknown):
		return OutcomeUnknown
	case errors.Is(err, job.ErrMismatch):
		return IdempotencyMismatch
	}
	return SubmitError
}

// Submitted counts the answer to one submit.
func (m *Metrics) Submitted(t job.Tier, how Submit) {
	if m == nil {
		return
	}
	i := slices.Index(submits, how)
	if i < 0 {
		return
	}
	s := m.of(t)
	s.submitted[i].Inc()
	switch how {
	case Accepted:
		s.counts.add(submitted)
	case QueueFull, SystemUnhealthy:
		s.counts.add(refused)
	}
}

// Started measures how long a job waited from its arrival, or from when it was due, to its first claim. A negative
// wait marks a later claim, which is not measured.
func (m *Metrics) Started(l *job.Lease, waited time.Duration) {
	if m == nil || waited < 0 {
		return
	}
	s := m.of(l.Tier)
	s.waited.Observe(waited.Seconds())
	s.counts.wait[bucketOf(waited)].Add(1)
}

// Ended counts an attempt whose end the store has answered, and measures how long its handler ran; 0 means that
// the handler never began. cause is used with FAILED only.
func (m *Metrics) Ended(l *job.Lease, how job.Ending, cause job.Cause, ran time.Duration) {
	if m == nil {
		return
	}
	i := slices.Index(attempts, how)
	if i < 0 {
		return
	}
	s := m.of(l.Tier)
	if ran > 0 {
		s.ran[i].Observe(ran.Seconds())
	}
	switch how {
	// the run was cut short, or the lease was lost: its length says nothing about the job
	case job.EndReleased, job.EndLost:
		return
	case job.EndRetried:
		s.counts.add(retried)
	case job.EndFailed:
		s.bury(cause)
	default:
		s.finish(i)
	}
	if ran > 0 {
		s.counts.run[bucketOf(ran)].Add(1)
	}
}

// Cancelled counts a job that was cancelled before its first claim. (A running job ends CANCELLED.)
func (m *Metrics) Cancelled(t job.Tier) {
	if m != nil {
		m.of(t).finish(endingCancelled)
	}
}

// Expired counts a job that nobody claimed by its time.
func (m *Metrics) Expired(t job.Tier) {
	if m != nil {
		m.of(t).finish(endingExpired)
	}
}

// Killed counts a waiting job that an operator killed: its dead letter has the cause KILLED.
func (m *Metrics) Killed(t job.Tier) {
	if m != nil {
		m.of(t).bury(job.Killed)
	}
}

// Recovered counts what a watch did with one expired job; a SUSPECT is not counted. The tier is "" if the caller
// does not know it.
func (m *Metrics) Recovered(t job.Tier, w job.Watch, word job.Word) {
	if m == nil {
		return
	}
	watch := slices.Index(watches, w)
	if watch < 0 {
		return
	}
	for i, a := range actions {
		if a.word == word {
			m.recoveries[watch][i].Inc()
			m.of(t).recover(word, w.Cause())
		}
	}
}

// Missing counts jobs that a new incarnation of Redis no longer had.
func (m *Metrics) Missing(jobs int64) {
	if m != nil {
		m.families.missing.Add(float64(jobs))
	}
}

// RedisOp measures one call to Redis. op is one of a few fixed names.
func (m *Metrics) RedisOp(op string, took time.Duration) {
	if m != nil {
		m.op(op).Observe(took.Seconds())
	}
}

// The indexes of FAILED, CANCELLED and EXPIRED in endings.
const (
	endingFailed    = 1
	endingCancelled = 2
	endingExpired   = 3
)

// finish counts a job that ended for good.
func (s *series) finish(ending int) {
	s.finished[ending].Inc()
	s.counts.add(completed + event(ending))
}

// bury counts a dead letter.
func (s *series) bury(c job.Cause) {
	i := slices.Index(causes, c)
	if i < 0 {
		i = len(causes) - 1
	}
	s.dead[i].Inc()
	s.finish(endingFailed)
}

// recover counts a job that a watch reclaimed, and its end if it has ended.
func (s *series) recover(word job.Word, c job.Cause) {
	s.counts.add(recovered)
	switch word {
	case job.Discarded:
		s.bury(c)
	case job.WasCancelled:
		s.finish(endingCancelled)
	}
}
