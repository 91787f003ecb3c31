package archive_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

// nowhere is a Redis that knows only some jobs.
func nowhere(has ...job.ID) func(context.Context, []job.ID) ([]job.ID, error) {
	return func(_ context.Context, ids []job.ID) (missing []job.ID, err error) {
		for _, id := range ids {
			if !strings.Contains(fmt.Sprint(has), string(id)) {
				missing = append(missing, id)
			}
		}
		return missing, nil
	}
}

// checks runs CheckBatches to its end.
func checks(t *testing.T, a *archive.Archive, missing func(context.Context, []job.ID) ([]job.ID, error)) (
	found []job.Finding) {
	t.Helper()
	for after, more := job.ID(""), true; more; more = after != "" {
		some, next, err := a.CheckBatches(t.Context(), after, missing)
		if err != nil {
			t.Fatal(err)
		}
		found, after = append(found, some...), next
	}
	return found
}

// The check of batches finds and repairs what an edit by hand did, and then ends the round. It leaves correct batches
// as they are.
func TestBatchCheck(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{})
		w := start(t, s.Archive, nobody{}, archive.WriterOptions{})
		for n := range 30 { // more than one call checks
			bystander := newBatch(t, s.Archive, 100+n, job.ThenFinished)
			if err := joins(t, j, member(1000+n, bystander)); err != nil {
				t.Fatal(err)
			}
		}
		b := newBatch(t, s.Archive, 1, job.ThenFinished)
		for n := range 4 {
			if err := joins(t, j, member(n, b)); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := s.SealBatch(t.Context(), b, false); err != nil {
			t.Fatal(err)
		}
		record(t, w, ends(0, 1, b, job.Completed))
		if found := checks(t, s.Archive, nowhere()); len(found) > 0 {
			t.Errorf("found %+v", found)
		}
		// An earlier version stored an end that it did not count. Rows of two jobs are gone; Redis has one of them.
		uncounted := ends(1, 1, b, job.Cancelled)
		uncounted.Batch = ""
		record(t, w, uncounted)
		s.Exec(t, "DELETE FROM accepted_jobs WHERE job_id IN (?, ?, ?)", string(id(1)), string(id(2)), string(id(3)))
		s.Exec(t, "UPDATE batches SET total = 7, completed = 2 WHERE id = ?", string(b))
		found := checks(t, s.Archive, nowhere(id(3)))
		if len(found) != 3 {
			t.Errorf("found %+v", found)
		}
		got := batch(t, s.Archive, b)
		if got.Total != 4 || got.Completed != 1 || got.Cancelled != 1 || got.Failed != 1 || got.State() != job.BatchRunning {
			t.Errorf("the batch is %s: %+v", got.State(), got)
		}
		if found := checks(t, s.Archive, nowhere(id(3))); len(found) > 0 {
			t.Errorf("found again %+v", found)
		}
		// The lost member's end, should it come after all, is not counted twice.
		record(t, w, ends(2, 1, b, job.Completed), ends(3, 1, b, job.Completed))
		got = batch(t, s.Archive, b)
		if got.Completed != 2 || got.Failed != 1 || got.State() != job.BatchFinished {
			t.Errorf("the batch is %s: %+v", got.State(), got)
		}
		owedThens(t, s, 1)
		lost := job.MemberLost
		if members, _, err := s.Members(t.Context(), b, &lost, "", 10); err != nil || len(members) != 1 ||
			members[0].ID != id(2) {
			t.Errorf("lost members: %+v, %v", members, err)
		}
	})
}

// A count that was too high ends the round when it is repaired.
func TestBatchCheckEndsTheRound(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		b := newBatch(t, s.Archive, 1, job.ThenFinished)
		s.Exec(t, "UPDATE batches SET total = 1 WHERE id = ?", string(b))
		if _, _, err := s.SealBatch(t.Context(), b, false); err != nil {
			t.Fatal(err)
		}
		owedThens(t, s, 0)
		if found := checks(t, s.Archive, nowhere()); len(found) != 1 || found[0].Kind != "batch" {
			t.Errorf("found %+v", found)
		}
		owedThens(t, s, 1)
	})
}

