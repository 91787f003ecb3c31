package archive

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"net"

	"github.com/tierq/tierq/internal/job"
)

// ambiguous is an error of a change that may have been made: its statement was sent, or another one before it.
func ambiguous(verb string, err error) error {
	return fmt.Errorf("%s: %w: %w", verb, job.ErrAmbiguous, err)
}

// unmade says whether a statement that failed so, a transaction of its own, certainly changed nothing: it found no connection, or the
// database says itself that it refused it. A lost answer and a missed deadline prove nothing.
func (a *Archive) unmade(err error) bool {
	var dial *net.OpError
	switch {
	case errors.Is(err, driver.ErrBadConn): // only where nothing was carried out: database/sql would try again by itself
		return true
	case errors.As(err, &dial) && dial.Op == "dial":
		return true
	}
	return denied(err) || a.dialect.refused(err) || a.dialect.verdict(err) != down
}
