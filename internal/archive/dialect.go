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

	ago     string                           // the database's clock, less ? milliseconds
	elapsed func(since, until string) string // whole milliseconds between two columns; NULL if one is

	verdict func(error) verdict
	refused func(error) bool // what verdict calls down, and yet certain: the statement was not carried out
	strict  func(context.Context, *sql.DB) (bool, error)

	goose      goose.Dialect
	migrations fs.FS

	// exclusive runs migrate with a connection pool that may take its time, while no other process does the same.
	exclusive func(ctx context.Context, migrate func(*sql.DB) error) error
}

// verdict says what an error of the database means for the transaction that met it.
type verdict int

const (
	down    verdict = iota // the database cannot serve now, or not as it is set up: wait, then the same again
	again                  // a deadlock or a lock wait: the whole transaction again, at once
	badData                // a row does not fit; its neighbours may
)
