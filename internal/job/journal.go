package job

import "time"

// JournalRow is a job as the accept journal keeps it: whole enough to be given back to a Redis that lost it. Of the Job
// it uses what is fixed for the generation (ArrivedAt zero: it has not arrived yet) and how far it has come: Attempt,
// RetryCount, FirstTriedAt, CancelRequested, RunAt (when it is due, the zero time = at once), and StartedAt and Worker,
// which are set only while it runs.
type JournalRow struct {
	Job
	Priority    int // of its tier when it arrived
	Idempotency Idempotency
	Incarnation string // the life of Redis that is known to have the job; "" = none is known to
	Submitting  bool   // written by a submit that Redis may still refuse: then its submitter takes the row back
}

// Running says whether the job was in somebody's hands when the journal last heard of it.
func (l *JournalRow) Running() bool { return !l.StartedAt.IsZero() }

// Waits is what the journal hears of an attempt that ended without ending the job: it waits again.
type Waits struct {
	ID      ID
	Attempt int
	Spent   int       // retries that it cost
	Due     time.Time // the zero time = at once
}

// KeyHolder is the job that an Idempotency-Key stands for, where a submit under the key meets it; no ID = none.
type KeyHolder struct {
	ID         ID
	OtherBody  bool // another body was submitted under the key: the submit is refused
	Submitting bool // that job's own submit may still be refused
}
