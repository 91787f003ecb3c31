package archive

import (
	"errors"
	"fmt"

	"github.com/tierq/tierq/internal/job"
)

// noted is one row, or one change of a row, that waits to be written to the journal.
type noted struct {
	kind  noteKind
	row   *job.JournalRow // of a submit, a taken-back submit (id and key only) or a claim
	waits *job.Waits

	holder job.KeyHolder // of a submit, after the write: the other job that has its key
	gone   bool          // of a taken-back submit, after the write: whether its row is gone

	of *call
}

type noteKind int

const (
	submitNote noteKind = iota
	backNote
	claimNote
	waitsNote
)

func (n *noted) id() job.ID {
	if n.kind == waitsNote {
		return n.waits.ID
	}
	return n.row.ID
}

func (n *noted) bytes() int {
	if n.kind != submitNote {
		return overhead / 4
	}
	return overhead + len(n.row.Payload)
}

func weigh(notes []*noted) (bytes int) {
	for i := range notes {
		bytes += notes[i].bytes()
	}
	return bytes
}

// call is one call of the Journal. The journal's lock guards it.
type call struct {
	left int // notes that are not yet settled
	made int // notes that are in SQL
	err  error
	done chan struct{}
}

// settle counts one note as finished. Of several errors the first stays, except that job.ErrAmbiguous replaces any
// other.
func (c *call) settle(err error) {
	switch {
	case err == nil:
		c.made++
	case c.err == nil || errors.Is(err, job.ErrAmbiguous):
		c.err = err
	}
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

// verdict returns the call's error for its caller: job.ErrUnavailable only if nothing was written.
func (c *call) verdict(verb string) error {
	if c.err != nil && c.made > 0 && !errors.Is(c.err, job.ErrAmbiguous) {
		return fmt.Errorf("%s: %d are written, not all: %w (%s)", verb, c.made, job.ErrAmbiguous, c.err.Error())
	}
	if c.err != nil {
		return fmt.Errorf("%s: %w", verb, c.err)
	}
	return nil
}
