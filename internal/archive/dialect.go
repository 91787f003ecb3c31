package archive

import (
	"context"
	"database/sql"
	"io/fs"

	"github.com/pressly/goose/v3"
	"gorm.io/gorm"
)

// dialect is where MySQL and SQLite differ. Everything else is said once.
type dialect struct {
	open func(*gorm.Config) (write, read *gorm.DB, err error)

	// keepFirst ends an insert such that a row that is there already stays as it is and counts as not affected. key is a column
	// of the primary key.
	keepFirst func(key string) string

	// onConflict begins the end of an insert that changes the row which is there already; offered is, in there, the value that was to be
	// inserted. (A bare column is the value that is there.)
	onConflict func(key string) string
	offered    func(column string) string

	// Statements that lock rows by their primary key, and no others: InnoDB would read and lock the whole of a small table.
	deleteFrom func(table string) string
	byPrimary  string // after a table's name, in SELECT and UPDATE

	// byID, after job_outcomes and its alias in a SELECT that walks the ids: no other index, however well it serves a
	// filter. job_outcomes_age would have all that ended alike be sorted. (SQLite has no such word for a table WITHOUT
	// ROWID; there a + before a column keeps its index out.)
	byID string

	lockRows string // ends a SELECT in a transaction: nobody else changes the rows until it ends

	by func(index string) string // after a table's name or alias, in SELECT: read it by this index and no other

	// isolation is what the journal's transactions want: nothing locked but the rows they write.
	isolation sql.IsolationLevel

	now     string                           // the database's clock
	ago     string                           // the same, less ? milliseconds
	hence   string                           // the same, and ? milliseconds more
	elapsed func(since, until string) string // whole milliseconds between two columns; NULL if one is

	verdict func(error) verdict
	refused func(error) bool // what verdict calls down, and yet certain: the statement was not carried out
	strict  func(context.Context, *sql.DB) (bool, error)

	goose      goose.Dialect
	migrations fs.FS

	// exclusive runs migrate with a connection pool that may take its time, while no other process does the same.
	// It waits for the others as wait says.
	exclusive func(ctx context.Context, wait turn, migrate func(*sql.DB) error) error
}

// verdict says what an error of the database means for the transaction that met it.
type verdict int

const (
	down    verdict = iota // the database cannot serve now, or not as it is set up: wait, then the same again
	again                  // a deadlock or a lock wait: the whole transaction again, at once
	badData                // a row does not fit; its neighbours may
)
