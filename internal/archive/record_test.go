package archive_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

// An insert that finds its row reports no affected row. The fast path of record depends on that.
func TestRepeatChangesNothing(t *testing.T) {
	t.Attr("proves", "F05")
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		r := &redis{}
		w := start(t, s.Archive, r, archive.WriterOptions{})
		batch := []job.Outcome{completed(1), failed(2), cancelled(3)}
		record(t, w, batch...)
		before := s.Row(t, "failed_jobs")

		r.acks = nil // the process died before it acknowledged
		changed := failed(2)
		changed.LastError, changed.Payload = "another text", nil
		record(t, w, completed(4), batch[0], changed, batch[2])
		if r.count() != 4 {
			t.Errorf("%d acknowledged, want 4", r.count())
		}
		check(t, "failed_jobs", s.Row(t, "failed_jobs"), before)
		for table, want := range map[string]int{"job_outcomes": 2, "job_results": 2, "failed_jobs": 1, "job_attempts": 2} {
			if n := s.Count(t, table); n != want {
				t.Errorf("%s has %d rows, want %d", table, n, want)
			}
		}
		st := w.Stats()
		if st.Written != 4 || st.Differences != 0 || st.Refused != 0 || st.Waiting != 0 || st.Down {
			t.Errorf("%+v", st)
		}
	})
}

func TestSQLsOutcomeWins(t *testing.T) {
	t.Attr("proves", "S2-G4")
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		r := &redis{}
		w := start(t, s.Archive, r, archive.WriterOptions{})
		record(t, w, completed(1), failed(2))

		other, another := failed(1), completed(2)
		other.Attempt = 4
		record(t, w, other, another, completed(3))
		if got, want := r.ack(id(1)), (job.Ack{ID: id(1), Generation: 1, Attempt: 4, Status: job.Completed,
			Known: true}); got != want {
			t.Errorf("acknowledged %+v, want %+v", got, want)
		}
		if got := r.ack(id(2)).Status; got != job.Failed {
			t.Errorf("acknowledged %s, want SQL's FAILED", got)
		}
		if got := r.ack(id(3)); got.Status != job.Completed || got.Known {
			t.Errorf("the bystander was acknowledged as %+v", got)
		}
		if n := s.Count(t, "failed_jobs WHERE job_id = ?", string(id(1))); n != 0 {
			t.Error("a completed job became a dead letter")
		}
		if n := s.Count(t, "job_results WHERE job_id = ?", string(id(2))); n != 0 {
			t.Error("a dead letter got a result")
		}
		if n := s.Count(t, "job_attempts WHERE job_id = ?", string(id(1))); n != 0 {
			t.Error("the loser's attempts were written")
		}
		if st := w.Stats(); st.Differences != 2 || st.Written != 3 {
			t.Errorf("%+v", st)
		}
	})
}

// A batch may contain the same outcome twice, and two different outcomes of one job.
func TestTwoEndingsInOneBatch(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		r := &redis{}
		w := start(t, s.Archive, r, archive.WriterOptions{})
		record(t, w, completed(1), completed(1), completed(2), failed(2), completed(3))
		if got := r.ack(id(2)).Status; got != job.Completed {
			t.Errorf("acknowledged %s, want the first, COMPLETED", got)
		}
		if n := s.CountOutcomes(t, ""); n != 3 {
			t.Errorf("%d outcomes, want 3", n)
		}
		if st := w.Stats(); st.Differences != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestTwoProcessesRace(t *testing.T) {
	t.Attr("proves", "F26")
	// Not parallel: it counts the deadlocks of the whole server, and TestDeadlock makes one.
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		const rounds, size = 4, 500
		before := 0
		if s.Options.MySQLDSN != "" {
			before = innodb(t, s, "lock_deadlocks")
		}
		var writers [2]*archive.Writer
		var acks [2]*redis
		for i := range writers {
			acks[i] = &redis{}
			writers[i] = start(t, s.Beside(t), acks[i], archive.WriterOptions{})
		}
		for round := range rounds {
			batch := make([]job.Outcome, size)
			for i := range batch {
				batch[i] = completed(round*size + i)
				if i%3 == 0 {
					batch[i] = failed(round*size + i)
				}
			}
			var both sync.WaitGroup
			for i, w := range writers {
				mine := slices.Clone(batch)
				if i == 1 {
					slices.Reverse(mine) // a writer with another order must not deadlock with us
				}
				both.Go(func() { record(t, w, mine...) })
			}
			both.Wait()
		}
		for i := range acks {
			if n := acks[i].count(); n != rounds*size {
				t.Errorf("process %d acknowledged %d, want %d", i, n, rounds*size)
			}
			if acks[i].largest > job.MaxBatch {
				t.Errorf("a call carried %d acknowledgements", acks[i].largest)
			}
		}
		dead := rounds * ((size + 2) / 3)
		for table, want := range map[string]int{"job_outcomes": dead, "failed_jobs": dead,
			"job_results": rounds*size - dead, "job_attempts": 2 * dead} {
			if n := s.Count(t, table); n != want {
				t.Errorf("%s has %d rows, want %d", table, n, want)
			}
		}
		one, two := writers[0].Stats(), writers[1].Stats()
		if one.Written+two.Written != rounds*size || one.Differences+two.Differences != 0 {
			t.Errorf("%+v %+v", one, two)
		}
		if s.Options.MySQLDSN != "" {
			if n := innodb(t, s, "lock_deadlocks") - before; n != 0 {
				t.Errorf("%d deadlocks", n)
			}
		}
		t.Logf("inserted %d and %d", one.Written, two.Written)
	})
}