// Old batches go with their members, in steps. A batch with a member that lives stays, and so does a younger one.
func TestBatchRetention(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{})
		w := start(t, s.Archive, nobody{}, archive.WriterOptions{})
		const many = 600
		var rows []job.JournalRow
		var over []job.Outcome
		old, lives, young, open := newBatch(t, s.Archive, 1, job.ThenFinished), newBatch(t, s.Archive, 2, job.ThenFinished),
			newBatch(t, s.Archive, 3, job.ThenFinished), newBatch(t, s.Archive, 4, job.ThenFinished)
		for n := range many {
			rows, over = append(rows, member(n, old)), append(over, ends(n, 1, old, job.Completed))
		}
		rows = append(rows, member(many, lives), member(many+1, young))
		over = append(over, ends(many+1, 1, young, job.Completed))
		for n := 0; n < len(rows); n += 100 {
			if _, err := j.Submit(t.Context(), rows[n:min(n+100, len(rows))]); err != nil {
				t.Fatal(err)
			}
		}
		record(t, w, over...)
		for _, b := range []job.ID{old, lives, young} {
			if _, _, err := s.SealBatch(t.Context(), b, false); err != nil {
				t.Fatal(err)
			}
		}
		long := time.Now().UTC().Add(-time.Hour).Format("2006-01-02 15:04:05.000000")
		s.Exec(t, "UPDATE batches SET ended_at = ? WHERE id = ?", long, string(old))
		s.Exec(t, "UPDATE batches SET created_at = ? WHERE id <> ?", long, string(young))
		steps := 0
		for n := int64(1); n > 0; steps++ {
			var err error
			if n, err = s.DeleteBatches(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		if steps != 4 { // 500 members, the rest with the batch, the open batch, nothing
			t.Errorf("%d steps", steps)
		}
		if n := s.Count(t, "batches WHERE id IN (?, ?)", string(old), string(open)); n != 0 {
			t.Errorf("%d old batches are left", n)
		}
		if n, m := s.Count(t, "batches"), s.Count(t, "batch_members"); n != 2 || m != 2 {
			t.Errorf("%d batches and %d members are left", n, m)
		}
	})
}

// A batch that is being deleted takes no late member. A requeue of a member that is not deleted yet begins no round:
// the requeued job lives alone.
func TestDeleteBatches_TakesNothingMore(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		b := newBatch(t, s.Archive, 1, job.ThenFinished)
		j := journal(t, s.Archive, archive.JournalOptions{})
		w := start(t, s.Archive, nobody{}, archive.WriterOptions{})
		const members = 520
		var rows []job.JournalRow
		var over []job.Outcome
		for n := range members {
			rows = append(rows, member(n, b))
			over = append(over, ends(n, 1, b, job.NeedDiscard))
		}
		for n := 0; n < members; n += 100 {
			if _, err := j.Submit(t.Context(), rows[n:min(n+100, members)]); err != nil {
				t.Fatal(err)
			}
		}
		record(t, w, over...)
		s.Exec(t, "UPDATE batches SET created_at = '2020-01-01 00:00:00.000000'")
		if n, err := s.DeleteBatches(t.Context(), time.Minute); err != nil || n != 500 {
			t.Fatalf("%d rows are deleted, %v", n, err)
		}
		if err := joins(t, j, member(members+1, b)); !errors.Is(err, job.ErrSealed) {
			t.Errorf("a late member: %v", err)
		}
		left := -1
		for n := range members {
			if s.Count(t, "batch_members WHERE job_id = ?", string(id(n))) == 1 {
				left = n
			}
		}
		again := living(left)
		again.Generation, again.Batch = 2, string(b)
		mine, err := s.PromiseRequeues(t.Context(), []job.JournalRow{again}, job.Request{ID: "again"})
		if err != nil || !mine[0] {
			t.Fatalf("%v, %v", mine, err)
		}
		for n := int64(1); n > 0; {
			if n, err = s.DeleteBatches(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		if n, m := s.Count(t, "batches"), s.Count(t, "batch_members"); n+m != 0 {
			t.Errorf("%d batches and %d members are left", n, m)
		}
		owedThens(t, s, 0)
		if n := s.Count(t, "accepted_jobs WHERE generation = 2"); n != 1 {
			t.Errorf("the requeued job has %d rows", n)
		}
	})
}

// A batch that a requeue brings back while the deletion waits for its row is not deleted.
func TestDeleteBatches_WaitsForARequeue(t *testing.T) {
	t.Parallel()
	s := archivetest.New(t, databasetest.MariaDB(t))
	s.OwesOfBatches(owesThen)
	b, _ := wholeBatch(1, 0, true) // it has ended
	if _, _, _, err := s.SubmitBatch(t.Context(), b, nil, job.Idempotency{}); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, "UPDATE batches SET created_at = '2020-01-01 00:00:00.000000', ended_at = '2020-01-01 00:00:00.000000'")
	tx, err := s.DB.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	execute(t, tx, "UPDATE batches SET ended_at = CURRENT_TIMESTAMP(6) WHERE id = ?", string(b.ID))
	before := innodb(t, s, "lock_row_lock_waits")
	done := make(chan error, 1)
	go func() {
		_, err := s.DeleteBatches(t.Context(), time.Minute)
		done <- err
	}()
	waits(t, s, before, 1)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := s.Count(t, "batches"); n != 1 {
		t.Error("the batch is deleted")
	}
}
