package archive_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// batchID is the id of the nth batch of a test; its partition is 0.
func batchID(n int) job.ID { return job.ID(fmt.Sprintf("019b0000-0000-7000-8000-%012x", n<<8)) }

// owesThen owes the then job of a batch and nothing else.
func owesThen(b *job.Batch) []job.JournalRow {
	then, owed := b.ThenJob()
	if !owed {
		return nil
	}
	return []job.JournalRow{{Job: then, Priority: 1}}
}

// newBatch stores an open batch whose then job is owed on the given condition.
func newBatch(t *testing.T, a *archive.Archive, n int, on job.ThenOn) job.ID {
	t.Helper()
	a.OwesOfBatches(owesThen)
	b := job.Batch{ID: batchID(n), Name: "import", Owner: "key-1", Tier: job.Paid, BatchSpec: job.BatchSpec{
		Then: &job.Then{Type: "SIMULATION", Tier: job.Paid, On: on, MaxRetries: 3, Counts: true},
	}}
	stored, replayed, err := a.CreateBatch(t.Context(), b, job.Idempotency{})
	if err != nil || replayed || stored.State() != job.BatchOpen || stored.Round != 1 || stored.CreatedAt.IsZero() {
		t.Fatalf("create a batch: %+v, %v, %v", stored, replayed, err)
	}
	return b.ID
}

// member returns the row of a submit of a batch's member.
func member(n int, batch job.ID) job.JournalRow {
	l := submitting(n)
	l.Batch, l.Owner = string(batch), "key-1"
	return l
}

// ends returns the outcome of a member.
func ends(n, generation int, batch job.ID, status job.Status) job.Outcome {
	o := completed(n)
	if o.Status = status; status != job.Completed {
		o.Result = nil
	}
	o.Generation, o.Batch = generation, string(batch)
	return o
}

// joins submits a member and returns why its batch refuses it; nil = it does not.
func joins(t *testing.T, j *archive.Journal, l job.JournalRow) error {
	t.Helper()
	held, err := j.Submit(t.Context(), []job.JournalRow{l})
	if err != nil {
		t.Fatal(err)
	}
	return held[0].Refused
}

func batch(t *testing.T, a *archive.Archive, id job.ID) job.Batch {
	t.Helper()
	b, err := a.Batch(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// owedThens checks how many then jobs have a journal row.
func owedThens(t *testing.T, s *archivetest.Store, want int) {
	t.Helper()
	if n := s.Count(t, "accepted_jobs WHERE CAST(options AS CHAR) LIKE '%thenOf%'"); n != want {
		t.Errorf("%d rows of then jobs, want %d", n, want)
	}
}

// A batch ends once: after its seal and its last member's end, and not before. The transaction of that outcome writes
// the row of the then job.
func TestBatchEnds(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		b := newBatch(t, s.Archive, 1, job.ThenFinished)
		j := journal(t, s.Archive, archive.JournalOptions{})
		w := start(t, s.Archive, nobody{}, archive.WriterOptions{})
		for n := range 3 {
			if err := joins(t, j, member(n, b)); err != nil {
				t.Fatal(err)
			}
		}
		if err := joins(t, j, member(7, batchID(9))); !errors.Is(err, job.ErrNoBatch) {
			t.Errorf("a member of a batch that does not exist: %v", err)
		}
		stranger := member(8, b)
		if stranger.Owner = "key-2"; !errors.Is(joins(t, j, stranger), job.ErrNoBatch) {
			t.Error("a batch took the member of another owner")
		}
		record(t, w, ends(0, 1, b, job.Completed), ends(1, 1, b, job.Cancelled))
		record(t, w, ends(0, 1, b, job.Completed))
		owedThens(t, s, 0)
		if sealed, owed, err := s.SealBatch(t.Context(), b, false); err != nil || len(owed) > 0 ||
			sealed.State() != job.BatchRunning {
			t.Fatalf("sealed: %+v, %v, %v", sealed, owed, err)
		}
		if err := joins(t, j, member(5, b)); !errors.Is(err, job.ErrSealed) {
			t.Errorf("a member of a sealed batch: %v", err)
		}
		owedThens(t, s, 0)
		record(t, w, ends(2, 1, b, job.Expired))
		owedThens(t, s, 1)
		got := batch(t, s.Archive, b)
		if got.State() != job.BatchFinished || got.Total != 3 || got.Completed != 1 || got.Cancelled != 1 ||
			got.Expired != 1 || got.EndedRound != 1 || got.EndedAt.IsZero() {
			t.Errorf("the batch is %s: %+v", got.State(), got)
		}
		if n := s.Count(t, "accepted_jobs"); n != 1 { // the then job's alone
			t.Errorf("%d journal rows", n)
		}
		if _, owed, err := s.SealBatch(t.Context(), b, false); err != nil || len(owed) > 0 {
			t.Errorf("sealed twice: %v, %v", owed, err)
		}
	})
}