func TestBadRowAlone(t *testing.T) {
	t.Parallel()
	bad := map[string]func(*job.Outcome){
		"type too long":   func(o *job.Outcome) { o.Type = strings.Repeat("X", 101) },
		"worker too long": func(o *job.Outcome) { o.Attempts = []job.Attempt{{Number: 1, Worker: strings.Repeat("w", 256)}} },
		"error too long":  func(o *job.Outcome) { o.LastError = strings.Repeat("é", 40_000) },
	}
	spoil := func(t *testing.T, s *archivetest.Store, spoilt func(*job.Outcome)) {
		r := &redis{}
		w := start(t, s.Archive, r, archive.WriterOptions{})
		batch := many(500)
		batch[250] = failed(251)
		spoilt(&batch[250])
		record(t, w, batch...)
		if n := s.CountOutcomes(t, ""); n != 499 {
			t.Errorf("%d outcomes, want the 499 neighbours", n)
		}
		if r.count() != 499 || r.ack(id(251)).ID != "" {
			t.Errorf("%d acknowledged; the refused one: %+v", r.count(), r.ack(id(251)))
		}
		st := w.Stats()
		if st.Refused != 1 || st.Written != 499 || st.Down || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
		// The row is not tried again so soon, and blocks no other row.
		record(t, w, batch[250])
		if w.Offer(batch[250]) {
			t.Error("a row refused a moment ago was taken")
		}
		if again := w.Stats(); again.Refused != 1 {
			t.Errorf("it was tried again: %+v", again)
		}
		record(t, w, completed(501))
	}
	for name, spoilt := range bad {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) { spoil(t, s, spoilt) })
		})
	}
	t.Run("invalid-utf8", func(t *testing.T) {
		// SQLite stores the bytes as they are.
		t.Run("mariadb", func(t *testing.T) {
			spoil(t, archivetest.New(t, databasetest.MariaDB(t)), func(o *job.Outcome) { o.LastError = "a\xff\xfeb" })
		})
	})
}

func TestSeveralBadRows(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		r := &redis{}
		w := start(t, s.Archive, r, archive.WriterOptions{})
		batch := many(100)
		for _, n := range []int{0, 1, 50, 99} {
			batch[n].Owner = strings.Repeat("k", 65)
		}
		record(t, w, batch...)
		if n := s.CountOutcomes(t, ""); n != 96 || w.Stats().Refused != 4 {
			t.Errorf("%d outcomes, %+v", n, w.Stats())
		}
	})
}

// 500 results of 64 KiB are more than one packet may hold.
func TestLargeResultsAreCutIntoTransactions(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		batch := many(500)
		for i := range batch {
			batch[i].Result = []byte(`"` + strings.Repeat("x", 64<<10-2) + `"`)
		}
		record(t, w, batch...)
		if n := s.Count(t, "job_results"); n != 500 {
			t.Errorf("%d results", n)
		}
		if st := w.Stats(); st.Batches < 7 || st.Refused != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestAcknowledgeFails(t *testing.T) {
	t.Attr("proves", "S2-G4")
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		gone := errors.New("redis is gone")
		r := &redis{}
		w := start(t, s.Archive, r, archive.WriterOptions{})
		failing := start(t, s.Archive, &redis{answer: func(context.Context, int, []job.Ack) error { return gone }},
			archive.WriterOptions{})
		if err := failing.Record(t.Context(), many(150)); !errors.Is(err, gone) || errors.Is(err, job.ErrUnavailable) {
			t.Errorf("%v, want that Redis is gone", err)
		}
		if st := failing.Stats(); st.Written != 150 || st.Unacknowledged == 0 || st.Down {
			t.Errorf("%+v", st)
		}
		// The drainer delivers them again, perhaps in another process.
		record(t, w, many(150)...)
		if st := w.Stats(); r.count() != 150 || st.Written != 0 || st.Differences != 0 {
			t.Errorf("%d acknowledged, %+v", r.count(), st)
		}
	})
}

func TestPartitionsAreAcknowledgedApart(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		var mu sync.Mutex
		calls := map[string]bool{}
		r := &redis{answer: func(_ context.Context, partition int, batch []job.Ack) error {
			mu.Lock()
			defer mu.Unlock()
			calls[fmt.Sprintf("%d: %d", partition, len(batch))] = true
			for _, ack := range batch {
				if ack.ID.Partition() != partition {
					return errors.New("a stranger in the batch")
				}
			}
			return nil
		}}
		w := start(t, a, r, archive.WriterOptions{})
		batch := many(240)
		for i := range 20 {
			batch[i].ID = batch[i].ID[:34] + "07"
		}
		record(t, w, batch...)
		for _, want := range []string{"7: 20", "0: 100", "0: 20"} {
			if !calls[want] {
				t.Errorf("calls %v, want %s", calls, want)
			}
		}
	})
}
