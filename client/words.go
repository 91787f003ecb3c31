package client

import (
	"encoding/json"
	"time"
)

// Retrying is not a status. In a Filter it selects the Scheduled jobs that failed and wait for their next attempt.
const Retrying Status = "RETRYING"

// Tier is a class of service: jobs of better tiers go first.
type Tier string

// The tiers of every server; operators may have added others.
const (
	Paid   Tier = "PAID"
	Unpaid Tier = "UNPAID"
	Public Tier = "PUBLIC"
)

// Status is the state of a job.
type Status string

// The statuses.
const (
	Scheduled  Status = "SCHEDULED"
	Held       Status = "HELD"    // it waits for the end of the job that has its unique key
	Waiting    Status = "WAITING" // it waits for the ends of other jobs of its flow
	Pending    Status = "PENDING"
	Processing Status = "PROCESSING"
	Completed  Status = "COMPLETED"
	Failed     Status = "FAILED"
	Cancelled  Status = "CANCELLED"
	Expired    Status = "EXPIRED" // no worker claimed it by the time that its submit said
)

// Ended reports whether the job has ended. Only a requeue can move an ended job.
func (s Status) Ended() bool { return s == Completed || s == Failed || s == Cancelled || s == Expired }

// Poll is the present state of a job. Absent times are the zero time, absent values nil.
type Poll struct {
	JobID        string          `json:"jobId"`
	Status       Status          `json:"currentJobStatus"`
	Tier         Tier            `json:"jobTier"`
	Type         string          `json:"type"`
	RetryCount   int             `json:"retryCount"`
	MaxRetries   int             `json:"maxRetries"`
	ArrivedAt    time.Time       `json:"arrivedAt,omitzero"`
	FirstTriedAt time.Time       `json:"firstTriedAt,omitzero"`
	CompletedAt  time.Time       `json:"completedAt,omitzero"`
	RunAt        time.Time       `json:"runAt,omitzero"`       // of a scheduled job: when it is due
	ExpiresAt    time.Time       `json:"expiresAt,omitzero"`   // of a job that was never claimed: see Submission
	Position     *int64          `json:"position,omitempty"`   // of a pending job: 0 = next; approximate
	ETASeconds   *int64          `json:"etaSeconds,omitempty"` // of a pending job
	Result       json.RawMessage `json:"result,omitempty"`
	FailureCause string          `json:"failureCause,omitempty"` // such as HANDLER_ERROR
	LastError    string          `json:"lastError,omitempty"`    // of the latest failed attempt
	TraceID      string          `json:"traceId,omitempty"`
	Progress     *Progress       `json:"progress,omitempty"` // nil = its handler told none
	ETag         string          `json:"-"`                  // changes whenever the job changes
}

// Decode decodes the job's result into v.
func (p *Poll) Decode(v any) error { return decodeResult(p.JobID, p.Result, v) }

