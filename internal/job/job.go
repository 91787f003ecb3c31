// Package job holds the words of tierq: what a job, a tier, a lease and an ending are. Every other room speaks these
// words; this one imports nothing but the standard library. What a job type is written with is in package handler.
package job

import "time"

// Status is where a job stands in its life. The state diagram is in docs/STATES.md.
type Status string

// The statuses. NeedDiscard is internal: retries are spent, the dead letter is not yet in SQL; users see FAILED.
const (
	Scheduled   Status = "SCHEDULED"
	Pending     Status = "PENDING"
	Processing  Status = "PROCESSING"
	Completed   Status = "COMPLETED"
	Failed      Status = "FAILED"
	Cancelled   Status = "CANCELLED"
	NeedDiscard Status = "NEED_DISCARD"
)

// Shown is the status as users see it.
func (s Status) Shown() Status {
	if s == NeedDiscard {
		return Failed
	}
	return s
}

// Ended reports whether nothing but an operator's requeue can move the job any more.
func (s Status) Ended() bool {
	return s == Completed || s == Failed || s == Cancelled || s == NeedDiscard
}

// Cause says why an attempt, or at the end the job, did not succeed.
type Cause string

// The causes. The first two are found by the watches (or by the worker itself), the others come from the worker.
const (
	HeartbeatStopped Cause = "HEARTBEAT_STOPPED" // the process holding the job died
	MaxTimeExceeded  Cause = "MAX_TIME_EXCEEDED" // the job ran longer than its tier allows
	HandlerError     Cause = "HANDLER_ERROR"     // the handler returned an error or panicked
	PermanentError   Cause = "PERMANENT_ERROR"   // the handler returned handler.Permanent(err)
	ResultTooLarge   Cause = "RESULT_TOO_LARGE"  // the result exceeds TIERQ_RESULT_LIMIT
	UnknownJobType   Cause = "UNKNOWN_JOB_TYPE"  // the worker has no handler for the type
	LaterLimit       Cause = "LATER_LIMIT"       // the handler asked for later more often, or for longer, than is free
)

// Submission is a job as it is accepted: everything that is fixed for its whole life. The arrival time is set by Redis.
type Submission struct {
	ID         ID
	Tier       Tier
	Type       string
	Payload    []byte // JSON, at most TIERQ_PAYLOAD_LIMIT bytes; nil = none
	MaxRetries int    // never above the plan's
	Delay      time.Duration
	RunAt      time.Time // due by Redis' clock, in place of Delay; the zero time = now
	Owner      string    // the caller's API key id; "" = anonymous
	Quota      int       // jobs that Owner may have under way, at most; 0 = unlimited
	TraceID    string
	Options
	Idempotency Idempotency
}

// Delayed says whether the job waits in SCHEDULED first.
func (s *Submission) Delayed() bool { return s.Delay > 0 || !s.RunAt.IsZero() }

// Job is a job as it stands: the submission and what has happened to it since. Times are Redis' clock, in milliseconds,
// UTC; the zero time means "not yet".
type Job struct {
	ID         ID
	Generation int // 1 at submit; each requeue adds one
	Tier       Tier
	Type       string
	Owner      string
	TraceID    string
	Options
	Payload []byte // nil once the outcome is in SQL

	Status          Status
	Attempt         int // claims so far, over all generations
	RetryCount      int // failures, crashes and stuck runs so far in this generation; bounded by MaxRetries
	MaxRetries      int
	CancelRequested bool
	Worker          string // the process that held the latest lease; "" = none yet, or not known any more
	Checkpoint      []byte // what a handler saved in an earlier attempt of this generation

	ArrivedAt    time.Time
	FirstTriedAt time.Time // the first claim of this generation
	StartedAt    time.Time // the latest claim
	EndedAt      time.Time
	RunAt        time.Time // when a SCHEDULED job is due; on a first lease, when one that was delayed had been

	Result    []byte // JSON
	Note      string // of the Result, see NoteOf; a list has it without the result
	Cause     Cause  // of the latest failed attempt
	LastError string // of the latest failed attempt, at most 2 KiB
}

// Attempt is one claim that did not end well, as kept in the job's history.
type Attempt struct {
	Number     int
	Generation int    // of the job, when this attempt ran; 0 = not known
	Worker     string // the process that held the lease
	StartedAt  time.Time
	FinishedAt time.Time
	Outcome    string    // a Cause, or RELEASED, LATER, CANCELLED
	Error      string    // of a LATER: why the handler asked for it, in its own words
	Until      time.Time // of a LATER: when the job was due again
}

// Outcome is an ended job on its way to SQL, with the history of its attempts.
type Outcome struct {
	Job
	Attempts []Attempt
}

// CallbackType is the type of the jobs that tell a callback URL of another job's end.
const CallbackType = "CALLBACK"

// Owed says whether SQL owed the job to Redis, journal or not: it told of another job's end, or it was requeued.
func (o *Outcome) Owed() bool { return o.Generation > 1 || o.Type == CallbackType }

// Ack tells Redis that SQL has an outcome. Status is what SQL holds: if the two stores disagree, SQL's word stands.
type Ack struct {
	ID         ID
	Generation int
	Attempt    int
	Status     Status // COMPLETED, FAILED or CANCELLED
	// SQL had an outcome of this life before, which stands: what Redis has of the result may be another's
	Known bool
}
