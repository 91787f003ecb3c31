package archive_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// An attempt has its generation; a LATER has its reason and the time until which it was put off. Rows of an older
// version have no such time, and the generation is derived from the outcomes.
func TestAttemptsTellGenerationAndLater(t *testing.T) {
	t.Attr("proves", "S3-I16")
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		first, second := failed(1), completed(1)
		first.Attempt, second.Generation, second.Attempt = 3, 2, 5
		until := arrival.Add(90*time.Second + time.Millisecond)
		first.Attempts = []job.Attempt{
			{
				Number:     1,
				Generation: 1,
				Worker:     "w",
				Outcome:    "LATER",
				Error:      "1 of 2 endpoints say SUBMITTED",
				Until:      until,
			},
			{Number: 3, Generation: 1, Worker: "w", Outcome: "HANDLER_ERROR", Error: "boom"},
		}
		second.Attempts = []job.Attempt{{Number: 4, Generation: 2, Worker: "w", Outcome: "RELEASED"}}
		record(t, w, first, second)
		want := append(first.Attempts, second.Attempts...)
		got, err := s.Attempts(t.Context(), id(1))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		execute(t, s.DB, "UPDATE job_attempts SET generation = 0, until_at = NULL")
		want[0].Until = time.Time{}
		got, err = s.Attempts(t.Context(), id(1))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("of an older build: %v (-want +got):\n%s", err, diff)
		}
	})
}

// Find and the lists return the note of a result without reading the result. A result without a valid note has
// none.
func TestNotesAreListed(t *testing.T) {
	t.Attr("proves", "S3-S6")
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		notes := map[job.ID]string{}
		for n, result := range []string{
			`{"note":"rejected by 1 of 2 endpoints: b.example"}`, `{"n":1}`, `{"note":7}`,
			`{"note":"` + strings.Repeat("\u20ac", 150) + `"}`,
			"{\"note\":\"a\\u001b[31m\xff\"}",
		} {
			o := completed(n)
			o.Result = []byte(result)
			notes[o.ID] = job.NoteOf(o.Result)
			record(t, w, o)
		}
		record(t, w, failed(9), cancelled(10))
		if fmt.Sprint(len(notes[id(3)]), notes[id(0)] != "", notes[id(2)]) != "198 true" {
			t.Fatalf("notes %q", notes)
		}
		items, _, err := a.List(t.Context(), job.Filter{}, "", 10)
		if err != nil || len(items) != 7 {
			t.Fatal(len(items), err)
		}
		for _, listed := range items {
			found, err := a.Find(t.Context(), listed.ID)
			if err != nil || listed.Note != notes[listed.ID] || found.Note != listed.Note {
				t.Errorf(
					"%s: listed %q, found %q, want %q, %v",
					listed.ID,
					listed.Note,
					found.Note,
					notes[listed.ID],
					err,
				)
			}
		}
	})
}