// Job is a job with its history. Jobs in lists have no Payload, Result and History. A line of DeadExport is a Job.
type Job struct {
	JobID           string    `json:"jobId"`
	Status          Status    `json:"status"`
	Tier            Tier      `json:"tier"`
	Type            string    `json:"type"`
	Queue           string    `json:"queue,omitempty"`      // "" from a server without queues
	Generation      int       `json:"generation,omitempty"` // 1, and one more with each requeue
	Attempts        int       `json:"attempts"`
	RetryCount      int       `json:"retryCount"`
	MaxRetries      int       `json:"maxRetries"`
	CancelRequested bool      `json:"cancelRequested,omitempty"`
	CreatedAt       time.Time `json:"createdAt,omitzero"`
	RunAt           time.Time `json:"runAt,omitzero"`
	ExpiresAt       time.Time `json:"expiresAt,omitzero"` // of a job that was never claimed
	FirstTriedAt    time.Time `json:"firstTriedAt,omitzero"`
	CompletedAt     time.Time `json:"completedAt,omitzero"`
	UpdatedAt       time.Time `json:"updatedAt,omitzero"`
	// Owner is the id of the API key that submitted the job, for operators; absent in lists.
	Owner string `json:"owner,omitempty"`
	Key   string `json:"key,omitempty"` // of its line: see WithKey
	// Payload is absent in lists, and nil unless PayloadKept or in an export of dead letters.
	Payload      json.RawMessage `json:"payload,omitempty"`
	PayloadKept  bool            `json:"payloadKept,omitempty"` // false if the job is COMPLETED, CANCELLED or EXPIRED
	CallbackURL  string          `json:"callbackUrl,omitempty"` // present where Payload is
	Schedule     string          `json:"schedule,omitempty"`    // the schedule that made it; absent in lists
	BatchID      string          `json:"batchId,omitempty"`     // the batch whose member it is; absent in lists
	FlowID       string          `json:"flowId,omitempty"`      // the flow whose job it is; absent in lists
	Result       json.RawMessage `json:"result,omitempty"`
	Progress     *Progress       `json:"progress,omitempty"` // nil = its handler told none; absent in lists
	FailureCause string          `json:"failureCause,omitempty"`
	LastError    string          `json:"lastError,omitempty"`
	Note         string          `json:"note,omitempty"` // a part of the result that deserves a closer look
	TraceID      string          `json:"traceId,omitempty"`
	History      []Attempt       `json:"history,omitempty"` // oldest first
	Reasons      []Reason        `json:"reasons,omitempty"` // of its requeues and cancels; absent in lists

	RequeueRequestedAt time.Time `json:"requeueRequestedAt,omitzero"` // of a dead letter: when its requeue was promised
	RequeuedAt         time.Time `json:"requeuedAt,omitzero"`         // when it was carried out

	Raw json.RawMessage `json:"-"` // the whole answer, for members that this version of the client does not know
}

// Decode decodes the job's result into v.
func (j *Job) Decode(v any) error { return decodeResult(j.JobID, j.Result, v) }

// Reason is a caller's reason for a cancel, a requeue or a dismissal.
type Reason struct {
	Action     string    `json:"action"`     // cancel, requeue or dismiss
	Generation int       `json:"generation"` // the generation that was cancelled, or that had failed and was requeued
	At         time.Time `json:"at,omitzero"`
	Reason     string    `json:"reason"`
}

// Attempt is one claim of a job by a worker.
type Attempt struct {
	Attempt    int       `json:"attempt"`
	Generation int       `json:"generation,omitempty"` // of the job at that time; 0 = no longer known
	Worker     string    `json:"worker,omitempty"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	Outcome    string    `json:"outcome,omitempty"` // RUNNING, SUCCESS, FAILURE, RELEASED, LATER or CANCELLED
	Cause      string    `json:"cause,omitempty"`
	Error      string    `json:"error,omitempty"`
	Reason     string    `json:"reason,omitempty"` // of a LATER: the handler's reason
	Until      time.Time `json:"until,omitzero"`   // of a LATER: when the job was due again
}

// Filter selects jobs; a zero field selects all. From and To are for dead letters only, Status and
// Queue for Jobs only.
type Filter struct {
	Status  Status // also Retrying
	Tier    Tier
	Type    string
	Queue   string // Jobs
	Cause   string
	TraceID string    // of the submit: Jobs, Dead, DeadExport
	From    time.Time // discarded at From or later: Dead, DeadExport, RequeueDead
	To      time.Time // discarded before To: Dead, DeadExport, RequeueDead
	Limit   int       // of one page, at most 100; 0 = the server's default
}

// Page is a part of a list. Next is the cursor of the next part, "" at the end. A page may be short or empty and
// still have a Next.
type Page struct {
	Items []Job  `json:"items"`
	Next  string `json:"next"`
}

// Event reports that a job has reached a status. Events are hints and may be lost; only a poll shows the job's
// true state.
type Event struct {
	ID      string    `json:"-"` // the point from which Events can continue
	Resync  bool      `json:"-"` // the only content of this Event: some events were lost here
	JobID   string    `json:"jobId"`
	Tier    Tier      `json:"tier"`
	Status  Status    `json:"status"`
	Attempt int       `json:"attempt"`
	Cause   string    `json:"cause,omitempty"`
	At      time.Time `json:"at"`
}
