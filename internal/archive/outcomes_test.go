package archive_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// Outcomes returns every generation's outcome of the requested jobs, however many they are, and of no other job.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		next := completed(3)
		next.Generation, next.Attempt = 2, 9
		record(t, w, completed(1), discarded(2, 2), discarded(3, 3), completed(4))
		record(t, w, next)
		ids := []job.ID{id(1), id(2), id(3), id(77)}
		got, err := a.Outcomes(t.Context(), ids)
		want := map[job.ID][]job.Recorded{
			id(1): {{Generation: 1, Status: job.Completed}}, id(2): {{Generation: 1, Status: job.Failed}},
			id(3): {{Generation: 1, Status: job.Failed}, {Generation: 2, Status: job.Completed}},
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v, %v", got, err)
		}
		for n := range job.MaxBatch + 50 {
			ids = append(ids, id(1000+n))
		}
		if got, err := a.Outcomes(t.Context(), append(ids, id(4))); err != nil || len(got) != 4 {
			t.Errorf("of many: %v, %v", got, err)
		}
		if got, err := a.Outcomes(t.Context(), nil); err != nil || len(got) != 0 {
			t.Errorf("of none: %v, %v", got, err)
		}
	})
}

// LivingOf returns the rows of the requested jobs that have not ended, without those that a submit may take back.
func TestLivingOf(t *testing.T) {
	t.Attr("proves", "F19")
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w, j := start(t, a, &redis{}, archive.WriterOptions{}), journal(t, a, archive.JournalOptions{})
		done(t, submit(t.Context(), j, living(1), living(2), living(3), submitting(4), submitting(5)))
		record(t, w, completed(2)) // this archive has no journal: the row stays
		rows, err := a.LivingOf(t.Context(), []job.ID{id(1), id(2), id(4), id(9)})
		if err != nil || len(rows) != 1 || rows[0].ID != id(1) || rows[0].Priority != 1 ||
			string(rows[0].Payload) != `{"steps":[]}` || rows[0].Idempotency.Key == "" {
			t.Errorf("%+v, %v", rows, err)
		}
		// The submit cannot take back a row whose job Redis is known to have: the row restores the job if Redis loses
		// it.
		done(t, a.Found(t.Context(), firstLives(id(5)), "run-1"))
		rows, err = a.LivingOf(t.Context(), []job.ID{id(4), id(5)})
		if err != nil || len(rows) != 1 || rows[0].ID != id(5) {
			t.Errorf("found: %+v, %v", rows, err)
		}
		done(t, a.Owe(t.Context(), []job.ID{id(4), id(5)}))
		rows, err = a.LivingOf(t.Context(), []job.ID{id(4), id(5)})
		if err != nil || len(rows) != 2 || rows[0].Incarnation != "" ||
			rows[1].Incarnation != "run-1" || rows[0].Submitting || rows[1].Submitting {
			t.Errorf("owed: %+v, %v", rows, err)
		}
	})
}

func TestOutcomesOfAClosedDatabase(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		if err := s.Database.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Outcomes(t.Context(), []job.ID{id(1)}); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("closed: %v", err)
		}
	})
}
