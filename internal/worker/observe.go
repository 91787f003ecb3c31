package worker

import (
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Observer sees claims begin and end, for metrics. It is called on the pool's goroutines, never under its lock, and
// must return at once; it must not change the lease.
type Observer interface {
	// Started: the handler begins. waited is the time from the job's arrival, or from when it was due if it was delayed,
	// to this claim, by Redis' clock, if it is the first one of its generation; -1 for a later one.
	Started(l *job.Lease, waited time.Duration)
	// Ended: the store has answered the claim's ending, or said that the lease is lost. cause is set for RETRIED and
	// FAILED. ran is how long the handler had run when the ending was chosen; 0 if it never began, in which case there was
	// no Started either.
	Ended(l *job.Lease, how job.Ending, cause job.Cause, ran time.Duration)
}

// nobody is the observer of a pool that has none.
type nobody struct{}

func (nobody) Started(*job.Lease, time.Duration)                      {}
func (nobody) Ended(*job.Lease, job.Ending, job.Cause, time.Duration) {}

// waited is what Started is told.
func waited(l *job.Lease) time.Duration {
	if l.StartedAt.IsZero() || !l.StartedAt.Equal(l.FirstTriedAt) {
		return -1
	}
	since := l.ArrivedAt
	if l.RunAt.After(since) { // until then it was its client's wish
		since = l.RunAt
	}
	return max(l.StartedAt.Sub(since), 0)
}
