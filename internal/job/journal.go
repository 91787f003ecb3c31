package job

import "time"

// JournalRow is a job in the journal, complete enough to restore it to a Redis that lost it. Of the Job it uses
// the fields that are fixed for the generation (a zero ArrivedAt means that the job has not arrived yet) and the
// job's progress: Attempt, RetryCount, FirstTriedAt, CancelRequested, RunAt (when it is due, the zero time = at
// once), and StartedAt and Worker, which are set only while the job runs.
type JournalRow struct {
	Job
	Priority    int // the tier's priority when the job arrived
	Idempotency Idempotency
	// Token and LeaseFor are those of the lease of a running job whose worker outlives an embedded server. The pool of
	// that server does not, and has no Token here: if the process is killed, that is a crash of the job.
	Token       string
	LeaseFor    time.Duration
	KillReason  string // why the job was killed; "" = it was not. A killed job has CancelRequested too
	Incarnation string // the incarnation of Redis that has the job; "" = none is known
	Submitting  bool   // the submit's call may still be refused, and then the submitter deletes the row
}

// Running says whether the job was running at its last entry in the journal.
func (l *JournalRow) Running() bool { return !l.StartedAt.IsZero() }

// Waits records in the journal that an attempt ended and that the job waits again.
type Waits struct {
	ID      ID
	Attempt int
	Spent   int       // how many retries the attempt cost
	Crashed int       // 1 = its worker was lost, and that counts as a crash of the job
	Due     time.Time // the zero time = at once
}

// KeyHolder is the job that an Idempotency-Key stands for when another submit uses the key; no ID = there is none. Of a
// submit with a batch it also says whether the batch refused the member.
type KeyHolder struct {
	ID         ID
	OtherBody  bool // another body was submitted under the key: the submit is refused
	Submitting bool // the job's own submit may still be refused
	// Refused is ErrNoBatch or ErrSealed if the submit's batch does not take it: its row was not written.
	Refused error
}
