package job

import "time"

// MaxReason is the greatest length of the reason of a cancel, a requeue, a kill or a dismissal, in characters.
const MaxReason = 500

// Request is one request to requeue a job. Requests with the same ID are the same request.
type Request struct {
	ID     string
	Reason string // why, in the caller's words; "" = not given
	// Cascade brings back, with a job of a flow, the jobs that were cancelled because of it.
	Cascade bool
}

// The actions that may have a reason.
const (
	CancelAction  = "cancel"
	RequeueAction = "requeue"
	DismissAction = "dismiss"
)

// Reason is the text that a caller gave for a cancel, a requeue or a dismissal.
type Reason struct {
	Action     string
	Generation int       // the cancelled generation, or the dead one that was requeued or dismissed
	At         time.Time // when it was requested, by the database's clock
	Text       string
	Outcome    Status // the generation's outcome in SQL; "" = none yet
}
