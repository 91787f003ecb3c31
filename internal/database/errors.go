package database

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"net"

	"github.com/tierq/tierq/internal/job"
)

// Unavailable is an error of a statement that was not carried out, or only read: job.ErrUnavailable, and where the
// database says so job.ErrUntrusted or job.ErrDenied too.
func Unavailable(verb string, err error) error {
	if untrusted(err) {
		return fmt.Errorf("%s: %w: %w: %w", verb, job.ErrUnavailable, job.ErrUntrusted, err)
	}
	if denied(err) {
		return fmt.Errorf("%s: %w: %w: %w", verb, job.ErrUnavailable, job.ErrDenied, err)
	}
	return fmt.Errorf("%s: %w: %w", verb, job.ErrUnavailable, err)
}

// Ambiguous is an error of a change that may have been made: its statement was sent, or another one before it.
func Ambiguous(verb string, err error) error {
	return fmt.Errorf("%s: %w: %w", verb, job.ErrAmbiguous, err)
}

// ChangedNothing says whether a statement that failed so, a transaction of its own, certainly changed nothing: it found
// no connection, or the database says itself that it refused it. A lost answer and a missed deadline prove nothing.
func (db *DB) ChangedNothing(err error) bool {
	var dial *net.OpError
	switch {
	case errors.Is(err, driver.ErrBadConn): // only where nothing was carried out: database/sql would try again by itself
		return true
	case errors.As(err, &dial) && dial.Op == "dial":
		return true
	}
	return denied(err) || db.Dialect.refused(err) || db.Dialect.Verdict(err) != Outage
}
