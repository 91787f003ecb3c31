package client

import (
	"encoding/json"
	"time"
)

// Retrying is no status but a Filter's choice of the Scheduled jobs: those that failed, and wait for their next
// attempt.
const Retrying Status = "RETRYING"

// Tier is a class of service: better tiers go first.
type Tier string

// The tiers every server has; an operator may have added others.
const (
	Paid   Tier = "PAID"
	Unpaid Tier = "UNPAID"
	Public Tier = "PUBLIC"
)

// Status is where a job stands in its life.
type Status string

// The statuses.
const (
	Scheduled  Status = "SCHEDULED"
	Pending    Status = "PENDING"
	Processing Status = "PROCESSING"
	Completed  Status = "COMPLETED"
	Failed     Status = "FAILED"
	Cancelled  Status = "CANCELLED"
)

// Ended reports whether nothing but a requeue can move the job any more.
func (s Status) Ended() bool { return s == Completed || s == Failed || s == Cancelled }

// Poll is a job as it stands. Times are the zero time, and pointers nil, where there is nothing to say yet.
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
	Position     *int64          `json:"position,omitempty"`   // of a pending job: 0 = next; approximate
	ETASeconds   *int64          `json:"etaSeconds,omitempty"` // of a pending job
	Result       json.RawMessage `json:"result,omitempty"`
	FailureCause string          `json:"failureCause,omitempty"` // such as HANDLER_ERROR
	LastError    string          `json:"lastError,omitempty"`    // of the latest failed attempt
	TraceID      string          `json:"traceId,omitempty"`
	ETag         string          `json:"-"` // changes with the job
}

// Decode reads the job's result into v.
func (p *Poll) Decode(v any) error { return decodeResult(p.JobID, p.Result, v) }

// Job is a job with what happened to it. Lists come without Payload, Result and History; a line of DeadExport is a Job.
type Job struct {
	JobID           string    `json:"jobId"`
	Status          Status    `json:"status"`
	Tier            Tier      `json:"tier"`
	Type            string    `json:"type"`
	Generation      int       `json:"generation,omitempty"` // 1, and one more with each requeue
	Attempts        int       `json:"attempts"`
	RetryCount      int       `json:"retryCount"`
	MaxRetries      int       `json:"maxRetries"`
	CancelRequested bool      `json:"cancelRequested,omitempty"`
	CreatedAt       time.Time `json:"createdAt,omitzero"`
	RunAt           time.Time `json:"runAt,omitzero"`
	FirstTriedAt    time.Time `json:"firstTriedAt,omitzero"`
	CompletedAt     time.Time `json:"completedAt,omitzero"`
	UpdatedAt       time.Time `json:"updatedAt,omitzero"`
	// the id of the key that submitted it, for operators; not in lists
	Owner string `json:"owner,omitempty"`
	// not in lists, and nil unless PayloadKept or in an export of dead letters
	Payload      json.RawMessage `json:"payload,omitempty"`
	PayloadKept  bool            `json:"payloadKept,omitempty"` // false once it is COMPLETED or CANCELLED
	CallbackURL  string          `json:"callbackUrl,omitempty"` // as Payload
	Result       json.RawMessage `json:"result,omitempty"`
	FailureCause string          `json:"failureCause,omitempty"`
	LastError    string          `json:"lastError,omitempty"`
	Note         string          `json:"note,omitempty"` // of the result: what to look at more closely
	TraceID      string          `json:"traceId,omitempty"`
	History      []Attempt       `json:"history,omitempty"` // oldest first
	Reasons      []Reason        `json:"reasons,omitempty"` // reasons given for its requeues and cancels; not in lists

	RequeueRequestedAt time.Time `json:"requeueRequestedAt,omitzero"` // of a dead letter: a new life was promised
	RequeuedAt         time.Time `json:"requeuedAt,omitzero"`         // and has begun

	Raw json.RawMessage `json:"-"` // the answer as it came, for what this version of the client does not know
}

// Decode reads the job's result into v.
func (j *Job) Decode(v any) error { return decodeResult(j.JobID, j.Result, v) }

// Reason is the text that a caller gave for a cancel or a requeue.
type Reason struct {
	Action     string    `json:"action"`     // cancel or requeue
	Generation int       `json:"generation"` // the life that was cancelled, or that had failed and got a new one
	At         time.Time `json:"at,omitzero"`
	Reason     string    `json:"reason"`
}

// Attempt is one claim of a job by a worker.
type Attempt struct {
	Attempt    int       `json:"attempt"`
	Generation int       `json:"generation,omitempty"` // of the job, when it ran; 0 = not known any more
	Worker     string    `json:"worker,omitempty"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	Outcome    string    `json:"outcome,omitempty"` // RUNNING, SUCCESS, FAILURE, RELEASED, LATER or CANCELLED
	Cause      string    `json:"cause,omitempty"`
	Error      string    `json:"error,omitempty"`
	Reason     string    `json:"reason,omitempty"` // of a LATER: why its handler asked for it
	Until      time.Time `json:"until,omitzero"`   // of a LATER: when the job was due again
}

// Filter picks jobs; a zero field takes all. From and To are for dead letters only, Status for Jobs only.
type Filter struct {
	Status  Status // or Retrying
	Tier    Tier
	Type    string
	Cause   string
	TraceID string    // of the submit: Jobs, Dead, DeadExport
	From    time.Time // discarded at From or later: Dead, DeadExport, RequeueDead
	To      time.Time // discarded before To: Dead, DeadExport, RequeueDead
	Limit   int       // of one page, at most 100; 0 = the server's
}

// Page is a part of a list. Next is the cursor of the following part, "" at the end; a page may be short, or empty, and
// still have one.
type Page struct {
	Items []Job  `json:"items"`
	Next  string `json:"next"`
}

// Event says that a job came into a status. Events are hints: they may be lost, the job itself is the truth.
type Event struct {
	ID      string    `json:"-"` // to go on from here, see Events
	Resync  bool      `json:"-"` // nothing but this: some events were lost here
	JobID   string    `json:"jobId"`
	Tier    Tier      `json:"tier"`
	Status  Status    `json:"status"`
	Attempt int       `json:"attempt"`
	Cause   string    `json:"cause,omitempty"`
	At      time.Time `json:"at"`
}
