// Package job defines the words of tierq: what a job, a tier, a lease and an ending are. All other packages use
// these words; this package imports nothing but the standard library. The tools for writing job types are in
// package handler.
package job

import "time"

// Status is the state of a job. The state diagram is in docs/STATES.md.
type Status string

// The statuses. NeedDiscard is internal: no retry is left, and the dead letter is not in SQL yet. Users see
// FAILED.
const (
	Scheduled   Status = "SCHEDULED"
	Held        Status = "HELD"    // it waits for the end of the job that holds its unique key
	Waiting     Status = "WAITING" // it waits for the ends of other jobs of its flow; only SQL has it
	Pending     Status = "PENDING"
	Processing  Status = "PROCESSING"
	Completed   Status = "COMPLETED"
	Failed      Status = "FAILED"
	Cancelled   Status = "CANCELLED"
	Expired     Status = "EXPIRED" // nobody claimed it by the time that its submit said
	NeedDiscard Status = "NEED_DISCARD"
)

// Shown returns the status that users see.
func (s Status) Shown() Status {
	if s == NeedDiscard {
		return Failed
	}
	return s
}

// Ended says whether only an operator's requeue can still move the job.
func (s Status) Ended() bool {
	return s == Completed || s == Failed || s == Cancelled || s == Expired || s == NeedDiscard
}

// Final says whether nothing can move the job any more: only FAILED jobs are requeued.
func (s Status) Final() bool { return s == Completed || s == Cancelled || s == Expired }

// Cause says why an attempt, or at the end the job, did not succeed.
type Cause string

// The causes. The watches (or the worker itself) find the first two; an operator says KILLED, the flow the last, the
// worker the others.
const (
	HeartbeatStopped Cause = "HEARTBEAT_STOPPED" // the process that held the job died
	MaxTimeExceeded  Cause = "MAX_TIME_EXCEEDED" // the job ran longer than its tier allows
	HandlerError     Cause = "HANDLER_ERROR"     // the handler returned an error or panicked
	PermanentError   Cause = "PERMANENT_ERROR"   // the handler returned handler.Permanent(err)
	ResultTooLarge   Cause = "RESULT_TOO_LARGE"  // the result exceeds TIERQ_RESULT_LIMIT
	UnknownJobType   Cause = "UNKNOWN_JOB_TYPE"  // the worker has no handler for the type
	LaterLimit       Cause = "LATER_LIMIT"       // the handler asked for more later than is free
	Killed           Cause = "KILLED"            // an operator killed the waiting job
	DependencyFailed Cause = "DEPENDENCY_FAILED" // a job of its flow that it waited for did not complete
)

// Submission is a job to accept: everything that is fixed for its whole life. Redis sets the arrival time.
type Submission struct {
	ID         ID
	Tier       Tier
	Type       string
	Payload    []byte // JSON, at most TIERQ_PAYLOAD_LIMIT bytes; nil = none
	MaxRetries int    // never above the plan's
	Delay      time.Duration
	RunAt      time.Time // when the job is due, by Redis' clock, instead of Delay; the zero time = now
	Owner      string    // the caller's API key id; "" = anonymous
	Quota      int       // the most living jobs that Owner may have; 0 = unlimited
	TraceID    string
	Options
	Idempotency Idempotency
	UniqueOn    UniqueOn // with Unique
	// MaxWait is how long after its arrival a replaced job is due at the latest, with UniqueReplace; 0 = whenever.
	MaxWait time.Duration
}

// Delayed says whether the job first waits in SCHEDULED.
func (s *Submission) Delayed() bool { return s.Delay > 0 || !s.RunAt.IsZero() }

// Job is the present state of a job: the submission and what has happened to it since. Times are Redis' clock, in
// milliseconds, UTC; the zero time means "not yet".
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
	RetryCount      int // failures and stuck attempts of this generation; at most MaxRetries
	MaxRetries      int
	Crashes         int // attempts of this generation that lost their worker; only a living job tells
	CancelRequested bool
	Worker          string    // the process that held the latest lease; "" = none yet, or no longer known
	Checkpoint      []byte    // the data that a handler saved in an earlier attempt of this generation
	Progress        *Progress // of the attempt that runs, or that ended the job; nil = its handler told none
	LogBytes        int       // the bytes of its log in Redis, or of what SQL has of it; 0 = there is none

	ArrivedAt    time.Time
	FirstTriedAt time.Time // the first claim of this generation
	StartedAt    time.Time // the latest claim
	EndedAt      time.Time
	RunAt        time.Time // when a SCHEDULED or HELD job is due; on a first lease, when a delayed job was due

	Result    []byte // JSON
	Note      string // the Result's note, see NoteOf; a list has it without the result
	Cause     Cause  // of the latest failed attempt
	LastError string // of the latest failed attempt, at most 2 KiB
}

// Attempt is one unsuccessful claim in the job's history.
type Attempt struct {
	Number     int
	Generation int    // the job's generation at that time; 0 = not known
	Worker     string // the process that held the lease
	StartedAt  time.Time
	FinishedAt time.Time
	Outcome    string    // a Cause, or RELEASED, LATER, CANCELLED
	Error      string    // the error; for a LATER, the handler's reason
	Until      time.Time // for a LATER: when the job was due again
}

// Outcome is an ended job on its way to SQL, with the history of its attempts, and the log that Redis had of it.
type Outcome struct {
	Job
	Attempts []Attempt
	Log      []string // lines as ReadLogLine reads them
}

// CallbackType is the type of the jobs that report another job's end to a callback URL.
const CallbackType = "CALLBACK"

// Owed says whether the job has a journal row even with the journal off, because SQL promised the job: it is a
// callback job, a schedule made it, a job of a flow, a batch's member or then job, or it was requeued.
func (o *Outcome) Owed() bool {
	return o.Generation > 1 || o.Type == CallbackType || o.Schedule != "" || o.Flow != "" || o.Batch != "" ||
		o.ThenOf != ""
}

// Ack tells Redis that SQL has an outcome. Status is SQL's outcome: if the two stores disagree, SQL wins.
type Ack struct {
	ID         ID
	Generation int
	Attempt    int
	Status     Status // COMPLETED, FAILED, CANCELLED or EXPIRED
	// SQL already had an outcome of this generation, which stands: the result in Redis may be of another
	// incarnation's attempt
	Known bool
}
