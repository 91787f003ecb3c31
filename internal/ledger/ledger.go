// Package ledger shows both stores as one, and does what operators ask of a job. Redis has the living jobs, SQL
// the ended ones. Between the end of a job and its row in SQL only Redis knows the job, so the ledger asks Redis
// first, and SQL for what Redis no longer has.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Store is one of the two stores of jobs: Redis or SQL.
type Store interface {
	// Find returns job.ErrNotFound for a job that is not in the store.
	Find(ctx context.Context, id job.ID) (job.Job, error)
	// Attempts returns the unsuccessful attempts of a job, and none for an unknown job.
	Attempts(ctx context.Context, id job.ID) ([]job.Attempt, error)
	// List reads the store's jobs page by page: "" is the first cursor and the last next. It returns job.ErrBadCursor
	// for a cursor that is not its own.
	List(ctx context.Context, f job.Filter, cursor string, limit int) (items []job.Job, next string, err error)
}

// Mover is Redis, where jobs change their state. Each call may be sent twice.
type Mover interface {
	// Cancel answers one word per entry.
	Cancel(ctx context.Context, partition int, batch []job.Cancellation) ([]job.Word, error)
	// Kill answers one word per entry.
	Kill(ctx context.Context, partition int, batch []job.Killing) ([]job.Word, error)
	// Hasten answers one word per job.
	Hasten(ctx context.Context, partition int, ids []job.ID) ([]job.Word, error)
	// Incarnations returns the present incarnation of each partition's data. It changes when the partition's server
	// starts anew or is replaced by another; it is "", with an error, where the server does not answer.
	Incarnations(ctx context.Context) ([]string, error)
	// KnownIncarnation returns the incarnation that rows may name for jobs that are sent now: the one last read, or
	// an earlier one.
	KnownIncarnation(partition int) string
}

// DeadLetters lists the open dead letters: those without a requeue request that were not dismissed. The newest come
// first.
type DeadLetters interface {
	Dead(ctx context.Context, f job.Filter, cursor string, limit int) ([]job.DeadLetter, string, error)
	DeadPage(ctx context.Context, f job.Filter, page, size int) ([]job.DeadLetter, int64, error)
	EachDead(ctx context.Context, f job.Filter, each func(job.DeadLetter) error) error
	CountDead(ctx context.Context, f job.Filter) (int64, error)
}

// Promises are how dead letters are dealt with: they get another generation, or none.
type Promises interface {
	// DeadLetter returns the letter of the job's latest generation, with its payload: job.ErrNotFound if SQL does not
	// know the job, job.ErrWrongState if the job ended otherwise.
	DeadLetter(ctx context.Context, id job.ID) (job.DeadLetter, error)
	// Requested says whether a request has taken a letter of the job, in any generation.
	Requested(ctx context.Context, id job.ID, requestID string) (bool, error)
	// PromiseRequeues takes the letters of the next generations and writes these generations' rows, in one step. It
	// answers true to the request that took a letter, however often that asks, and false to others. After
	// job.ErrAmbiguous it may have taken some letters.
	PromiseRequeues(ctx context.Context, next []job.JournalRow, request job.Request) ([]bool, error)
	// Dismiss closes the job's open dead letter, unless it is dismissed already, and says whether it did.
	Dismiss(ctx context.Context, id job.ID, reason string) (bool, error)
	// AdoptPromises writes the rows that processes of an earlier version did not write, and returns how many.
	AdoptPromises(ctx context.Context, priority func(job.Tier) int) (adopted int, err error)
}

// Reasons stores why jobs were cancelled, and reads why they were cancelled and requeued.
type Reasons interface {
	// KeepCancelReason stores why a generation is to be cancelled; over says that the reason replaces that of an
	// earlier request. The call may be repeated.
	KeepCancelReason(ctx context.Context, id job.ID, generation int, reason string, over bool) error
	// Reasons returns all stored reasons of a job, including those of cancels that were not carried out.
	Reasons(ctx context.Context, id job.ID) ([]job.Reason, error)
}

// Ready lists jobs that wait for a worker.
type Ready interface {
	// ReadyIn returns ready jobs of a queue, the best of each partition first, at most limit.
	ReadyIn(ctx context.Context, queue string, limit int) ([]job.ID, error)
}

// Reserves keeps a place for a job that SQL is about to have, with the limits of a submit: nil, job.ErrQueueFull or
// job.ErrQuota. Again for the same job it changes nothing. A place whose job SQL does not get is given back later.
type Reserves func(ctx context.Context, j *job.Job, quota int) error

// Plans are the tiers' plans as this process knows them.
type Plans interface {
	Plan(t job.Tier) (job.Plan, bool)
}

// Rows are the rows of living jobs in SQL: jobs that SQL owes Redis (requeued jobs, callbacks), and with an accept
// journal all jobs. Each row names the incarnation of Redis that is known to have its job; "" for none.
type Rows interface {
	RowReader
	RowWriter
}

// RowReader reads rows of jobs that have not ended.
type RowReader interface {
	// Runs returns the incarnations that rows name.
	Runs(ctx context.Context) ([]string, error)
	// Lost returns rows of one incarnation that are at least of an age, by id, beginning behind after. Each has the
	// id, the generation, and whether the job is to be cancelled.
	Lost(ctx context.Context, incarnation string, age time.Duration, after job.ID, limit int) ([]job.JournalRow, error)
	// LivingOf returns rows with payloads, without those that their submits may still take back.
	LivingOf(ctx context.Context, ids []job.ID) ([]job.JournalRow, error)
	// Journaled returns a living job from its row, job.ErrNotFound without a row.
	Journaled(ctx context.Context, id job.ID) (job.Job, error)
}

