package archive_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// wholeBatch returns a batch and n members that come with it.
func wholeBatch(number, n int, sealed bool) (*job.Batch, []job.JournalRow) {
	b := &job.Batch{ID: batchID(number), Name: "import", Owner: "key-1", Tier: job.Paid, Sealed: sealed,
		BatchSpec: job.BatchSpec{Then: &job.Then{Type: "SIMULATION", Tier: job.Paid, On: job.ThenFinished}}}
	rows := make([]job.JournalRow, n)
	for i := range rows {
		rows[i] = living(0)
		rows[i].ID, rows[i].Batch, rows[i].Owner, rows[i].Incarnation = job.BatchJobID(b.ID, i, 0), string(b.ID), b.Owner, ""
	}
	return b, rows
}

func idsOfRows(rows []job.JournalRow) (ids []job.ID) {
	for i := range rows {
		ids = append(ids, rows[i].ID)
	}
	return ids
}

// endingOfMember returns the outcome of a member that came with its batch.
func endingOfMember(r *job.JournalRow, status job.Status) job.Outcome {
	o := ends(0, 1, job.ID(r.Batch), status)
	o.ID = r.ID
	return o
}

// A batch that is stored with its members has their rows as debts to Redis, and ends as any batch does. A repeat writes
// nothing.
func TestSubmitBatch(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		s.OwesOfBatches(owesThen)
		w := start(t, s.Archive, nobody{}, archive.WriterOptions{})
		b, rows := wholeBatch(1, 40, true)
		stored, jobs, owed, err := s.SubmitBatch(t.Context(), b, rows, job.Idempotency{})
		if err != nil || stored.State() != job.BatchRunning || stored.Total != 40 || stored.CreatedAt.IsZero() ||
			!slices.Equal(jobs, idsOfRows(rows)) || !slices.Equal(idsOfRows(owed), jobs) {
			t.Fatalf("%+v, %q, %q, %v", stored, jobs, idsOfRows(owed), err)
		}
		if n := s.Count(t, "accepted_jobs WHERE run_id = '' AND submitting = 0"); n != 40 {
			t.Errorf("%d debts to Redis, want 40", n)
		}
		again, jobs, owed, err := s.SubmitBatch(t.Context(), b, rows, job.Idempotency{})
		if err != nil || again.ID != b.ID || again.Total != 40 || !slices.Equal(jobs, idsOfRows(rows)) || len(owed) > 0 {
			t.Errorf("a repeat of the call: %+v, %q, %q, %v", again, jobs, idsOfRows(owed), err)
		}
		for i := range rows {
			owedThens(t, s, 0)
			record(t, w, endingOfMember(&rows[i], []job.Status{job.Completed, job.Failed, job.Cancelled}[i%3]))
		}
		owedThens(t, s, 1)
		got := batch(t, s.Archive, b.ID)
		if got.State() != job.BatchFinished || got.Completed != 14 || got.Failed != 13 || got.Cancelled != 13 {
			t.Errorf("the batch is %s %+v", got.State(), got)
		}
		// A sealed batch without members owes its then job at once.
		empty, _ := wholeBatch(2, 0, true)
		stored, jobs, owed, err = s.SubmitBatch(t.Context(), empty, nil, job.Idempotency{})
		if err != nil || stored.State() != job.BatchFinished || len(jobs) > 0 || len(owed) != 1 {
			t.Errorf("an empty batch: %+v, %q, %q, %v", stored, jobs, idsOfRows(owed), err)
		}
		owedThens(t, s, 2)
	})
}

// An Idempotency-Key stands for the first batch and the members that came with it, not for later members.
func TestSubmitBatch_Key(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		key := job.Idempotency{Key: strings.Repeat("a", 32), Body: strings.Repeat("b", 32)}
		b, rows := wholeBatch(1, 3, false)
		if _, _, _, err := s.SubmitBatch(t.Context(), b, rows, key); err != nil {
			t.Fatal(err)
		}
		later := member(1, b.ID) // of the same millisecond
		later.ID = rows[0].ID[:24] + "012345678900"
		if err := joins(t, journal(t, s.Archive, archive.JournalOptions{}), later); err != nil {
			t.Fatal(err)
		}
		other, others := wholeBatch(2, 3, false)
		got, jobs, owed, err := s.SubmitBatch(t.Context(), other, others, key)
		if err != nil || got.ID != b.ID || got.Total != 4 || len(owed) > 0 || !slices.Equal(jobs, idsOfRows(rows)) {
			t.Errorf("a repeat: %+v, %q, %q, %v", got, jobs, idsOfRows(owed), err)
		}
		key.Body = strings.Repeat("c", 32)
		if _, _, _, err := s.SubmitBatch(t.Context(), other, others, key); !errors.Is(err, job.ErrMismatch) {
			t.Errorf("another body: %v", err)
		}
		if n := s.Count(t, "batches"); n != 1 {
			t.Errorf("%d batches", n)
		}
	})
}

// A batch leaves nothing behind if SQL refuses one of its rows. SQL takes the largest batch.
func TestSubmitBatch_AllOrNothing(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		b, rows := wholeBatch(1, 700, true)
		rows[699].Owner = strings.Repeat("x", 65)
		if _, _, _, err := s.SubmitBatch(t.Context(), b, rows, job.Idempotency{}); err == nil {
			t.Error("a row that does not fit was taken")
		}
		for _, table := range []string{"batches", "batch_members", "accepted_jobs"} {
			if n := s.Count(t, table); n != 0 {
				t.Errorf("%d rows are left in %s", n, table)
			}
		}
		b, rows = wholeBatch(2, job.MaxBatchJobs, true)
		for i := range rows {
			rows[i].Payload = fmt.Appendf(nil, "%q", strings.Repeat("x", 16_000))
		}
		if got, jobs, _, err := s.SubmitBatch(t.Context(), b, rows, job.Idempotency{}); err != nil ||
			got.Total != job.MaxBatchJobs || len(jobs) != job.MaxBatchJobs {
			t.Errorf("the largest batch: %+v, %d jobs, %v", got, len(jobs), err)
		}
	})
}
