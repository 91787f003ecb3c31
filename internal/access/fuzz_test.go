package access

import (
	"errors"
	"strconv"
	"testing"

	"github.com/tierq/tierq/internal/fuzz"
	"github.com/tierq/tierq/internal/job"
)

// For any text, a cursor is accepted only if it is exactly what Changes returns as next.
func FuzzChangesCursor(f *testing.F) {
	f.Attr("proves", "A57 A60")
	fuzz.Text(f, func(t *testing.T, cursor string) {
		if at, err := readChangesCursor(cursor); err == nil && cursor != "" && strconv.FormatInt(at, 10) != cursor ||
			err != nil &&
				!errors.Is(err, job.ErrBadCursor) {
			t.Errorf("the log of changes goes on at %d, %v", at, err)
		}
	})
}
