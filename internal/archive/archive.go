// Package archive keeps in SQL what Redis has decided: the outcome of every ended job, its result or dead letter,
// and the history of its attempts. SQL is a projection of Redis. The outbox still has each outcome that SQL lacks,
// and writing an outcome again changes nothing.
package archive

import (
	"context"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// Options say what an Archive does besides recording outcomes.
type Options struct {
	// Journal says that the accept journal is on: the transaction that records outcomes also removes their rows from
	// the journal. A Journal writes the rows.
	Journal bool
}

// Archive reads and writes the rows of jobs. It is safe for concurrent use.
type Archive struct {
	db      *database.DB
	inserts inserts
	members memberStatements
	journal bool
	owesOf  func(*job.Batch) []job.JournalRow // nil = batches owe nothing
	// placesOf returns the places of the jobs that a batch will owe; nil = there are none.
	placesOf func(*job.Batch) []job.Reservation

	toldCancelled func([]job.Job) // see TellCancelled; may be nil
	freePlaces    func([]job.ID)  // see FreePlaces; may be nil
}

// New makes an archive in a database. The caller closes the database, and stops the Writer before that.
func New(db *database.DB, o Options) *Archive {
	return &Archive{db: db, journal: o.Journal, inserts: buildInserts(db.Dialect),
		members: memberStatementsOf(db.Dialect)}
}

// probeWrite sends SQL a write that changes nothing, and updates the database's Down.
func (a *Archive) probeWrite(ctx context.Context) error {
	_, err := a.db.Exec(ctx, "DELETE FROM idempotency_keys WHERE idem_key = ''", nil)
	if err != nil {
		err = database.Unavailable("probe", err)
	}
	if ctx.Err() == nil {
		a.db.Wrote(err)
	}
	return err
}