// RowWriter changes rows.
type RowWriter interface {
	// Owe ends the right of submits to take back their rows.
	Owe(ctx context.Context, ids []job.ID) error
	// Found stores the incarnation that has these generations of jobs now; a row of another generation stays
	// unchanged.
	Found(ctx context.Context, rows []job.JournalRow, incarnation string) error
	// Cancelling stores that a job is to end CANCELLED, if it has a row, and the incarnation of Redis that said so;
	// "" for none.
	Cancelling(ctx context.Context, id job.ID, incarnation string) error
	// Killing stores that a generation of a job was killed and why, if it has a row, and the incarnation of Redis that
	// said so.
	Killing(ctx context.Context, killed job.Killing, incarnation string) error
	// Hastening stores that a job with this arrival is due, if it has a row, and the incarnation of Redis that said so.
	Hastening(ctx context.Context, id job.ID, arrived time.Time, incarnation string) error
	// Sweep deletes the rows of ended jobs on the next page of rows; next is "" at the end.
	Sweep(ctx context.Context, after job.ID, limit int) (next job.ID, swept int64, err error)
}

// Journal is the accept journal. It has a row of each living job, or only of the jobs that SQL owes to Redis and of
// the members of batches; and it has their Idempotency-Keys.
type Journal interface {
	// DropKeys deletes some expired keys, and says whether there are more.
	DropKeys(ctx context.Context) (dropped int64, more bool, err error)
}

// Restorer is a Redis that gets missing jobs.
type Restorer interface {
	// Missing returns those ids that Redis does not know.
	Missing(ctx context.Context, ids []job.ID) ([]job.ID, error)
	// Restore inserts jobs whose rows were read, or written, after the time read. If that is too long ago it does
	// nothing.
	Restore(ctx context.Context, partition int, batch []job.JournalRow, read time.Time) ([]job.Word, error)
	// Lease says whether this process is the one that looks for lost jobs now.
	Lease(ctx context.Context, name string, ttl time.Duration) (bool, error)
}

// Options are what a Ledger needs. All are required except Reserve (for RequeueOwn), Ready (for Purge), Reasons (for
// CancelBecause and Reasons), LiveLogs and KeptLogs (for Logs), Queues, Journal, Flows, Now, Given, Outbox, Rate and
// Log.
type Options struct {
	Live    Store // Redis
	Mover   Mover
	Reserve Reserves
	Ready   Ready
	Queues  interface {
		Find(name string) (job.Queue, bool)
	} // nil: only main
	Archive     Store // SQL
	DeadLetters DeadLetters
	Promises    Promises
	Reasons     Reasons
	LiveLogs    LiveLogs
	KeptLogs    KeptLogs
	Plans       Plans
	Rows        Rows
	Restorer    Restorer
	Journal     Journal
	Journaled   bool             // the Journal has a row of each living job
	Flows       Flows            // nil: there are no flows
	Now         func() time.Time // Redis' clock; nil: the host's
	Given       func()           // is called when Redis was given jobs of a flow; may be nil
	Lines       *Lines           // nil: the limits of lines are not kept in Redis
	Places      *Places          // nil: jobs of SQL have no places in Redis
	Outbox      Outbox           // not nil: Redis dies with this process, so a job is shown as ended when SQL has its end
	Partitions  int
	Rate        int // jobs per second that all bulk requeues of this process requeue together; default 1000
	Log         *slog.Logger
}

// Ledger answers for the jobs of both stores. It is safe for concurrent use.
type Ledger struct {
	Options
	pace pace

	// Only Reconcile uses these.
	began  bool      // a Reconcile has finished
	swept  job.ID    // where the next sweep begins
	tidied time.Time // when tidy last finished
}

// New makes a ledger.
func New(o Options) *Ledger {
	if o.Rate <= 0 {
		o.Rate = 1000
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Ledger{Options: o, pace: pace{rate: o.Rate}}
}

// The longest waits for a store.
const (
	livePatience    = 2 * time.Second // Redis, per call
	archivePatience = time.Second     // SQL, for what a poll needs
	actPatience     = 2 * time.Second // SQL, for a requeue's marks
	listPatience    = 5 * time.Second // SQL, for a page of a list
)

// within runs a call with its own timeout.
func within[T any](ctx context.Context, patience time.Duration, call func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return call(ctx)
}

// twice repeats a call once if its answer was lost; the call must be safe to repeat. If the repeat gets no answer
// either, the error stays job.ErrAmbiguous.
func twice[T any](ctx context.Context, patience time.Duration, call func(ctx context.Context) (T, error)) (T, error) {
	v, lost := within(ctx, patience, call)
	if !errors.Is(lost, job.ErrAmbiguous) || ctx.Err() != nil {
		return v, lost
	}
	v, err := within(ctx, patience, call)
	if errors.Is(err, job.ErrUnavailable) {
		// A refused repeat does not undo what the first call may have done: its text is kept, its kind is not.
		err = fmt.Errorf("%w; and again: %s", lost, err.Error())
	}
	return v, err
}

// unread converts the error of a read before a change: nothing was changed, so job.ErrAmbiguous becomes
// job.ErrUnavailable.
func unread(err error) error {
	if !errors.Is(err, job.ErrAmbiguous) {
		return err
	}
	return fmt.Errorf("%w: %s", job.ErrUnavailable, err.Error())
}
