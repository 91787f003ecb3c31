package archive

import "time"

// The structs here are the rows as queries read them. A test compares them with the migrated schema. A nil time
// means "never".

// outcomeRow is the outcome of a failed or cancelled generation. A completed generation has one beside its resultRow if
// an earlier version wrote it.
type outcomeRow struct {
	JobID      string     `gorm:"type:char(36);primaryKey"`
	Generation int        `gorm:"type:int;primaryKey;autoIncrement:false"`
	Outcome    string     `gorm:"type:varchar(16);not null"`
	Attempt    int        `gorm:"type:int;not null"`
	Tier       string     `gorm:"type:varchar(31);not null"`
	Type       string     `gorm:"type:varchar(100);not null"`
	Owner      string     `gorm:"type:varchar(64);not null"`
	RetryCount int        `gorm:"type:int;not null"`
	MaxRetries int        `gorm:"type:int;not null"`
	ArrivedAt  *time.Time `gorm:"type:datetime(6)"`
	TraceID    string     `gorm:"type:varchar(100);not null"`
	RecordedAt time.Time  `gorm:"type:datetime(6);not null"` // the database's clock
	Queue      string     `gorm:"type:varchar(80);not null"` // "" = main

	// The times of a cancelled job, which has no other row.
	FirstTriedAt *time.Time `gorm:"type:datetime(6)"`
	StartedAt    *time.Time `gorm:"type:datetime(6)"`
	EndedAt      *time.Time `gorm:"type:datetime(6)"`
}

// resultRow is a completed job: its outcome and its result.
type resultRow struct {
	JobID        string     `gorm:"type:char(36);primaryKey"`
	Generation   int        `gorm:"type:int;not null"`
	Tier         string     `gorm:"type:varchar(31);not null"`
	Type         string     `gorm:"type:varchar(100);not null"`
	Owner        string     `gorm:"type:varchar(64);not null"`
	Result       []byte     `gorm:"type:mediumblob"`
	RetryCount   int        `gorm:"type:int;not null"`
	MaxRetries   int        `gorm:"type:int;not null"`
	Attempts     int        `gorm:"type:int;not null"`
	ArrivedAt    *time.Time `gorm:"type:datetime(6)"`
	FirstTriedAt *time.Time `gorm:"type:datetime(6)"`
	StartedAt    *time.Time `gorm:"type:datetime(6)"`
	CompletedAt  *time.Time `gorm:"type:datetime(6)"`
	TraceID      string     `gorm:"type:varchar(100);not null"`
	Worker       string     `gorm:"type:varchar(255);not null"` // who completed the job; "" in rows older than the column
	Note         string     `gorm:"type:varchar(200);not null"` // a short text about the result, for lists
	RecordedAt   *time.Time `gorm:"type:datetime(6)"`           // the database's clock; nil in rows older than the column
	Queue        string     `gorm:"type:varchar(80);not null"`  // "" = main
}

// failedRow is a dead letter. Options holds, as text, what the submit asked for besides its payload (job.Options);
// NULL means nothing.
type failedRow struct {
	JobID              string     `gorm:"type:char(36);primaryKey"`
	Generation         int        `gorm:"type:int;primaryKey;autoIncrement:false"`
	Tier               string     `gorm:"type:varchar(31);not null"`
	Type               string     `gorm:"type:varchar(100);not null"`
	Owner              string     `gorm:"type:varchar(64);not null"`
	Payload            []byte     `gorm:"type:mediumblob"`
	Options            []byte     `gorm:"type:mediumblob"`
	TotalRetries       int        `gorm:"type:int;not null"`
	MaxRetries         int        `gorm:"type:int;not null"`
	Attempts           int        `gorm:"type:int;not null"`
	ArrivedAt          *time.Time `gorm:"type:datetime(6)"`
	FirstTriedAt       *time.Time `gorm:"type:datetime(6)"`
	StartedAt          *time.Time `gorm:"type:datetime(6)"`
	DiscardedAt        *time.Time `gorm:"type:datetime(6)"`
	FailureCause       string     `gorm:"type:varchar(32);not null"`
	LastError          string     `gorm:"type:text;not null"`
	RequeueRequestedAt *time.Time `gorm:"type:datetime(6)"`
	RequeueRequestID   *string    `gorm:"type:varchar(64)"`
	RequeuedAt         *time.Time `gorm:"type:datetime(6)"`
	RequeuedRunID      *string    `gorm:"type:varchar(64)"`
	TraceID            string     `gorm:"type:varchar(100);not null"`
	// a column that the database computes: discarded_at until a requeue is asked for or the letter is dismissed, then
	// NULL
	OpenAt        *time.Time `gorm:"type:datetime(6)"`
	RequeueReason string     `gorm:"type:varchar(500);not null"`
	DismissedAt   *time.Time `gorm:"type:datetime(6)"` // the database's clock
	DismissReason string     `gorm:"type:varchar(500);not null"`
}

