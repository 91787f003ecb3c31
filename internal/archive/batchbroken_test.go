package archive_test

import (
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// A batch that an edit by hand broke holds up no outcome, no list and no check of another batch. Its round ends once
// its row is mended.
func TestBrokenBatch(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{})
		w := start(t, s.Archive, nobody{}, archive.WriterOptions{})
		b, behind := newBatch(t, s.Archive, 1, job.ThenFinished), newBatch(t, s.Archive, 2, job.ThenFinished)
		for n, of := range []job.ID{b, behind} {
			if err := joins(t, j, member(n, of)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.SealBatch(t.Context(), of, false); err != nil {
				t.Fatal(err)
			}
		}
		s.Exec(t, "UPDATE batches SET spec = '{' WHERE id = ?", string(b))
		record(t, w, ends(0, 1, b, job.Completed), ends(9, 1, "", job.Completed))
		if n := s.CountOutcomes(t, "outcome = 'COMPLETED'"); n != 2 {
			t.Errorf("%d outcomes, want 2", n)
		}
		if n := s.Count(t, "batches WHERE completed = 1 AND ended_round = 0 AND ended_at IS NULL"); n != 1 {
			t.Error("the broken batch's round has ended, or its member was not counted")
		}
		page, _, err := s.Batches(t.Context(), "key-1", false, "", 10)
		if err != nil || len(page) != 1 || page[0].ID != behind {
			t.Errorf("the list is %+v, %v", page, err)
		}
		s.Exec(t, "UPDATE batches SET total = 7 WHERE id = ?", string(behind))
		if found := checks(t, s.Archive, nowhere()); len(found) != 1 {
			t.Errorf("found %+v", found)
		}
		owedThens(t, s, 0)
		s.Exec(t, "UPDATE batches SET spec = '{}' WHERE id = ?", string(b))
		checks(t, s.Archive, nowhere())
		if got := batch(t, s.Archive, b); got.State() != job.BatchFinished {
			t.Errorf("the mended batch is %s: %+v", got.State(), got)
		}
	})
}
