package archive_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// A key stands for the latest job that was accepted under it, for its time, whatever becomes of that job.
func TestKeys(t *testing.T) {
	t.Attr("proves", "F19")
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{KeepKeys: time.Hour})
		rows := []job.JournalRow{living(3), living(1), living(2)}
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
		done(t, j.Accept(t.Context(), []job.JournalRow{living(3)}))
		if got := keys("", 10); got != nil {
			t.Errorf("expired, and there: %v", got)
		}
		other := living(5)
		other.Idempotency = job.Idempotency{Key: first.Key, Body: fmt.Sprintf("%032d", 5)}
		done(t, j.Accept(t.Context(), []job.JournalRow{other}))
		kept, err := s.Keys(t.Context(), "", 10)
		if err != nil || len(kept) != 1 || kept[0].ID != id(5) || kept[0].Idempotency != other.Idempotency {
			t.Errorf("%+v, %v", kept, err)
		}
		dropped, more, err := s.DropKeys(t.Context())
		if n := s.Count(t, "idempotency_keys"); n != 1 || dropped != 1 || more || err != nil {
			t.Errorf("%d dropped, %d left, more: %v, %v", dropped, n, more, err)
		}
	})
}

// A key comes in without a row where its job has one, or has ended. Like a row's it takes the key over, and one that is there keeps its time.
func TestAcceptKeys(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{KeepKeys: time.Hour})
		without := living(1)
		without.Idempotency = job.Idempotency{}
		done(t, j.Accept(t.Context(), []job.JournalRow{without, living(2)}))
		soon := time.Now().UTC().Add(5 * time.Minute).Format("2006-01-02 15:04:05.000000")
		execute(t, s.DB, "UPDATE idempotency_keys SET expires_at = '"+soon+"'")
		keys := []job.KeyKept{{Idempotency: living(1).Idempotency, ID: id(1)}, {Idempotency: living(2).Idempotency, ID: id(2)}}
		done(t, j.AcceptKeys(t.Context(), keys))
		done(t, j.AcceptKeys(t.Context(), nil))
		kept, err := s.Keys(t.Context(), "", 10)
		done(t, err)
		if len(kept) != 2 {
			t.Fatalf("%d keys", len(kept))
		}
		for i, k := range kept {
			if k.Idempotency != keys[i].Idempotency || k.ID != keys[i].ID {
				t.Errorf("%+v, want %+v", k, keys[i])
			}
			if left := time.Until(k.Expires); (left > 10*time.Minute) != (i == 0) {
				t.Errorf("%s is kept for %v", k.Key, left)
			}
		}
		if n := s.Count(t, "accepted_jobs"); n != 2 {
			t.Errorf("%d rows", n)
		}
	})
}

// A claim that is in the journal before its submit brings the key along, also if nothing is written after it.
func TestClaimBringsTheKey(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{KeepKeys: time.Hour})
		j.RegisterPendingKeys(
			[]job.KeyKept{
				{Idempotency: living(1).Idempotency, ID: id(1)},
				{Idempotency: living(3).Idempotency, ID: id(3)},
			},
		)
		done(t, j.Claimed(t.Context(), []job.Lease{lease(1, 1, 1), lease(2, 1, 1)}))
		kept, err := s.Keys(t.Context(), "", 10)
		done(t, err)
		if len(kept) != 1 || kept[0].ID != id(1) || kept[0].Idempotency != living(1).Idempotency {
			t.Errorf("keys %+v", kept)
		}
		row := accepted(t, s, 1)
		if row["idempotency_key"] != living(1).Idempotency.Key || row["attempt"] != int64(1) {
			t.Errorf("row %v", row)
		}
		done(t, j.Accept(t.Context(), []job.JournalRow{living(1), living(3)}))
		// From here on the row has it, and a claim need not write it again.
		execute(t, s.DB, "DELETE FROM idempotency_keys")
		done(t, j.Claimed(t.Context(), []job.Lease{lease(1, 1, 2), lease(3, 1, 1)}))
		if n := s.Count(t, "idempotency_keys"); n != 0 {
			t.Errorf("%d keys were written again", n)
		}
	})
}

// A call drops 5,000 expired keys and says that there are more; keys that still stand stay.
func TestDropKeys_InSteps(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		const expired, standing = 5_003, 7
		var rows []string
		for i := range expired + standing {
			until := "2026-01-01 00:00:00.000000"
			if i >= expired {
				until = "2999-01-01 00:00:00.000000"
			}
			rows = append(rows, fmt.Sprintf("('%032d', '%032d', '%s', '%s')", i, i, id(i), until))
		}
		for part := range slices.Chunk(rows, 1000) {
			execute(t, s.DB, "INSERT INTO idempotency_keys (idem_key, body, job_id, expires_at) VALUES "+strings.Join(part, ","))
		}
		for _, want := range []struct {
			dropped int64
			more    bool
		}{{5000, true}, {3, false}, {0, false}} {
			dropped, more, err := s.DropKeys(t.Context())
			if dropped != want.dropped || more != want.more || err != nil {
				t.Errorf("%d dropped, more: %v, %v; want %+v", dropped, more, err, want)
			}
		}
		if n := s.Count(t, "idempotency_keys"); n != standing {
			t.Errorf("%d are left, %d stand", n, standing)
		}
	})
}
