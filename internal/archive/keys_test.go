package archive_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// A key stands for the latest job that was accepted under it, for its time, whatever becomes of that job.
func TestKeys_F19(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{KeepKeys: time.Hour})
		rows := []job.Living{living(3), living(1), living(2)}
		rows[2].Idempotency = job.Idempotency{}
		done(t, j.Accept(t.Context(), rows))
		keys := func(after string, limit int) (ids []job.ID) {
			kept, err := s.Keys(t.Context(), after, limit)
			done(t, err)
			for _, k := range kept {
				if left := time.Until(k.Expires); left < 50*time.Minute || left > time.Hour+time.Second {
					t.Errorf("%s is kept for %v", k.Key, left)
				}
				ids = append(ids, k.ID)
			}
			return ids
		}
		first := living(1).Idempotency
		if got := keys("", 10); !slices.Equal(got, []job.ID{id(1), id(3)}) {
			t.Errorf("%v", got)
		}
		if got := keys("", 1); !slices.Equal(got, []job.ID{id(1)}) {
			t.Errorf("the first page: %v", got)
		}
		if got := keys(first.Key, 10); !slices.Equal(got, []job.ID{id(3)}) {
			t.Errorf("the second page: %v", got)
		}

		// The same job again keeps its time; another one under the same key takes it over.
		old := "2026-01-01 00:00:00.000000"
		execute(t, s.DB, "UPDATE idempotency_keys SET expires_at = '"+old+"'")
		done(t, j.Accept(t.Context(), []job.Living{living(3)}))
		if got := keys("", 10); got != nil {
			t.Errorf("expired, and there: %v", got)
		}
		other := living(5)
		other.Idempotency = job.Idempotency{Key: first.Key, Body: fmt.Sprintf("%032d", 5)}
		done(t, j.Accept(t.Context(), []job.Living{other}))
		kept, err := s.Keys(t.Context(), "", 10)
		if err != nil || len(kept) != 1 || kept[0].ID != id(5) || kept[0].Idempotency != other.Idempotency {
			t.Errorf("%+v, %v", kept, err)
		}
		dropped, err := s.DropKeys(t.Context())
		if n := s.Count(t, "idempotency_keys"); n != 1 || dropped != 1 || err != nil {
			t.Errorf("%d dropped, %d left, %v", dropped, n, err)
		}
	})
}