type attemptRow struct {
	JobID      string     `gorm:"type:char(36);primaryKey"`
	Attempt    int        `gorm:"type:int;primaryKey;autoIncrement:false"`
	Worker     string     `gorm:"type:varchar(255);not null"`
	StartedAt  *time.Time `gorm:"type:datetime(6)"`
	FinishedAt *time.Time `gorm:"type:datetime(6)"`
	Outcome    string     `gorm:"type:varchar(32);not null"`
	Error      string     `gorm:"type:text;not null"` // the error; of a LATER, its reason
	Generation int        `gorm:"type:int;not null"`  // 0 in rows older than the column
	UntilAt    *time.Time `gorm:"type:datetime(6)"`   // set for a LATER only
}

// logRow has what the handlers of an ended generation told beside its result.
type logRow struct {
	JobID      string `gorm:"type:char(36);primaryKey"`
	Generation int    `gorm:"type:int;primaryKey;autoIncrement:false"`
	Progress   string `gorm:"type:varchar(800);not null"` // "" = none was told
	Log        []byte `gorm:"type:mediumblob"`            // compressed; NULL = none
}

// cancelReasonRow says why a cancel was asked for. The row is written before Redis is asked to cancel.
type cancelReasonRow struct {
	JobID      string    `gorm:"type:char(36);primaryKey"`
	Generation int       `gorm:"type:int;primaryKey;autoIncrement:false"`
	Reason     string    `gorm:"type:varchar(500);not null"`
	AskedAt    time.Time `gorm:"type:datetime(6);not null"` // the database's clock
}

// acceptedRow is a journal row: a living job in the accept journal.
type acceptedRow struct {
	JobID           string     `gorm:"type:char(36);primaryKey"`
	Generation      int        `gorm:"type:int;not null"`
	Tier            string     `gorm:"type:varchar(31);not null"`
	Type            string     `gorm:"type:varchar(100);not null"`
	Owner           string     `gorm:"type:varchar(64);not null"`
	Priority        int        `gorm:"type:int;not null"`
	Payload         []byte     `gorm:"type:mediumblob"`
	Options         []byte     `gorm:"type:mediumblob"`
	MaxRetries      int        `gorm:"type:int;not null"`
	ArrivedAt       *time.Time `gorm:"type:datetime(6)"`
	DueAt           *time.Time `gorm:"type:datetime(6)"`
	Attempt         int        `gorm:"type:int;not null"`
	RetryCount      int        `gorm:"type:int;not null"`
	CrashCount      int        `gorm:"type:int;not null"`
	FirstTriedAt    *time.Time `gorm:"type:datetime(6)"`
	StartedAt       *time.Time `gorm:"type:datetime(6)"` // set while the job runs
	Worker          string     `gorm:"type:varchar(255);not null"`
	LeaseToken      string     `gorm:"type:varchar(255);not null"` // see job.JournalRow
	LeaseMs         int64      `gorm:"type:bigint;not null"`
	CancelRequested bool       `gorm:"type:tinyint;not null"`
	Incarnation     string     `gorm:"column:run_id;type:varchar(64);not null"` // of Redis; "" = no Redis has the job yet
	TraceID         string     `gorm:"type:varchar(100);not null"`
	IdempotencyKey  *string    `gorm:"type:char(32)"`
	IdempotencyBody *string    `gorm:"type:char(32)"`
	Submitting      bool       `gorm:"type:tinyint;not null"`
	KillReason      string     `gorm:"type:varchar(500);not null"` // "" = it was not killed
	RecordedAt      time.Time  `gorm:"type:datetime(6);not null"`  // the database's clock, at the start of this generation
}

