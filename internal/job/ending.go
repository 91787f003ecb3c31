package job

// Ending is how one claim ended, as the worker that held it heard it from the store.
type Ending string

// The endings of a claim.
const (
	EndCompleted Ending = "COMPLETED"
	EndFailed    Ending = "FAILED"    // for good: retries spent, or a permanent error
	EndRetried   Ending = "RETRIED"   // failed, to be tried again
	EndReleased  Ending = "RELEASED"  // given back unharmed: a drain, or the handler's Later
	EndCancelled Ending = "CANCELLED" // a user had asked for it, whatever the handler returned
	EndLost      Ending = "LOST"      // the lease was lost; what its handler did is dropped
)
