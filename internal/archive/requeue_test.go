package archive_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// next returns a dead job as it is to be requeued.
func next(n, generation int) job.JournalRow {
	d := job.DeadLetter{Job: failed(n).Job}
	d.Generation = generation
	return d.Next(3)
}

func promise(t *testing.T, a *archive.Archive, n, generation int, request string) bool {
	t.Helper()
	mine, err := a.PromiseRequeues(t.Context(), []job.JournalRow{next(n, generation)}, job.Request{ID: request})
	if err != nil {
		t.Fatal(err)
	}
	return mine[0]
}

// promised returns the promised generations.
func promised(t *testing.T, a *archive.Archive) []job.JournalRow {
	t.Helper()
	var all []job.JournalRow
	for after := job.ID(""); ; {
		ids, err := a.Waiting(t.Context(), after, 1000, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(ids) == 0 {
			return all
		}
		rows, err := a.LivingOf(t.Context(), ids)
		if err != nil {
			t.Fatal(err)
		}
		all, after = append(all, rows...), ids[len(ids)-1]
	}
}

// A promise is made once. It is a row of the next generation, and the dead letter stays as a record.
func TestRequeue(t *testing.T) {
	t.Attr("proves", "S0-P2 S1-P3")
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		a := s.Archive
		w := start(t, a, &redis{}, archive.WriterOptions{})
		o := failed(1)
		o.CallbackURL = "https://example.com/done"
		record(t, w, o, failed(2), completed(3))
		d := job.DeadLetter{Job: o.Job}
		want := d.Next(3)
		for _, which := range []string{"the promise", "its repeat"} {
			mine, err := a.PromiseRequeues(t.Context(), []job.JournalRow{want}, job.Request{ID: "request-1"})
			if err != nil || !mine[0] {
				t.Errorf("%s is refused: %v", which, err)
			}
		}
		for request, want := range map[string]bool{"request-1": true, "request-2": false} {
			if asked, err := a.Requested(t.Context(), id(1), request); err != nil || asked != want {
				t.Errorf("%s has asked: %v, %v", request, asked, err)
			}
			if asked, err := a.Requested(t.Context(), id(2), request); err != nil || asked {
				t.Errorf("%s has asked for another job: %v, %v", request, asked, err)
			}
		}
		for name, made := range map[string]bool{
			"another request": promise(t, a, 1, 1, "request-2"), "another generation": promise(t, a, 1, 2, "request-1"),
			"a completed job": promise(t, a, 3, 1, "request-1"), "an unknown job": promise(t, a, 4, 1, "request-1"),
		} {
			if made {
				t.Errorf("%s got a promise", name)
			}
		}
		if got := names(dead(t, a, job.Filter{}, 10)); got != "2 " {
			t.Errorf("open: %s, want the bystander", got)
		}
		want.Status = job.Pending
		if diff := cmp.Diff([]job.JournalRow{want}, promised(t, a)); diff != "" {
			t.Errorf("its row is not whole (-want +got):\n%s", diff)
		}
		if n := s.Count(t, "failed_jobs"); n != 2 {
			t.Errorf("%d dead letters, want both kept", n)
		}
		if got, err := a.DeadLetter(t.Context(), id(1)); err != nil || got.Open() || got.RequestID != "request-1" ||
			time.Since(got.RequestedAt) > time.Minute || !got.RequeuedAt.Equal(got.RequestedAt) {
			t.Errorf("%+v, %v", got, err)
		}
		// When the next generation has ended, its row is gone, and the promise is still the request's.
		second := completed(1)
		second.Generation = 2
		record(t, w, second)
		if !promise(t, a, 1, 1, "request-1") || promise(t, a, 1, 1, "request-3") || len(promised(t, a)) != 0 {
			t.Errorf("after the new life: %v", promised(t, a))
		}
	})
}

// The promise's row and the mark on the letter are written together or not at all.
func TestRequeueBothOrNone(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		record(t, start(t, s.Archive, &redis{}, archive.WriterOptions{}), failed(1))
		execute(t, s.DB, "DROP TABLE accepted_jobs")
		_, err := s.PromiseRequeues(t.Context(), []job.JournalRow{next(1, 1)}, job.Request{ID: "request-1"})
		if !errors.Is(err, job.ErrUnavailable) {
			t.Error(err)
		}
		if n := s.Count(t, "failed_jobs WHERE requeue_requested_at IS NOT NULL"); n != 0 {
			t.Error("a promise without its row")
		}
	})
}

// The next generation may have ended without a promise, as after a restore of a backup of SQL.
func TestRequeueAlreadyEnded(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		record(t, w, failed(1))
		second := failed(1)
		second.Generation, second.Attempts = 2, nil
		record(t, w, second)
		before := s.Row(t, "failed_jobs WHERE generation = 1")
		if promise(t, s.Archive, 1, 1, "request-1") {
			t.Error("a letter whose next life ended was promised one more")
		}
		check(t, "failed_jobs", s.Row(t, "failed_jobs WHERE generation = 1"), before)
		if got, err := s.DeadLetter(t.Context(), id(1)); err != nil || got.Generation != 2 || !got.Open() {
			t.Errorf("%+v, %v, want the second life's letter", got, err)
		}
	})
}

