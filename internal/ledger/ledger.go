// Package ledger is what is known of a job over both stores, and what operators do to it: Redis has the living, SQL has
// what ended. Between the end of a job and its row in SQL only Redis knows, so Redis is asked first; what it has
// forgotten or shed, SQL answers.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Store is one of the two places that know jobs. Find answers job.ErrNotFound for what is not there; Attempts are those
// that did not end well, none for an unknown job; List pages through what is there ("" begins and ends),
// job.ErrBadCursor for a cursor that is not its own.
type Store interface {
	Find(ctx context.Context, id job.ID) (job.Job, error)
	Attempts(ctx context.Context, id job.ID) ([]job.Attempt, error)
	List(ctx context.Context, f job.Filter, cursor string, limit int) (items []job.Job, next string, err error)
}

// Mover is Redis, where jobs are moved: one word per entry, and each call may be sent twice. Incarnations names the
// present life of each partition's data: another one when its server starts anew or another takes its place, "" (and an
// error) where it does not answer. KnownIncarnation is what may be noted as the life that has what is sent now: as last
// read, or an earlier one.
type Mover interface {
	Cancel(ctx context.Context, partition int, batch []job.Cancellation) ([]job.Word, error)
	Incarnations(ctx context.Context) ([]string, error)
	KnownIncarnation(partition int) string
}

// DeadLetters are the dead letters that nobody has asked to requeue, the newest first.
type DeadLetters interface {
	Dead(ctx context.Context, f job.Filter, cursor string, limit int) ([]job.DeadLetter, string, error)
	DeadPage(ctx context.Context, f job.Filter, page, size int) ([]job.DeadLetter, int64, error)
	EachDead(ctx context.Context, f job.Filter, each func(job.DeadLetter) error) error
	CountDead(ctx context.Context, f job.Filter) (int64, error)
}

// Promises are how dead letters get another life. DeadLetter is the one of the job's latest generation, with its
// payload: job.ErrNotFound if SQL knows nothing of the job, job.ErrWrongState if it ended otherwise. PromiseRequeues
// takes the letters of lives to come and writes the lives' rows, in one step: true to the request that took a letter,
// however often it asks, false to others; after job.ErrAmbiguous it may have taken some. Requested says whether a
// request has taken a letter of the job, in any generation. AdoptPromises writes the rows that processes of an earlier
// version did not write.
type Promises interface {
	DeadLetter(ctx context.Context, id job.ID) (job.DeadLetter, error)
	Requested(ctx context.Context, id job.ID, requestID string) (bool, error)
	PromiseRequeues(ctx context.Context, next []job.JournalRow, request job.Request) ([]bool, error)
	AdoptPromises(ctx context.Context, priority func(job.Tier) int) (adopted int, err error)
}

// Reasons are why jobs were cancelled and requeued.
type Reasons interface {
	// KeepCancelReason notes why a generation is to be cancelled; over: in place of an earlier request's reason. It may
	// be called twice.
	KeepCancelReason(ctx context.Context, id job.ID, generation int, reason string, over bool) error
	// Reasons are all that is noted of a job, also of cancels that were not carried out.
	Reasons(ctx context.Context, id job.ID) ([]job.Reason, error)
}

// Rooms say whether one more job would be taken in now: nil, job.ErrQueueFull, job.ErrQuota.
type Rooms interface {
	Room(ctx context.Context, id job.ID, tier job.Tier, owner string, quota int) error
}

// Plans are the tiers as this process knows them.
type Plans interface {
	Plan(t job.Tier) (job.Plan, bool)
}

// Rows are the living jobs that SQL has: those that it owes Redis (requeued ones, callbacks), and with an accept
// journal all. Each names the run of Redis that is known to have its job, "" for none.
type Rows interface {
	RowReader
	RowWriter
}

// RowReader reads rows of jobs that have not ended.
type RowReader interface {
	// Runs are the runs that rows name.
	Runs(ctx context.Context) ([]string, error)
	// Lost are rows of one run, at least of an age, by id, beginning behind after: id, generation, and whether the job is
	// to be cancelled.
	Lost(ctx context.Context, incarnation string, age time.Duration, after job.ID, limit int) ([]job.JournalRow, error)
	// LivingOf reads rows whole, but for those that their submits may still take back.
	LivingOf(ctx context.Context, ids []job.ID) ([]job.JournalRow, error)
	// Journaled is a living job as its row has it, job.ErrNotFound without one.
	Journaled(ctx context.Context, id job.ID) (job.Job, error)
}

