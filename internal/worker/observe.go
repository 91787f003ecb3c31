package worker

import (
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Observer observes the beginning and end of claims, for metrics. The pool calls it on its own goroutines, never
// under its lock. It must return at once and must not change the lease.
type Observer interface {
	// Started is called when the handler begins. waited is what the lease's Waited returns.
	Started(l *job.Lease, waited time.Duration)
	// Ended is called when the store has answered the claim's ending, or said that the lease is lost. cause is set
	// for RETRIED and FAILED. ran is how long the handler had run when the ending was chosen; it is 0 if the handler
	// never began, and then Started was not called.
	Ended(l *job.Lease, how job.Ending, cause job.Cause, ran time.Duration)
}

// nobody is the Observer of a pool without one: it observes nothing.
type nobody struct{}

func (nobody) Started(*job.Lease, time.Duration)                      {}
func (nobody) Ended(*job.Lease, job.Ending, job.Cause, time.Duration) {}
