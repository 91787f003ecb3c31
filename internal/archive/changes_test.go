package archive_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

func aChange(n int) job.Change {
	return job.Change{
		At: time.Date(2026, 5, 1, 10, 0, 0, n*1000, time.UTC), Actor: "abc", Name: "Zürich", Address: "2001:db8::1", Action: "tier.put", Target: fmt.Sprint(n),
		Before: []byte(`{"a":1}`), After: []byte("{\"b\":\"\\u0000ž\"}"), Outcome: "done", TraceID: "trace-1",
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		var want []job.Change
		for n := range 25 {
			want = append(want, aChange(n))
		}
		want[3].Before, want[3].After, want[4].After = nil, nil, nil
		for _, part := range [][]job.Change{want[:10], want[5:10], want} { // repeated, as after a lost answer
			if err := s.AddChanges(t.Context(), part); err != nil {
				t.Fatal(err)
			}
		}
		for _, size := range []int{1, 7, 25, 1000} {
			var got []job.Change
			cursor, pages := "", 0
			for {
				items, next, err := s.Changes(t.Context(), cursor, size)
				if err != nil || len(items) > size || pages > 30 {
					t.Fatal(len(items), err)
				}
				got = append(got, items...)
				if pages++; next == "" {
					break
				}
				cursor = next
			}
			for i := range got {
				if diff := cmp.Diff(want[len(want)-1-i], got[i], cmpopts.IgnoreFields(job.Change{}, "ID")); diff != "" {
					t.Errorf("pages of %d, number %d (-want +got):\n%s", size, i, diff)
				}
				if i > 0 && got[i].ID >= got[i-1].ID {
					t.Errorf("%d comes behind %d", got[i].ID, got[i-1].ID)
				}
			}
			if len(got) != len(want) {
				t.Errorf("pages of %d: %d of %d", size, len(got), len(want))
			}
		}
	})
}

// One that the database refuses does not keep the others out.
func TestChangesThatDoNotFit(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		bad := aChange(2)
		bad.Action = strings.Repeat("x", 65)
		if err := s.AddChanges(t.Context(), []job.Change{aChange(1), bad, aChange(3)}); err != nil {
			t.Fatal(err)
		}
		if n := s.Count(t, "changes"); n != 2 {
			t.Errorf("%d rows", n)
		}
	})
}

func TestChangesCursor(t *testing.T) {
	t.Attr("proves", "A60 A57")
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		for _, cursor := range []string{"0", "-1", "01", "+1", " 1", "1 ", "x", "1;sleep(5)", "9223372036854775808", "1e3", "１"} {
			if _, _, err := a.Changes(t.Context(), cursor, 10); !errors.Is(err, job.ErrBadCursor) {
				t.Errorf("%q: %v", cursor, err)
			}
		}
	})
}
