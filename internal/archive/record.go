package archive

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// maxBatch is the largest number of outcomes in one transaction.
const maxBatch = 500

// key identifies one outcome: a job ends once in each generation.
type key struct {
	id         job.ID
	generation int
}

func keyOf(o *job.Outcome) key { return key{o.ID, o.Generation} }

// ending is what SQL holds of an outcome that another process, or an earlier call, wrote.
type ending struct {
	status  job.Status
	attempt int
}

// errSomeThere says that SQL already had some outcomes of a transaction, and that nothing was written.
var errSomeThere = errors.New("some outcomes are there already")

// record writes outcomes of different keys and returns those that SQL had already; it leaves their rows unchanged.
// released are the journal rows of jobs that the outcomes set free, and of the jobs that batches owe since then. After
// an error it is unknown whether anything was written, and repeating the whole call is right: the transaction that
// inserts an outcome writes all its rows. owes may be nil (see WriterOptions).
func (a *Archive) record(ctx context.Context, outcomes []*job.Outcome, owes owesFunc) (
	there map[key]ending, released []job.JournalRow, err error) {
	rest := slices.Clone(outcomes)
	// All writers sort alike, so that they wait for each other instead of deadlocking.
	slices.SortFunc(rest, func(x, y *job.Outcome) int {
		return cmp.Or(strings.Compare(string(x.ID), string(y.ID)), cmp.Compare(x.Generation, y.Generation))
	})
	there = map[key]ending{}
	for try := range database.Tries {
		if len(rest) == 0 {
			return there, nil, nil
		}
		if released, err = a.transaction(ctx, rest, owes); err == nil {
			return there, released, nil
		}
		switch {
		case errors.Is(err, errSomeThere):
			// An existing row was committed before our insert met it, so a plain read sees it. A locking read would also
			// lock the gaps into which other writers insert.
			if err := a.lookUp(ctx, rest, there); err != nil {
				return nil, nil, err
			}
			rest = slices.DeleteFunc(rest, func(o *job.Outcome) bool { _, known := there[keyOf(o)]; return known })
		case a.db.Dialect.Verdict(err) == database.Conflict:
			if err := database.Backoff(ctx, try); err != nil {
				return nil, nil, err
			}
		default:
			return nil, nil, err
		}
	}
	if len(rest) == 0 {
		return there, nil, nil
	}
	return nil, nil, err
}

// transaction writes all rows of all outcomes, or none. Afterwards the ended jobs have no row in accepted_jobs,
// and the jobs that are owed for them have one; so have the jobs that they released, which it returns.
func (a *Archive) transaction(ctx context.Context, outcomes []*job.Outcome, owes owesFunc) (
	released []job.JournalRow, err error) {
	var results, others, failed, requeued, logs []*job.Outcome
	var accepted []key
	var attempts []attemptOf
	for _, o := range outcomes {
		switch o.Status.Shown() {
		case job.Completed:
			results = append(results, o)
		case job.Failed:
			failed = append(failed, o)
			others = append(others, o)
		default:
			others = append(others, o)
		}
		if told(o) {
			logs = append(logs, o)
		}
		if o.Generation > 1 {
			requeued = append(requeued, o)
		}
		if a.journal || o.Owed() {
			accepted = append(accepted, keyOf(o))
		}
		for i := range o.Attempts {
			attempts = append(attempts, attemptOf{keyOf(o), &o.Attempts[i]})
		}
	}
	db := a.db.Write.WithContext(ctx)
	owed := owes.all(outcomes)
	size := database.SizeFor(len(accepted))
	drop := a.dropAccepted(size)
	members := groupsOf(outcomes, endedGroup)
	// This uses GORM's transaction, but not its statement builder, which parses the text and boxes each value once more.
	var cancelled []job.Job
	ctx, left := withUnowed(ctx)
	err = db.Transaction(func(tx *gorm.DB) (err error) {
		conn := tx.Statement.ConnPool
		if released, cancelled, err = a.flowsEnded(ctx, conn, outcomes); err != nil {
			return err
		}
		written, err := insert(ctx, conn, a.inserts, outcomeTable, others)
		if err != nil {
			return err
		}
		if written != len(others) {
			return errSomeThere
		}
		if written, err = insert(ctx, conn, a.inserts, resultTable, results); err != nil {
			return err
		}
		if written != len(results) {
			return errSomeThere
		}
		if err := a.rivals(ctx, conn, results, others); err != nil {
			return err
		}
		if _, err := insert(ctx, conn, a.inserts, failedTable, failed); err != nil {
			return err
		}
		if _, err := insert(ctx, conn, a.inserts, attemptTable, attempts); err != nil {
			return err
		}
		if _, err := insert(ctx, conn, a.inserts, logTable, logs); err != nil {
			return err
		}
		if err := closeDeadLetters(ctx, conn, requeued); err != nil {
			return err
		}
		if err := dropRows(ctx, conn, accepted, drop, size); err != nil {
			return err
		}
		ofBatches, err := a.ended(ctx, conn, members)
		if err != nil {
			return err
		}
		released = append(released, ofBatches...)
		_, err = insert(ctx, conn, a.inserts, acceptedTable, owed)
		return err
	}, &sql.TxOptions{Isolation: a.db.Dialect.Uncommitted})
	if err == nil {
		a.tellCancelled(cancelled)
		a.tellUnowed(left)
	}
	return released, err
}

// owesFunc returns the job that is owed for an outcome, if any (see WriterOptions). It may be nil.
type owesFunc func(*job.Outcome) (job.JournalRow, bool)

// all returns the rows of the jobs that are owed for these outcomes, sorted by id.
func (owes owesFunc) all(outcomes []*job.Outcome) (owed []*job.JournalRow) {
	if owes == nil {
		return nil
	}
	for _, o := range outcomes {
		if l, ok := owes(o); ok {
			l.Incarnation = "" // no Redis has it yet
			owed = append(owed, &l)
		}
	}
	slices.SortFunc(owed, func(x, y *job.JournalRow) int { return strings.Compare(string(x.ID), string(y.ID)) })
	return owed
}

const closeDeadLetter = "UPDATE failed_jobs SET requeued_at = COALESCE(requeued_at, ?), requeued_run_id = NULL " +
	"WHERE job_id = ? AND generation = ?"

// closeDeadLetters marks as requeued the dead letters whose next generation has now ended, so that they stay
// closed whatever becomes of Redis. If requeued_at is not set, it becomes the arrival of the next generation: the
// time of the requeue by Redis' clock.
func closeDeadLetters(ctx context.Context, conn gorm.ConnPool, outcomes []*job.Outcome) error {
	for _, o := range outcomes {
		at := o.ArrivedAt
		if at.IsZero() {
			at = o.EndedAt
		}
		_, err := conn.ExecContext(ctx, closeDeadLetter, database.OrNull(at), string(o.ID), o.Generation-1)
		if err != nil {
			return fmt.Errorf("close dead letter: %w", err)
		}
	}
	return nil
}
