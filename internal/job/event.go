package job

import "time"

// Event reports that a job entered a status. Events are hints for waiting callers and displays: an event may be
// lost, and the job itself is authoritative.
type Event struct {
	ID      ID
	Tier    Tier
	Status  Status // as shown to users: never NEED_DISCARD
	Attempt int    // claims so far
	Cause   Cause  // why the job left PROCESSING, if an attempt failed
	At      time.Time
}
