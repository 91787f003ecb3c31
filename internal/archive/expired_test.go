package archive_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// An EXPIRED job has a row like that of a cancelled one: with its end, without a dead letter. The lists, the tally and
// retention find it by its own outcome.
func TestExpired(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		gone := cancelled(1)
		gone.Status, gone.Attempt, gone.Attempts, gone.Cause, gone.LastError = job.Expired, 0, nil, "", ""
		gone.FirstTriedAt, gone.StartedAt = time.Time{}, time.Time{}
		record(t, w, gone, cancelled(2), failed(3))

		j, err := s.Find(t.Context(), id(1))
		if err != nil || j.Status != job.Expired || j.Attempt != 0 || !j.EndedAt.Equal(gone.EndedAt) ||
			!j.StartedAt.IsZero() {
			t.Errorf("found %+v, %v", j, err)
		}
		if d, err := s.DeadLetter(t.Context(), id(1)); err == nil {
			t.Errorf("it has the dead letter %+v", d)
		}
		if got := fmt.Sprint(listed(t, s.Archive, job.Filter{Status: job.Expired}, 10)); got != fmt.Sprint([]job.ID{id(1)}) {
			t.Errorf("the list has %s", got)
		}
		if got := listed(t, s.Archive, job.Filter{Status: job.Cancelled}, 10); len(got) != 1 || got[0] != id(2) {
			t.Errorf("cancelled are %v", got)
		}
		tallies, err := s.Tally(t.Context(), nil, time.Time{}, time.Time{})
		var expired, others int64
		for _, one := range tallies {
			expired, others = expired+one.Expired, others+one.Cancelled+one.Failed+one.Completed
		}
		if err != nil || expired != 1 || others != 2 {
			t.Errorf("%d expired and %d others in %+v, %v", expired, others, tallies, err)
		}
		age(t, s, 91, "job_id = ?", string(id(1)))
		if got := numbers(old(t, s.Archive, job.Kind{Tier: gone.Tier, Status: job.Expired}, 90)); len(got) != 1 {
			t.Errorf("%v are old", got)
		}
		kinds, err := s.Kinds(t.Context())
		if want := (job.Kind{Tier: gone.Tier, Status: job.Expired}); err != nil || kinds[len(kinds)-1] != want {
			t.Errorf("kinds %v, %v", kinds, err)
		}
	})
}