// RowWriter notes what becomes of rows.
type RowWriter interface {
	// Owe takes rows from the submits that wrote them: those submits refuse nothing any more.
	Owe(ctx context.Context, ids []job.ID) error
	// Found notes the run that has these generations of jobs now; a row of another generation stays.
	Found(ctx context.Context, rows []job.JournalRow, incarnation string) error
	// Cancelling notes that a job is to end CANCELLED, if it has a row, and the run of Redis that said so, "" for none.
	Cancelling(ctx context.Context, id job.ID, incarnation string) error
	// Sweep deletes rows of jobs that have ended, a page at a time, "" at the end.
	Sweep(ctx context.Context, after job.ID, limit int) (next job.ID, swept int64, err error)
}

// Journal is the accept journal: with it each living job has a row, and Idempotency-Keys are SQL's. DropKeys deletes
// some of the keys that have expired, and says whether there are more.
type Journal interface {
	DropKeys(ctx context.Context) (dropped int64, more bool, err error)
}

// Restorer is a Redis that is given jobs. Missing are those of some ids that it does not know. Restore puts in jobs
// whose rows were read, or written, after read: it does nothing when that is too long ago. Lease says whether this
// process is the one to look for lost jobs now.
type Restorer interface {
	Missing(ctx context.Context, ids []job.ID) ([]job.ID, error)
	Restore(ctx context.Context, partition int, batch []job.JournalRow, read time.Time) ([]job.Word, error)
	Lease(ctx context.Context, name string, ttl time.Duration) (bool, error)
}

// Options are what a Ledger needs. All but Rooms (for RequeueOwn), Reasons (for CancelBecause and Reasons), Journal,
// Outbox, Rate and Log are required.
type Options struct {
	Live        Store // Redis
	Mover       Mover
	Rooms       Rooms
	Archive     Store // SQL
	DeadLetters DeadLetters
	Promises    Promises
	Reasons     Reasons
	Plans       Plans
	Rows        Rows
	Restorer    Restorer
	Journal     Journal
	Outbox      Outbox // not nil: Redis dies with this process, so an end is told once SQL has it
	Partitions  int
	Rate        int // lives per second that bulk requeues of this process give together; default 1000
	Log         *slog.Logger
}

// Ledger answers for jobs over both stores. It is safe for concurrent use.
type Ledger struct {
	Options
	pace pace

	// Reconcile's.
	began  bool      // one came to its end
	swept  job.ID    // how far the sweep came
	tidied time.Time // when tidy last came to its end
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

// How long a store is waited for.
const (
	livePatience    = 2 * time.Second // Redis, per call
	archivePatience = time.Second     // SQL, for what a poll needs
	actPatience     = 2 * time.Second // SQL, for a requeue's marks
	listPatience    = 5 * time.Second // SQL, for a page of a list
)

// within runs a call under a deadline of its own.
func within[T any](ctx context.Context, patience time.Duration, call func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return call(ctx)
}

// twice sends a call once more if its answer was lost. It is for calls that may be sent twice. Without an answer to the
// second one either, the error stays job.ErrAmbiguous.
func twice[T any](ctx context.Context, patience time.Duration, call func(ctx context.Context) (T, error)) (T, error) {
	v, lost := within(ctx, patience, call)
	if !errors.Is(lost, job.ErrAmbiguous) || ctx.Err() != nil {
		return v, lost
	}
	v, err := within(ctx, patience, call)
	if errors.Is(err, job.ErrUnavailable) {
		// That the second was refused does not undo what the first may have done: the refusal's text is kept, not its kind.
		err = fmt.Errorf("%w; and again: %s", lost, err.Error())
	}
	return v, err
}

// unread is a read's error on the way to a change: whether or not the read was carried out, nothing was changed.
func unread(err error) error {
	if !errors.Is(err, job.ErrAmbiguous) {
		return err
	}
	return fmt.Errorf("%w: %s", job.ErrUnavailable, err.Error())
}
