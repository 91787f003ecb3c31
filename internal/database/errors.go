package database

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"net"

	"github.com/tierq/tierq/internal/job"
)

// Unavailable wraps the error of a statement that only read, or was not carried out, in job.ErrUnavailable, and
// also in job.ErrUntrusted or job.ErrDenied if that is the cause.
func Unavailable(verb string, err error) error {
	if untrusted(err) {
		return fmt.Errorf("%s: %w: %w: %w", verb, job.ErrUnavailable, job.ErrUntrusted, err)
	}
	if denied(err) {
		return fmt.Errorf("%s: %w: %w: %w", verb, job.ErrUnavailable, job.ErrDenied, err)
	}
	return fmt.Errorf("%s: %w: %w", verb, job.ErrUnavailable, err)
}

// Ambiguous wraps the error of a change that may have been made in job.ErrAmbiguous: its statement, or one before
// it, was sent.
func Ambiguous(verb string, err error) error {
	return fmt.Errorf("%s: %w: %w", verb, job.ErrAmbiguous, err)
}

// ChangedNothing says whether a failed statement, a transaction of its own, certainly changed nothing: there was
// no connection, or the database itself says that it refused the statement. A lost answer or a missed deadline
// proves nothing.
func (db *DB) ChangedNothing(err error) bool {
	var dial *net.OpError
	switch {
	case errors.Is(err, driver.ErrBadConn): // only if nothing was carried out: database/sql would try again
		return true
	case errors.As(err, &dial) && dial.Op == "dial":
		return true
	}
	return denied(err) || db.Dialect.refused(err) || db.Dialect.Verdict(err) != Outage
}