// A submit that is taken back is no member. If it was the last that lived, the round ends.
func TestBatchTakeBack(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		b := newBatch(t, s.Archive, 1, job.ThenFinished)
		j := journal(t, s.Archive, archive.JournalOptions{})
		w := start(t, s.Archive, nobody{}, archive.WriterOptions{})
		for n := range 2 {
			if err := joins(t, j, member(n, b)); err != nil {
				t.Fatal(err)
			}
		}
		record(t, w, ends(0, 1, b, job.Completed))
		if _, _, err := s.SealBatch(t.Context(), b, false); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := j.TakeBack(t.Context(), []job.JournalRow{member(1, b)}); err != nil {
				t.Fatal(err)
			}
		}
		owedThens(t, s, 1)
		if got := batch(t, s.Archive, b); got.Total != 1 || got.State() != job.BatchFinished {
			t.Errorf("the batch is %s: %+v", got.State(), got)
		}
	})
}

// The Idempotency-Key of a submit that its batch refuses is free again.
func TestBatchRefusalFreesTheKey(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		b := newBatch(t, s.Archive, 1, job.ThenFinished)
		j := journal(t, s.Archive, archive.JournalOptions{})
		l := member(1, batchID(9))
		l.Idempotency = under(1, 1).Idempotency
		if err := joins(t, j, l); !errors.Is(err, job.ErrNoBatch) {
			t.Fatal(err)
		}
		if n := s.Count(t, "idempotency_keys"); n != 0 {
			t.Errorf("%d keys", n)
		}
		l.Batch = string(b)
		if err := joins(t, j, l); err != nil {
			t.Fatal(err)
		}
		l.ID = id(2)
		held, err := j.Submit(t.Context(), []job.JournalRow{l})
		if err != nil || held[0].ID != id(1) {
			t.Errorf("a repeat: %+v, %v", held, err)
		}
		if got := batch(t, s.Archive, b); got.Total != 1 {
			t.Errorf("%d members", got.Total)
		}
	})
}

