// Package archive keeps in SQL what Redis has decided: the outcome of every job that ended, its result or dead letter,
// and the history of its attempts. It is a projection: whatever it misses, the outbox still has, and writing an outcome
// again changes nothing.
package archive

import (
	"context"

	"github.com/tierq/tierq/internal/database"
)

// Options say what an Archive does beside recording outcomes.
type Options struct {
	// Journal keeps the accept journal: the transaction that records outcomes also removes their rows from it. (What puts
	// rows into it is a Journal.)
	Journal bool
}

// Archive is the rows of jobs. It is safe for concurrent use.
type Archive struct {
	db      *database.DB
	inserts inserts
	journal bool
}

// New makes an archive in a database, which the caller closes. Stop the Writer before.
func New(db *database.DB, o Options) *Archive {
	return &Archive{db: db, journal: o.Journal, inserts: buildInserts(db.Dialect)}
}

// probeWrite asks for a write that changes nothing.
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