// Two requests at once: each letter goes to one of them.
func TestPromisesRace(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		var batch []job.Outcome
		var letters []job.JournalRow
		for n := range 250 {
			batch = append(batch, discarded(n, n))
			letters = append(letters, next(n, 1))
		}
		record(t, w, batch...)
		var total atomic.Int64
		var both sync.WaitGroup
		for i := range 2 {
			a := s.Beside(t)
			both.Go(func() {
				request := fmt.Sprint("request-", i)
				mine, err := a.PromiseRequeues(t.Context(), letters, job.Request{ID: request})
				again, err2 := a.PromiseRequeues(t.Context(), letters, job.Request{ID: request})
				if diff := cmp.Diff(mine, again); err != nil || err2 != nil || len(mine) != len(letters) || diff != "" {
					t.Errorf("%d answers, %v, %v; the repeat says otherwise:\n%s", len(mine), err, err2, diff)
				}
				held := 0
				for _, m := range mine {
					if m {
						held++
					}
				}
				total.Add(int64(held))
				if n := s.Count(t, "failed_jobs WHERE requeue_request_id = ?", request); n != held {
					t.Errorf("%s was promised %d letters and holds %d", request, held, n)
				}
			})
		}
		both.Wait()
		if total.Load() != 250 {
			t.Errorf("%d promises for 250 letters", total.Load())
		}
		if got := promised(t, s.Archive); len(got) != 250 {
			t.Errorf("%d lives were promised, want 250", len(got))
		}
		// The same letter twice, a letter that another request has, and a letter that does not exist.
		record(t, w, discarded(300, 1))
		some := []job.JournalRow{next(300, 1), next(300, 1), next(1, 1), next(999, 1)}
		mine, err := s.PromiseRequeues(t.Context(), some, job.Request{ID: "request-3"})
		if diff := cmp.Diff([]bool{true, true, false, false}, mine); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
		for _, request := range []string{"", strings.Repeat("x", 65)} {
			if _, err := s.PromiseRequeues(t.Context(), some, job.Request{ID: request}); err == nil {
				t.Errorf("request %q", request)
			}
		}
		if mine, err := s.PromiseRequeues(t.Context(), nil, job.Request{ID: "request-4"}); len(mine) != 0 || err != nil {
			t.Errorf("no letters: %v, %v", mine, err)
		}
	})
}

// DeadLetter returns an error for a letter whose options cannot be read, not a letter without options.
func TestUnreadableOptions(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		record(t, w, discarded(1, 1))
		execute(t, s.DB, "UPDATE failed_jobs SET options = '{' WHERE job_id = ?", string(id(1)))
		if _, err := s.DeadLetter(t.Context(), id(1)); err == nil {
			t.Error("no error")
		}
	})
}

// A letter whose options cannot be read is listed without them, and the letters behind it are listed too.
func TestUnreadableOptionsHoldNobodyUp(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		record(t, w, discarded(1, 1), discarded(2, 2), discarded(3, 3))
		execute(t, s.DB, "UPDATE failed_jobs SET options = '{' WHERE job_id = ?", string(id(2)))
		var all []job.DeadLetter
		if err := s.EachDead(t.Context(), job.Filter{},
			func(d job.DeadLetter) error { all = append(all, d); return nil }); err != nil {
			t.Fatal(err)
		}
		if got := names(all); got != "3 2 1 " {
			t.Errorf("exported: %s", got)
		}
		if got, _, err := s.Dead(t.Context(), job.Filter{}, "", 10); err != nil || names(got) != "3 2 1 " {
			t.Errorf("listed: %s, %v", names(got), err)
		}
	})
}

// AdoptPromises writes the rows that an older version did not write: for promises that were not yet carried out,
// and for generations that a Redis has. It writes none for a generation that has ended or has a row, nor for a
// letter without a request, also when it is called again.
func TestAdoptPromises(t *testing.T) {
	t.Attr("proves", "F19 F60")
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		for n := 1; n <= 6; n++ {
			record(t, w, discarded(n, n))
		}
		old := "UPDATE failed_jobs SET requeue_requested_at = discarded_at, requeue_request_id = 'r'," +
			" requeued_at = %s, requeued_run_id = %s WHERE job_id IN (?, ?)"
		execute(t, s.DB, fmt.Sprintf(old, "NULL", "NULL"), string(id(1)), string(id(6)))
		execute(t, s.DB, fmt.Sprintf(old, "discarded_at", "'run-1'"), string(id(2)), string(id(3)))
		if !promise(t, s.Archive, 4, 1, "request-4") {
			t.Fatal("not promised")
		}
		again := completed(3) // its new generation has ended
		again.Generation, again.Attempt = 2, 2
		record(t, w, again)
		execute(t, s.DB, "UPDATE failed_jobs SET options = '{' WHERE job_id = ?", string(id(6)))
		for _, want := range []int{2, 0} {
			n, err := s.AdoptPromises(t.Context(), func(job.Tier) int { return 7 })
			if err != nil || n != want {
				t.Errorf("%d rows, %v; want %d", n, err, want)
			}
		}
		rows := promised(t, s.Archive)
		var got []string
		for _, r := range rows {
			got = append(got, fmt.Sprintf("%s %d %q", r.ID, r.Generation, r.Incarnation))
		}
		want := []string{string(id(1)) + ` 2 ""`, string(id(2)) + ` 2 "run-1"`, string(id(4)) + ` 2 ""`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if rows[0].Priority != 7 || string(rows[0].Payload) != string(discarded(1, 1).Payload) {
			t.Errorf("%+v", rows[0])
		}
	})
}