// A requeue of a failed member begins the next round if the round has ended, and the same round otherwise.
func TestBatchRounds(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		b := newBatch(t, s.Archive, 1, job.ThenSucceeded)
		j := journal(t, s.Archive, archive.JournalOptions{})
		w := start(t, s.Archive, nobody{}, archive.WriterOptions{})
		for n := range 2 {
			if err := joins(t, j, member(n, b)); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := s.SealBatch(t.Context(), b, false); err != nil {
			t.Fatal(err)
		}
		requeue := func(n, generation, round int) {
			t.Helper()
			l := living(n)
			l.Generation, l.Batch = generation, string(b)
			for range 2 { // the repeat of a request changes nothing
				mine, err := s.PromiseRequeues(t.Context(), []job.JournalRow{l}, job.Request{ID: fmt.Sprint(n, generation)})
				if err != nil || !mine[0] {
					t.Fatalf("requeue: %v, %v", mine, err)
				}
			}
			if got := batch(t, s.Archive, b); got.Round != round || got.Failed != 0 || got.State() != job.BatchRunning {
				t.Errorf("after a requeue the batch is %s: %+v", got.State(), got)
			}
		}
		record(t, w, ends(0, 1, b, job.Failed))
		requeue(0, 2, 1)
		record(t, w, ends(0, 2, b, job.Failed), ends(1, 1, b, job.Completed))
		owedThens(t, s, 0)
		if got := batch(t, s.Archive, b); got.State() != job.BatchStuck {
			t.Errorf("with a failed member the batch is %s", got.State())
		}
		requeue(0, 3, 2)
		record(t, w, ends(0, 3, b, job.Completed))
		owedThens(t, s, 1)
		got := batch(t, s.Archive, b)
		if got.State() != job.BatchFinished || got.EndedRound != 2 || got.Completed != 2 {
			t.Errorf("the batch is %s: %+v", got.State(), got)
		}
		members, next, err := s.Members(t.Context(), b, nil, "", 10)
		if err != nil || next != "" || len(members) != 2 || members[0].ID != id(0) || members[0].Generation != 3 {
			t.Errorf("members %+v, %q, %v", members, next, err)
		}
	})
}

// An owner may have job.MaxOpenBatches open batches. Of 24 callers that make the last one, in either way, one does; one
// that asks again is answered, another owner is not concerned, and where a batch has ended there is room for another.
func TestBatches_Open(t *testing.T) {
	t.Attr("proves", "A68")
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		s.Exec(t, "INSERT INTO api_keys (id, name, role, tiers, types, rate, burst, in_flight, hash, created_at, created_by, version) "+
			"VALUES ('key-1', '', '', '', '', 0, 0, 0, ?, '2026-01-01 00:00:00', '', 1)", make([]byte, 32))
		const digits = "(SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION " +
			"SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)"
		s.Exec(t, "INSERT INTO batches (id, name, owner, tier, sealed, total, completed, failed, cancelled, expired, round, "+
			"ended_round, created_at, spec) SELECT a.n * 1000 + b.n * 100 + c.n * 10 + d.n, '', 'key-1', 'PAID', 0, 0, 0, 0, "+
			"0, 0, 1, 0, '2026-01-01 00:00:00', '{}' FROM "+digits+" a, "+digits+" b, "+digits+" c, "+digits+" d "+
			"WHERE a.n + b.n + c.n + d.n > 0")
		a := s.Archive
		a.OwesOfBatches(func(*job.Batch) []job.JournalRow { return nil })
		create := func(n int, owner string, members int) error {
			b := job.Batch{ID: batchID(n), Owner: owner, Tier: job.Paid}
			if members == 0 {
				_, _, err := a.CreateBatch(t.Context(), b, job.Idempotency{Key: fmt.Sprint(n), Body: "x"})
				return err
			}
			_, _, _, err := a.SubmitBatch(t.Context(), &b, []job.JournalRow{member(1000+n, b.ID)}, job.Idempotency{})
			return err
		}
		var mu sync.Mutex
		var made []int
		storm := func(from int) {
			t.Helper()
			var group sync.WaitGroup
			for n := range 24 {
				group.Go(func() {
					err := create(from+n, "key-1", n%2)
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						made = append(made, from+n)
					} else if !errors.Is(err, job.ErrOpenBatches) {
						t.Error(err)
					}
				})
			}
			group.Wait()
		}
		storm(1)
		if len(made) != 1 {
			t.Fatalf("made are %v", made)
		}
		if err := create(made[0], "key-1", (made[0]-1)%2); err != nil {
			t.Errorf("again: %v", err)
		}
		if err := create(100, "key-2", 0); err != nil {
			t.Errorf("another owner: %v", err)
		}
		s.Exec(t, "UPDATE batches SET ended_at = created_at, ended_round = round WHERE id = '1'")
		if storm(30); len(made) != 2 {
			t.Errorf("made are %v", made)
		}
	})
}
