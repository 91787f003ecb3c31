package faktory

import (
	"context"
	"net/netip"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Submitter accepts jobs. Its errors are those of package admission; a refusal has a method RetryIn.
type Submitter interface {
	Submit(ctx context.Context, s job.Submission) (job.Accepted, error)
	// SubmitBatch returns one answer and one error for each submission, in their order.
	SubmitBatch(ctx context.Context, batch []job.Submission) ([]job.Accepted, []error)
}

// Leases hands out leases and takes reports, as package leasing does.
type Leases interface {
	Claim(ctx context.Context, c job.WorkerClaim) ([]job.WorkerLease, error)
	GiveBack(leases []job.WorkerLease)
	Heartbeat(ctx context.Context, key string, beats []job.WorkerBeat) ([]job.WorkerPulse, error)
	End(ctx context.Context, key string, reports []job.WorkerReport) []job.WorkerEnd
	See(s job.WorkerSight)
	Asked(key, worker string) job.WorkerState
}

// Book keeps the leases that workers hold, for all processes.
type Book interface {
	HoldLeases(ctx context.Context, key, worker string, held []job.HeldLease) error
	HeldLeases(ctx context.Context, key, worker string) ([]job.HeldLease, error)
	DropLeases(ctx context.Context, refs []job.HeldRef) error
	// CountFaktory adds to the totals of ended attempts and of failed ones.
	CountFaktory(ctx context.Context, processed, failures int64) error
	FaktoryTotals(ctx context.Context) (processed, failures int64, err error)
	ForgetFaktoryTotals(ctx context.Context) error
}

// Queues are the declared queues.
type Queues interface {
	Find(name string) (job.Queue, bool)
	All() []job.Queue
	// ForFaktory declares a queue for Faktory clients, or with on false says that they have removed it.
	ForFaktory(ctx context.Context, name string, on bool) error
	// DeleteQueue removes a declaration; job.ErrQueueInUse: the queue has jobs.
	DeleteQueue(ctx context.Context, name string) error
	// PurgeQueue cancels ready jobs of a queue, some thousand at most; more: there may be others.
	PurgeQueue(ctx context.Context, name string) (cancelled int, more bool, err error)
}

// Pauses are what is paused.
type Pauses interface {
	Pause(ctx context.Context, p job.Pause) (job.Pause, error)
	Resume(ctx context.Context, scope string) (was job.Pause, on bool, err error)
}

// Counts has the figures of INFO, as they are at the moment of the call.
type Counts interface {
	QueueCounts(ctx context.Context) (map[string]job.QueueCount, error)
	// OldestIn returns since when the longest waiting job of a queue is ready; the zero time if none is.
	OldestIn(ctx context.Context, queue string) (time.Time, error)
	// CountDead counts the dead letters of a queue, up to some thousand; "" = of all declared queues.
	CountDead(ctx context.Context, queue string) (int64, error)
}

// Jobs finds jobs and changes them.
type Jobs interface {
	Find(ctx context.Context, id job.ID) (job.Job, error)
	// Attempts returns the attempts that did not end well, oldest first.
	Attempts(ctx context.Context, id job.ID) ([]job.Attempt, error)
	// List returns a page of jobs, without payloads, and the cursor of the next page, "" at the end.
	List(ctx context.Context, f job.Filter, cursor string, limit int) ([]job.Job, string, error)
	// Whole adds the payload.
	Whole(ctx context.Context, j job.Job) (whole job.Job, kept bool, err error)
	Cancel(ctx context.Context, id job.ID, reason string) (job.Word, error)
	// EachDead calls yield with every dead letter, with its payload.
	EachDead(ctx context.Context, f job.Filter, yield func(job.DeadLetter) error) error
	// IsDead says whether SQL has a job as a dead letter.
	IsDead(ctx context.Context, id job.ID) (bool, error)
	Requeue(ctx context.Context, id job.ID, request job.Request) error
	// Kill makes a dead letter of a job that waits, Hasten makes a scheduled job ready, Dismiss takes a dead letter off
	// the list.
	Kill(ctx context.Context, id job.ID, reason string) error
	Hasten(ctx context.Context, id job.ID) error
	Dismiss(ctx context.Context, id job.ID, reason string) error
}

// Plans are the plans of the tiers.
type Plans interface {
	Plan(t job.Tier) (job.Plan, bool)
}

// Schemas holds a payload against a JSON Schema of its queue.
type Schemas interface {
	Check(schema string, payload []byte) error
}

// Keys knows the API keys.
type Keys interface {
	// Open says whether there are no keys, so that every caller may do everything.
	Open() bool
	// Gateway returns the caller of a key, and the passwords that open the gateway for it: today's and, in its grace, the
	// one before. job.ErrUnauthorized: there is no such key, or it is not valid any more. job.ErrNoGateway: the server has
	// no secret for passwords.
	Gateway(ctx context.Context, keyID string) (job.Caller, []string, error)
	// NoteUse marks a key as used now.
	NoteUse(keyID string)
}

// Rates charges callers and addresses, as package auth does.
type Rates interface {
	CountAddress(ctx context.Context, from netip.Addr) error
	Spend(ctx context.Context, c *job.Caller, n int) job.Allowance
	// CountWrong charges a wrong password to its address. The error is a *job.RateError if the address sent too many.
	CountWrong(ctx context.Context, from netip.Addr) error
}

// Deps are the other parts that the gateway needs. All are required.
type Deps struct {
	Submit  Submitter
	Leases  Leases
	Book    Book
	Queues  Queues
	Pauses  Pauses
	Counts  Counts
	Jobs    Jobs
	Plans   Plans
	Schemas Schemas
	Keys    Keys
	Rates   Rates
	Clock   func() time.Time // Redis' clock
}
