package job

import "time"

// MaxReason bounds the reason of a cancel or a requeue, in characters.
const MaxReason = 500

// Request is one request to requeue a job. The same ID is the same request, however often it comes.
type Request struct {
	ID     string
	Reason string // why, in the words of whoever asks; "" = not said
}

// The actions that may have a reason.
const (
	CancelAction  = "cancel"
	RequeueAction = "requeue"
)

// Reason is the text that a caller gave for a cancel or a requeue.
type Reason struct {
	Action     string
	Generation int       // that was cancelled, or that was dead and got a new life
	At         time.Time // when it was asked for, by the database's clock
	Text       string
	Outcome    Status // of that generation in SQL; "" = none yet
}
