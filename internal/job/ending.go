package job

// Ending is how one claim ended, according to the store's answer to the worker that held it.
type Ending string

// The endings of a claim.
const (
	EndCompleted Ending = "COMPLETED"
	EndFailed    Ending = "FAILED"    // for good: retries spent, or a permanent error
	EndRetried   Ending = "RETRIED"   // failed, and will be retried
	EndReleased  Ending = "RELEASED"  // released: a drain, or the handler's Later
	EndCancelled Ending = "CANCELLED" // a user had cancelled the job, whatever the handler returned
	EndLost      Ending = "LOST"      // the lease was lost; the handler's result is dropped
)
