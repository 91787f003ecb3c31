package job

import "time"

// Filter selects jobs; a zero field selects all.
type Filter struct {
	Status Status // as shown to users
	Tier   Tier
	Type   string
	Queue  string // living and ended jobs, not dead letters
	Cause  Cause

	Retrying bool    // with Status Scheduled: only jobs that have spent a retry and wait for their next attempt
	TraceID  string  // the submit's trace
	Owner    *string // nil = all owners; "" = jobs without an owner

	From time.Time // dead letters: discarded at From or later
	To   time.Time // dead letters: discarded before To
}

// Takes says whether a job passes all fields except From and To.
func (f Filter) Takes(j *Job) bool {
	return (f.Status == "" || f.Status == j.Status.Shown()) && (!f.Retrying || j.RetryCount > 0) &&
		(f.Tier == "" || f.Tier == j.Tier) &&
		(f.Type == "" || f.Type == j.Type) && (f.Queue == "" || f.Queue == j.QueueName()) &&
		(f.Cause == "" || f.Cause == j.Cause) &&
		(f.TraceID == "" || f.TraceID == j.TraceID) &&
		(f.Owner == nil || *f.Owner == j.Owner)
}

// DeadLetter is a job that failed for good, as SQL keeps it, with the Payload and Options that a requeue needs.
type DeadLetter struct {
	Job
	RequestedAt time.Time // when a requeue was promised
	RequestID   string    // the request that promised it
	RequeuedAt  time.Time // when the requeue happened
	DismissedAt time.Time // when an operator dismissed the letter; a later requeue clears it
}

// Open says whether no requeue was requested yet. A dismissed letter may be open: it can still be requeued.
func (d *DeadLetter) Open() bool { return d.RequestedAt.IsZero() && d.RequeuedAt.IsZero() }

// Next returns the journal row of the job's next generation. priority is that of the job's tier.
func (d *DeadLetter) Next(priority int) JournalRow {
	return JournalRow{Priority: priority, Job: Job{
		ID: d.ID, Generation: d.Generation + 1, Attempt: d.Attempt, Tier: d.Tier, MaxRetries: d.MaxRetries,
		Type: d.Type, Owner: d.Owner, TraceID: d.TraceID, Options: d.Options, Payload: d.Payload,
	}}
}

// Ahead counts the jobs before a waiting job.
type Ahead struct {
	Position int64          // ready jobs before it, over all partitions: 0 = next
	ByTier   map[Tier]int64 // the same, by tier; nil where tiers overlap (a small priority base)
	Running  map[Tier]int64 // running jobs, by tier
}
