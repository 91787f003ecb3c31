package job

import "time"

// An event has one of these words in place of a status when its running job has told something and has not moved.
const (
	Progressed Status = "PROGRESS" // its handler told how far it is
	Logged     Status = "LOG"      // its log has more lines
)

// Event reports that a job entered a status. Events are hints for waiting callers and displays: an event may be
// lost, and the job itself is authoritative.
type Event struct {
	ID      ID
	Tier    Tier
	Status  Status // as shown to users: never NEED_DISCARD; or Progressed or Logged
	Attempt int    // claims so far
	Cause   Cause  // why the job left PROCESSING, if an attempt failed
	At      time.Time
}
