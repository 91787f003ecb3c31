package database

import (
	"context"
	"database/sql"
	"io/fs"

	"github.com/pressly/goose/v3"
	"gorm.io/gorm"
)

// Dialect is where MySQL and SQLite differ. Everything else is said once.
type Dialect struct {
	open func(*gorm.Config) (write, read *gorm.DB, err error)

	// KeepFirst ends an insert such that a row that is there already stays as it is and counts as not affected. key is
	// a column of the primary key.
	KeepFirst func(key string) string

	// OnConflict begins the end of an insert that changes the row which is there already; Offered is, in there, the
	// value that was to be inserted. (A bare column is the value that is there.)
	OnConflict func(key string) string
	Offered    func(column string) string

	// Statements that lock rows by their primary key, and no others: InnoDB would read and lock the whole of a small
	// table.
	DeleteFrom func(table string) string
	ByPrimary  string // after a table's name or alias, in SELECT and UPDATE

	LockRows string // ends a SELECT in a transaction: nobody else changes the rows until it ends

	By func(index string) string // after a table's name or alias, in SELECT: read it by this index and no other

	// Isolation is what DB.Transaction wants: nothing locked but the rows that it writes.
	Isolation sql.IsolationLevel

	Now     string                           // the database's clock
	Ago     string                           // the same, less ? milliseconds
	Hence   string                           // the same, and ? milliseconds more
	Elapsed func(since, until string) string // whole milliseconds between two columns; NULL if one is

	Verdict func(error) Verdict
	refused func(error) bool // what Verdict calls an Outage, and yet certain: the statement was not carried out
	strict  func(context.Context, *sql.DB) (bool, error)

	goose      goose.Dialect
	migrations fs.FS

	// exclusive runs migrate with a connection pool that may take its time, while no other process does the same.
	// It waits for the others as wait says.
	exclusive func(ctx context.Context, wait turn, migrate func(*sql.DB) error) error
}

// Verdict says what an error of the database means for the transaction that met it.
type Verdict int

const (
	Outage   Verdict = iota // the database cannot serve now, or not as it is set up: wait, then the same again
	Conflict                // a deadlock or a lock wait: the whole transaction again, at once
	BadData                 // a row does not fit; its neighbours may
)
