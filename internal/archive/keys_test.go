package archive_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// under returns the n-th job, submitted under the key of another job.
func under(n, key int) job.JournalRow {
	l := submitting(n)
	l.Idempotency = living(key).Idempotency
	return l
}

// meets submits a row and compares the job that it meets with want. No ID means that the submit gets the key and
// its row is there.
func meets(t *testing.T, s *archivetest.Store, j *archive.Journal, l job.JournalRow, want job.KeyHolder) {
	t.Helper()
	before := s.Count(t, "accepted_jobs WHERE job_id = ?", string(l.ID))
	read, err := j.Holder(t.Context(), l.Idempotency)
	if want.ID != "" && (err != nil || read != want) {
		t.Errorf("%s: the key's holder is %+v, %v; want %+v", l.ID, read, err, want)
	}
	held, err := j.Submit(t.Context(), []job.JournalRow{l})
	if err != nil || len(held) != 1 || held[0] != want {
		t.Errorf("%s meets %+v, %v; want %+v", l.ID, held, err, want)
	}
	if want.ID == "" {
		before = 1
	}
	if n := s.Count(t, "accepted_jobs WHERE job_id = ?", string(l.ID)); n != before {
		t.Errorf("%s has %d rows, want %d", l.ID, n, before)
	}
}

// A key stands for the first job that was submitted under it until the key expires, whatever happens to that job.
func TestKeys(t *testing.T) {
	t.Attr("proves", "F19")
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{KeepKeys: time.Hour})
		without := submitting(2)
		without.Idempotency = job.Idempotency{}
		done(t, submit(t.Context(), j, submitting(3), submitting(1), without))
		stands := func(key int) time.Time {
			row := s.Row(t, "idempotency_keys WHERE idem_key = ?", living(key).Idempotency.Key)
			until, err := time.Parse("2006-01-02 15:04:05.000000", row["expires_at"].(string))
			done(t, err)
			return until
		}
		for _, n := range []int{1, 3} {
			if left := time.Until(stands(n)); left < 50*time.Minute || left > time.Hour+time.Second {
				t.Errorf("the key of %d is kept for %v", n, left)
			}
		}
		if n := s.Count(t, "idempotency_keys"); n != 2 {
			t.Errorf("%d keys", n)
		}
		if h, err := j.Holder(t.Context(), living(7).Idempotency); h != (job.KeyHolder{}) || err != nil {
			t.Errorf("nobody's key: %+v, %v", h, err)
		}

		// A repeat by the same job keeps the expiry; a submit of another job meets the first.
		soon := time.Now().UTC().Add(5 * time.Minute).Format("2006-01-02 15:04:05.000000")
		execute(t, s.DB, "UPDATE idempotency_keys SET expires_at = '"+soon+"'")
		done(t, submit(t.Context(), j, submitting(3)))
		first := job.KeyHolder{ID: id(3), Submitting: true}
		meets(t, s, j, under(4, 3), first)
		if left := time.Until(stands(3)); left > 10*time.Minute {
			t.Errorf("the key has %v again", left)
		}
		other := under(4, 3)
		other.Idempotency.Body = fmt.Sprintf("%032d", 4)
		meets(t, s, j, other, job.KeyHolder{ID: id(3), Submitting: true, OtherBody: true})
		done(t, s.Found(t.Context(), firstLives(id(3)), "run-1"))
		meets(t, s, j, under(4, 3), job.KeyHolder{ID: id(3)})
		meets(t, s, j, other, job.KeyHolder{ID: id(3), OtherBody: true})
		execute(t, s.DB, "DELETE FROM accepted_jobs WHERE job_id = ?", string(id(3))) // as when it ended
		meets(t, s, j, under(4, 3), job.KeyHolder{ID: id(3)})

		// After the expiry the next submit gets the key, with its own body and a new expiry.
		execute(t, s.DB, "UPDATE idempotency_keys SET expires_at = '2026-01-01 00:00:00.000000'")
		if h, err := j.Holder(t.Context(), living(3).Idempotency); h != (job.KeyHolder{}) || err != nil {
			t.Errorf("expired, and met: %+v, %v", h, err)
		}
		meets(t, s, j, other, job.KeyHolder{})
		meets(t, s, j, under(5, 3), job.KeyHolder{ID: id(4), Submitting: true, OtherBody: true})
		if left := time.Until(stands(3)); left < 50*time.Minute {
			t.Errorf("taken over, and kept for %v", left)
		}
		dropped, more, err := s.DropKeys(t.Context())
		if n := s.Count(t, "idempotency_keys"); n != 1 || dropped != 1 || more || err != nil {
			t.Errorf("%d dropped, %d left, more: %v, %v", dropped, n, more, err)
		}
		done(t, s.Database.Close())
		if _, err := s.Holder(t.Context(), living(3).Idempotency); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("closed: %v", err)
		}
	})
}

