package access_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tierq/tierq/internal/job"
)

func aChange(n int) job.Change {
	return job.Change{
		At: time.Date(2026, 5, 1, 10, 0, 0, n*1000, time.UTC), Actor: "abc", Name: "Zürich", Address: "2001:db8::1",
		Action: "tier.put", Target: fmt.Sprint(n),
		Before: []byte(`{"a":1}`), After: []byte("{\"b\":\"\\u0000ž\"}"), Outcome: "done", TraceID: "trace-1",
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *store) {
		var want []job.Change
		for n := range 25 {
			want = append(want, aChange(n))
		}
		want[3].Before, want[3].After, want[4].After = nil, nil, nil
		for _, part := range [][]job.Change{want[:10], want[5:10], want} { // repeated as after a lost answer
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

// An entry that the database refuses does not keep the others out.
func TestChangesThatDoNotFit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *store) {
		bad := aChange(2)
		bad.Action = strings.Repeat("x", 65)
		if err := s.AddChanges(t.Context(), []job.Change{aChange(1), bad, aChange(3)}); err != nil {
			t.Fatal(err)
		}
		if n := s.sql.Count(t, "changes"); n != 2 {
			t.Errorf("%d rows", n)
		}
	})
}

func TestChangesCursor(t *testing.T) {
	t.Attr("proves", "A60 A57")
	t.Parallel()
	each(t, func(t *testing.T, s *store) {
		for _, cursor := range []string{"0", "-1", "01", "+1", " 1", "1 ", "x", "1;sleep(5)", "9223372036854775808", "1e3",
			"１"} {
			if _, _, err := s.Changes(t.Context(), cursor, 10); !errors.Is(err, job.ErrBadCursor) {
				t.Errorf("%q: %v", cursor, err)
			}
		}
	})
}

// The oldest entries of the log of changes are deleted in steps. A younger entry stays, and so do the entries after
// it.
func TestDeleteChanges(t *testing.T) {
	each(t, func(t *testing.T, s *store) {
		now := time.Now().UTC()
		var log []job.Change
		for n := range 620 {
			log = append(
				log,
				job.Change{
					At:      now.Add(-2400*time.Hour + time.Duration(n)*time.Second),
					Action:  "a",
					Target:  fmt.Sprint(n),
					Outcome: "ok",
				},
			)
		}
		log = append(
			log,
			job.Change{At: now.Add(-1920 * time.Hour), Action: "young", Outcome: "ok"},
			job.Change{At: now, Action: "new", Outcome: "ok"},
		)
		if err := s.AddChanges(t.Context(), log); err != nil {
			t.Fatal(err)
		}
		for step, want := range []int64{500, 120, 0} {
			if n, err := s.DeleteChanges(t.Context(), 2160*time.Hour); n != want || err != nil {
				t.Errorf("step %d deletes %d, %v, want %d", step, n, err, want)
			}
		}
		left, _, err := s.Changes(t.Context(), "", 10)
		if err != nil || len(left) != 2 || left[0].Action != "new" || left[1].Action != "young" {
			t.Errorf("left: %+v, %v", left, err)
		}
	})
}
