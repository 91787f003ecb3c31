package archive

import (
	"errors"
	"testing"

	"github.com/tierq/tierq/internal/fuzz"
	"github.com/tierq/tierq/internal/job"
)

// readPlace and readListCursor accept only cursors that the server can have returned, for any text.
func FuzzCursors(f *testing.F) {
	f.Attr("proves", "A57 A60")
	fuzz.Text(f, func(t *testing.T, cursor string) {
		p, err := readPlace(cursor)
		switch {
		case err != nil && !errors.Is(err, job.ErrBadCursor):
			t.Error(err)
		case err == nil && cursor != "" && p.String() != cursor:
			t.Errorf("read as %+v, which is written %q", p, p)
		case err == nil && (p.at.Before(earliest) || p.at.After(latest) || p.generation < 0):
			t.Errorf("read as %+v", p)
		}
		before, err := readListCursor(cursor)
		switch {
		case err != nil && !errors.Is(err, job.ErrBadCursor):
			t.Error(err)
		case err == nil && cursor != "" && before != cursor, err == nil && len(before) > 36:
			t.Errorf("read as %q", before)
		}
	}, "", "1777635117961000_1_019de340-01fe-7a58-be69-567cd7d6b7d4", "1777635117961000_1_",
		"019de340-01fe-7a58-be69-567cd7d6b7d4", "-1_0_",
		"1_-1_", "01_1_",
		"1777635117961000_1_'; SELECT SLEEP(5) --", "9223372036854775807_1_", "1777635117961000_2147483648_",
		"1777635117961000_1_019DE340-01FE-7A58-BE69-567CD7D6B7D4", "~")
}
