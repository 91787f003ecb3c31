package ledger

import (
	"errors"
	"testing"

	"github.com/tierq/tierq/internal/fuzz"
	"github.com/tierq/tierq/internal/job"
)

// readCursor accepts only cursors that cursorOf can have made, and refuses every other text.
func FuzzCursor(f *testing.F) {
	f.Attr("proves", "A21 A60")
	fuzz.Text(f, func(t *testing.T, cursor string) {
		source, place, err := readCursor(cursor)
		switch {
		case err != nil:
			if !errors.Is(err, job.ErrBadCursor) {
				t.Error(err)
			}
		case source != inLive && source != inArchive, len(cursor) > maxCursor:
			t.Errorf("read as %q, %q", source, place)
		case cursor != "" && cursorOf(source, place) != cursor:
			t.Errorf("read as %q, which is written %q", source+place, cursorOf(source, place))
		}
	}, "", "MWw6Mg", "MWE6", "MWE6MDE5ZGUzNDAtMDFmZS03YTU4LWJlNjktNTY3Y2Q3ZDZiN2Q0", "MWw6Mg==", "MWw6Mh", "2", "MWw6\n",
		"%00")
}