// Of two submits under one key in one batch, the one with the lower id gets the key in any order, and the other
// one meets it. The rest of the batch is not affected.
func TestKeyTwiceInABatch(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{})
		done(t, submit(t.Context(), j, submitting(50)))
		for name, order := range map[string][]int{"in order": {0, 1, 2}, "the other way": {2, 1, 0}} {
			n := 10
			if name == "in order" {
				n = 20
			}
			three := []job.JournalRow{under(n, n), under(n+1, n), under(n+2, n)}
			three[2].Idempotency.Body = fmt.Sprintf("%032d", 7)
			rows := []job.JournalRow{submitting(n + 5), under(n+6, 50)}
			for _, i := range order {
				rows = append(rows, three[i])
			}
			held, err := j.Submit(t.Context(), rows)
			done(t, err)
			want := []job.KeyHolder{{}, {ID: id(50), Submitting: true}}
			for _, i := range order {
				want = append(want, []job.KeyHolder{
					{}, {ID: id(n), Submitting: true}, {ID: id(n), Submitting: true, OtherBody: true},
				}[i])
			}
			if !slices.Equal(held, want) {
				t.Errorf("%s: %+v, want %+v", name, held, want)
			}
			for m, rows := range map[int]int{n: 1, n + 1: 0, n + 2: 0, n + 5: 1, n + 6: 0} {
				if got := s.Count(t, "accepted_jobs WHERE job_id = ?", string(id(m))); got != rows {
					t.Errorf("%s: job %d has %d rows", name, m, got)
				}
			}
		}
	})
}

// Two processes submit different jobs under the same keys at the same moment, in different orders. Of each key's
// two jobs one has a row, and the other one's submit meets it as still submitting. No caller sees a deadlock.
func TestKeysAreDecidedBySQL(t *testing.T) {
	t.Attr("proves", "F19 F38")
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		const rounds, keys = 20, 10
		sides := []*archive.Journal{
			journal(t, s.Archive, archive.JournalOptions{}),
			journal(t, s.Beside(t), archive.JournalOptions{}),
		}
		won := [2]int{}
		for round := range rounds {
			held := make([][]job.KeyHolder, len(sides))
			batches := make([][]job.JournalRow, len(sides))
			var all, step sync.WaitGroup
			step.Add(len(sides))
			for side, j := range sides {
				for k := range keys {
					n := 1000*round + k
					batches[side] = append(batches[side], under(2*n+side, n))
				}
				if side == 1 {
					slices.Reverse(batches[side])
				}
				all.Go(func() {
					step.Done()
					step.Wait()
					var err error
					if held[side], err = j.Submit(t.Context(), batches[side]); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if t.Failed() {
				return
			}
			slices.Reverse(batches[1])
			slices.Reverse(held[1])
			for k := range keys {
				winner := 0
				if held[0][k].ID != "" {
					winner = 1
				}
				won[winner]++
				first, other := batches[winner][k], batches[1-winner][k]
				if h := held[winner][k]; h != (job.KeyHolder{}) {
					t.Errorf("round %d, key %d: both met another one: %+v", round, k, h)
				}
				if h := held[1-winner][k]; h != (job.KeyHolder{ID: first.ID, Submitting: true}) {
					t.Errorf("round %d, key %d: %s meets %+v, the winner is %s", round, k, other.ID, h, first.ID)
				}
				mine := s.Count(t, "accepted_jobs WHERE job_id = ?", string(first.ID))
				n := s.Count(t, "accepted_jobs WHERE idempotency_key = ?", first.Idempotency.Key)
				if n != 1 || mine != 1 {
					t.Errorf("round %d, key %d: %d rows, of the winner %d", round, k, n, mine)
				}
			}
		}
		t.Logf("the sides won %v", won)
	})
}

// Two processes use the same keys with their jobs in opposite orders. Both lock the keys in one order, so that no
// deadlock occurs.
func TestKeysInOneOrder(t *testing.T) {
	t.Attr("proves", "F38")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		server := testkit.NewMariaDB(t) // its counters count only this test
		s := archivetest.NewJournal(t, database.Options{MySQLDSN: server.NewDatabase(t)})
		sides := []*archive.Journal{
			journal(t, s.Archive, archive.JournalOptions{}),
			journal(t, s.Beside(t), archive.JournalOptions{}),
		}
		const rounds, keys = 40, 16
		for round := range rounds {
			var all, step sync.WaitGroup
			step.Add(len(sides))
			for side, j := range sides {
				var rows []job.JournalRow
				for k := range keys {
					n := 1000*round + k
					rows = append(rows, under(1000*round+100*side+[]int{k, keys - k}[side], n))
				}
				all.Go(func() {
					step.Done()
					step.Wait()
					if _, err := j.Submit(t.Context(), rows); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		if n := innodb(t, s, "lock_deadlocks"); n != 0 {
			t.Errorf("%d deadlocks", n)
		}
		if n := s.Count(t, "accepted_jobs"); n != rounds*keys {
			t.Errorf("%d rows, want one for each of %d keys", n, rounds*keys)
		}
	})
}

// A call drops 5,000 expired keys and says that there are more; keys that are not expired stay.
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