type keyRow struct {
	IdemKey   string    `gorm:"type:char(32);primaryKey"`
	Body      string    `gorm:"type:char(32);not null"`
	JobID     string    `gorm:"type:char(36);not null"`
	ExpiresAt time.Time `gorm:"type:datetime(6);not null"` // the database's clock
}

// planRow is a tier's plan. Plan holds JSON.
type planRow struct {
	Tier      string    `gorm:"type:varchar(31);primaryKey"`
	Version   int64     `gorm:"type:bigint;not null"`
	Plan      string    `gorm:"type:text;not null"`
	ChangedAt time.Time `gorm:"type:datetime(6);not null"` // the database's clock
}

// queueRow is a declared queue. Queue holds JSON.
type queueRow struct {
	Name      string    `gorm:"type:varchar(80);primaryKey"`
	Version   int64     `gorm:"type:bigint;not null"`
	Queue     string    `gorm:"type:text;not null"`
	ChangedAt time.Time `gorm:"type:datetime(6);not null"` // the database's clock
}

// lineLimitsRow has the limits of a key of lines. Limits holds JSON.
type lineLimitsRow struct {
	Name      string `gorm:"primaryKey;size:400"`
	Version   int64
	Limits    string
	ChangedAt time.Time
}

// pausesRow has what is paused. Pauses holds JSON.
type pausesRow struct {
	ID        int       `gorm:"type:int;primaryKey;autoIncrement:false"`
	Version   int64     `gorm:"type:bigint;not null"`
	Pauses    string    `gorm:"type:text;not null"`
	ChangedAt time.Time `gorm:"type:datetime(6);not null"` // the database's clock
}

// scheduleRow is a schedule. Schedule holds JSON.
type scheduleRow struct {
	Name           string     `gorm:"type:varchar(80);primaryKey"`
	Version        int64      `gorm:"type:bigint;not null"`
	Owner          string     `gorm:"type:varchar(64);not null"`
	Schedule       string     `gorm:"type:mediumtext;not null"`
	Payload        []byte     `gorm:"type:mediumblob"`
	Incarnation    string     `gorm:"type:varchar(32);not null"`
	Occurrence     *time.Time `gorm:"type:datetime(6)"` // the next one; nil = none comes
	DueAt          *time.Time `gorm:"type:datetime(6)"` // when it becomes a job; nil = never, or it is paused
	LastOccurrence *time.Time `gorm:"type:datetime(6)"`
	CreatedAt      time.Time  `gorm:"type:datetime(6);not null"` // the database's clock
	ChangedAt      time.Time  `gorm:"type:datetime(6);not null"` // the database's clock
}

// scheduleRunRow is an occurrence of a schedule that was fired, or several that were missed.
type scheduleRunRow struct {
	Name       string    `gorm:"type:varchar(80);primaryKey"`
	Occurrence time.Time `gorm:"type:datetime(6);primaryKey"`
	Request    string    `gorm:"type:varchar(32);primaryKey"` // the hash of an operator's request; "" = none
	JobID      string    `gorm:"type:varchar(36);not null"`   // "" = missed
	ThroughAt  time.Time `gorm:"type:datetime(6);not null"`
	Missed     int       `gorm:"type:int;not null"`
	Reason     string    `gorm:"type:varchar(16);not null"`
	Detail     string    `gorm:"type:varchar(500);not null"`
	RecordedAt time.Time `gorm:"type:datetime(6);not null"` // the database's clock
	Living     bool      `gorm:"-:migration"`               // of a query: the job has a journal row
}

func (outcomeRow) TableName() string      { return "job_outcomes" }
func (resultRow) TableName() string       { return "job_results" }
func (failedRow) TableName() string       { return "failed_jobs" }
func (attemptRow) TableName() string      { return "job_attempts" }
func (logRow) TableName() string          { return "job_logs" }
func (acceptedRow) TableName() string     { return "accepted_jobs" }
func (cancelReasonRow) TableName() string { return "cancel_reasons" }
func (keyRow) TableName() string          { return "idempotency_keys" }
func (planRow) TableName() string         { return "plans" }
func (queueRow) TableName() string        { return "queues" }
func (lineLimitsRow) TableName() string   { return "line_limits" }
func (pausesRow) TableName() string       { return "pauses" }
func (scheduleRow) TableName() string     { return "schedules" }
func (scheduleRunRow) TableName() string  { return "schedule_runs" }
