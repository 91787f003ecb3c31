package admission

import (
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	// leastHint and mostHint are the bounds of the time that a client is told to wait.
	leastHint, mostHint = time.Second, 60 * time.Second
	// blindRefusal is the wait after QUEUE_FULL while it is unknown how fast the queue drains.
	blindRefusal = 5 * time.Second
)

// drain says how fast the queue empties. Both functions may be nil.
type drain struct {
	rate func() float64
	load func(t job.Tier) (filled, limit int64)
}

// room returns the Retry-After of QUEUE_FULL: the time until the jobs above the tier's limit, and 1 % of the limit
// (at least 1 job), have drained at the measured rate, that is (max(filled - limit, 0) + max(limit / 100, 1)) /
// rate, between 1 s and 60 s. It is 5 s while the rate is 0 or unknown, and for delayed jobs, whose limit drains
// with the clock.
func (d drain) room(s *job.Submission) time.Duration {
	if s.Delayed() {
		return blindRefusal
	}
	filled, limit := d.levels(s.Tier)
	return d.until(max(filled-limit, 0)+max(limit/100, 1), blindRefusal)
}

// Hint returns when a job of a tier that is accepted now is likely to be done: (filled + 1) / rate, between 1 s
// and 60 s, and 1 s while the rate is 0 or unknown. It is the Retry-After of a 202, and of a refusal for the
// owner's quota: about then one of the owner's jobs has ended.
func (a *Admission) Hint(t job.Tier) time.Duration {
	filled, _ := a.drain.levels(t)
	return a.drain.until(max(filled, 0)+1, leastHint)
}

func (d drain) levels(t job.Tier) (filled, limit int64) {
	if d.load == nil {
		return 0, 0
	}
	return d.load(t)
}

// until returns how long it takes until so many jobs have ended, or the argument unknown if the rate is 0 or
// unknown.
func (d drain) until(jobs int64, unknown time.Duration) time.Duration {
	rate := 0.0
	if d.rate != nil {
		rate = d.rate()
	}
	if !(rate > 0) { // NaN too is no rate
		return unknown
	}
	seconds := min(float64(jobs)/rate, mostHint.Seconds()) // in floating point, which does not overflow
	return max(time.Duration(seconds*float64(time.Second)), leastHint)
}
