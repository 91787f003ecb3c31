package admission

import (
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	// The bounds of what a client is told to wait.
	leastHint, mostHint = time.Second, 60 * time.Second
	// blindRefusal is the wait after QUEUE_FULL while nobody knows how fast the queue drains.
	blindRefusal = 5 * time.Second
)

// drain says how fast the queue empties. Either function may be nil.
type drain struct {
	rate func() float64
	load func(t job.Tier) (filled, limit int64)
}

// room is the Retry-After of QUEUE_FULL: the time until what is over the tier's limit, and 1 % of the limit (at least 1
// job) below it, has drained at the measured rate, that is (max(filled - limit, 0) + max(limit / 100, 1)) / rate; 1 s
// to 60 s. It is 5 s while the rate is 0 or not known, and for jobs that were to be scheduled, whose limit drains by
// the clock.
func (d drain) room(s *job.Submission) time.Duration {
	if s.Delayed() {
		return blindRefusal
	}
	filled, limit := d.levels(s.Tier)
	return d.until(max(filled-limit, 0)+max(limit/100, 1), blindRefusal)
}

// Hint is when a job of a tier that is accepted now is likely to be done: (filled + 1) / rate, 1 s to 60 s, and 1 s
// while the rate is 0 or not known. It is the Retry-After of a 202, and of a refusal for the owner's quota: about then
// one of its jobs has ended.
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

// until is how long it takes until so many jobs have ended; unknown if nobody can say.
func (d drain) until(jobs int64, unknown time.Duration) time.Duration {
	rate := 0.0
	if d.rate != nil {
		rate = d.rate()
	}
	if !(rate > 0) { // nor NaN
		return unknown
	}
	seconds := min(float64(jobs)/rate, mostHint.Seconds()) // in floating point: nothing overflows
	return max(time.Duration(seconds*float64(time.Second)), leastHint)
}
