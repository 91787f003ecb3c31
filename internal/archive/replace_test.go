package archive_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// A replaced job's row has what the new submit asked for, and keeps when the job came. Other rows stay, and so does
// that of a requeued job, whose payload is its dead letter's. A job without a row is no error.
func TestReplace(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{})
		again := living(3)
		again.Generation = 2
		done(t, submit(t.Context(), j, living(1), living(2), again))
		rowOf := func(n int) job.JournalRow {
			t.Helper()
			rows, err := s.LivingOf(t.Context(), []job.ID{id(n)})
			if err != nil || len(rows) != 1 {
				t.Fatalf("job %d: %d rows, %v", n, len(rows), err)
			}
			return rows[0]
		}
		before, bystander, requeued := rowOf(1), rowOf(2), rowOf(3)
		next := before
		next.Tier, next.Priority, next.Payload, next.MaxRetries, next.TraceID = job.Public, 3, []byte(`{"n":2}`), 7, "t2"
		next.RunAt = time.UnixMilli(1777635117123).UTC()
		next.CallbackURL = "https://x.example/"
		late, gone := next, next
		late.ID, late.Generation, gone.ID = id(3), 1, id(9)
		done(t, j.Replace(t.Context(), []job.JournalRow{next, late, gone}))
		got := rowOf(1)
		if got.Tier != next.Tier || got.Priority != 3 || string(got.Payload) != `{"n":2}` || got.MaxRetries != 7 ||
			got.TraceID != "t2" || !got.RunAt.Equal(next.RunAt) || got.CallbackURL != next.CallbackURL ||
			!got.ArrivedAt.Equal(before.ArrivedAt) || got.Owner != before.Owner || got.Generation != 1 {
			t.Errorf("the row has %+v, want %+v", got, next)
		}
		for n, want := range map[int]job.JournalRow{2: bystander, 3: requeued} {
			if got := rowOf(n); string(got.Payload) != string(want.Payload) || got.Tier != want.Tier {
				t.Errorf("job %d has %+v, want %+v", n, got, want)
			}
		}
	})
}

// The note that Redis accepted a submit comes a moment after its answer. It does not undo the time of a submit that
// replaced the job meanwhile: Redis has the job, so that its row is not its submit's any more.
func TestReplace_BeforeTheSubmitIsNoted(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{Incarnation: func(int) string { return "run-2" }})
		done(t, submit(t.Context(), j, submitting(1), submitting(2)))
		atOnce := submitting(1)
		atOnce.RunAt = time.Time{}
		done(t, j.Replace(t.Context(), []job.JournalRow{atOnce}))
		j.Submitted([]job.JournalRow{taken(1, "run-2"), taken(2, "run-2")})
		testkit.Eventually(t, within, "the bystander is noted", func() (bool, string) {
			row := accepted(t, s, 2)
			return row["run_id"] == "run-2", fmt.Sprint(row)
		})
		if row := accepted(t, s, 1); row["due_at"] != nil || row["submitting"] != int64(0) {
			t.Errorf("the replaced job is due at %v; the row is its submit's: %v", row["due_at"], row["submitting"])
		}
		back(t, j, []job.JournalRow{submitting(1)}, false)
	})
}
