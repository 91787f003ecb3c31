package database

import (
	"context"
	"database/sql"
	"io/fs"

	"github.com/pressly/goose/v3"
	"gorm.io/gorm"
)

// Dialect holds everything in which MySQL and SQLite differ.
type Dialect struct {
	open func(*gorm.Config) (write, read *gorm.DB, err error)

	// KeepFirst returns the end of an insert that leaves an existing row unchanged and counts it as not affected. key
	// is a column of the primary key.
	KeepFirst func(key string) string

	// OnConflict returns the beginning of the end of an insert that changes an existing row. In it, Offered(column)
	// is the value that was to be inserted, and a bare column is the existing value.
	OnConflict func(key string) string
	Offered    func(column string) string

	// DeleteFrom, ByPrimary and LockRows are for statements that lock rows by their primary key, and no others:
	// without the index InnoDB would read and lock the whole of a small table.
	DeleteFrom func(table string) string
	ByPrimary  string // after a table's name or alias, in SELECT and UPDATE

	LockRows string // ends a SELECT in a transaction: no other transaction can change the rows until this one ends

	By func(index string) string // after a table's name or alias, in SELECT: read only along this index

	// Uncommitted is for a transaction that also has to see the rows that other transactions have not committed yet.
	// In SQLite there are none: a transaction that writes is the only one.
	Uncommitted sql.IsolationLevel

	Now     string                           // the database's clock
	Ago     string                           // Now minus ? milliseconds
	Hence   string                           // Now plus ? milliseconds
	Elapsed func(since, until string) string // whole milliseconds between two columns; NULL if one of them is NULL

	Verdict func(error) Verdict
	refused func(error) bool // the error is an Outage, but the statement was certainly not carried out
	strict  func(context.Context, *sql.DB) (bool, error)

	goose      goose.Dialect
	migrations fs.FS

	// exclusive runs migrate with a connection pool whose statements may take long, while no other process does the
	// same. wait says how it waits for the others.
	exclusive func(ctx context.Context, wait turn, migrate func(*sql.DB) error) error
}

// Verdict says what an error of the database means for its transaction.
type Verdict int

const (
	Outage   Verdict = iota // the database cannot serve now, or not as it is set up: wait, then try again
	Conflict                // a deadlock or a lock wait: repeat the whole transaction at once
	BadData                 // a row does not fit; the other rows may
)
