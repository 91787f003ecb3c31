package archive_test

import (
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

func promise(t *testing.T, a *archive.Archive, n, generation int, request string) bool {
	t.Helper()
	mine, err := a.PromiseRequeue(t.Context(), id(n), generation, job.Request{ID: request})
	if err != nil {
		t.Fatal(err)
	}
	return mine
}

func promised(t *testing.T, a *archive.Archive, olderThan time.Duration, limit int) []job.DeadLetter {
	t.Helper()
	letters, err := a.Promised(t.Context(), olderThan, limit)
	if err != nil {
		t.Fatal(err)
	}
	return letters
}

// The life of a promise: made once, found until it is kept, and the letter stays for the record.
func TestRequeue(t *testing.T) {
	t.Attr("proves", "S0-P2 S1-P3")
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		a := s.Archive
		w := start(t, a, &redis{}, archive.WriterOptions{})
		o := failed(1)
		o.CallbackURL = "https://example.com/done"
		record(t, w, o, failed(2), completed(3))

		for _, which := range []string{"the promise", "its repeat"} {
			if !promise(t, a, 1, 1, "request-1") {
				t.Error(which, "is refused")
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

		letters := promised(t, a, 0, 10)
		if len(letters) != 1 || letters[0].RequestID != "request-1" || time.Since(letters[0].RequestedAt) > time.Minute || letters[0].Open() {
			t.Fatalf("promised: %+v", letters)
		}
		o.Worker = ""
		if diff := cmp.Diff(o.Job, letters[0].Job); diff != "" {
			t.Errorf("it is not whole (-want +got):\n%s", diff)
		}
		if young := promised(t, a, time.Minute, 10); len(young) != 0 {
			t.Errorf("%d promises are older than a minute", len(young))
		}
		execute(t, s.DB, "UPDATE failed_jobs SET requeue_requested_at = '2025-01-01 00:00:00.000000' WHERE requeue_request_id IS NOT NULL")
		if old := promised(t, a, time.Minute, 10); len(old) != 1 {
			t.Errorf("%d promises are older than a minute, want 1", len(old))
		}

		for _, run := range []string{"run-1", "run-2"} {
			if err := a.Requeued(t.Context(), letters, run); err != nil {
				t.Fatal(err)
			}
		}
		row := s.Row(t, "failed_jobs WHERE job_id = ?", string(id(1)))
		if row["requeued_run_id"] != "run-1" || row["requeued_at"] == nil {
			t.Errorf("%v %v, want the first run", row["requeued_run_id"], row["requeued_at"])
		}
		if left := promised(t, a, 0, 10); len(left) != 0 {
			t.Errorf("kept, and still promised: %v", left)
		}
		if !promise(t, a, 1, 1, "request-1") || promise(t, a, 1, 1, "request-3") {
			t.Error("after it was kept: the same request's promise stands, another gets none")
		}
		if n := s.Count(t, "failed_jobs"); n != 2 {
			t.Errorf("%d dead letters, want both kept", n)
		}
		if got, err := a.DeadLetter(t.Context(), id(1)); err != nil || got.Open() || got.RequeuedAt.IsZero() {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// The next life may end before Requeued is called, and without any promise.
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
		letters := []job.DeadLetter{{Job: failed(1).Job}}
		if err := s.Requeued(t.Context(), letters, "run-1"); err != nil {
			t.Fatal(err)
		}
		check(t, "failed_jobs", s.Row(t, "failed_jobs WHERE generation = 1"), before)
		if got, err := s.DeadLetter(t.Context(), id(1)); err != nil || got.Generation != 2 || !got.Open() {
			t.Errorf("%+v, %v, want the second life's letter", got, err)
		}
	})
}

// Two operators at once: each letter goes to one of them.
func TestPromisesRace(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		var batch []job.Outcome
		var letters []job.DeadLetter
		for n := range 250 {
			batch = append(batch, discarded(n, n))
			letters = append(letters, job.DeadLetter{Job: batch[n].Job})
		}
		record(t, w, batch...)
		var total atomic.Int64
		var both sync.WaitGroup
		for i := range 2 {
			a := archivetest.Open(t, s.Options)
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
		if got := promised(t, s.Archive, 0, 100); len(got) != 100 {
			t.Errorf("%d promised letters at once, want 100", len(got))
		}
		if err := s.Requeued(t.Context(), letters[:249], "run-1"); err != nil {
			t.Fatal(err)
		}
		if got := names(promised(t, s.Archive, 0, 1000)); got != "249 " {
			t.Errorf("left: %s", got)
		}
		// The same letter twice, one that another request holds, and one that nobody has.
		record(t, w, discarded(300, 1))
		some := []job.DeadLetter{{Job: failed(300).Job}, {Job: failed(300).Job}, {Job: failed(1).Job}, {Job: failed(999).Job}}
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

// What SQL says in options and nobody can read stops neither the other promises nor hides itself.
func TestUnreadableOptions(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		record(t, w, discarded(1, 1), discarded(2, 2))
		execute(t, s.DB, "UPDATE failed_jobs SET options = '{' WHERE job_id = ?", string(id(1)))
		promise(t, s.Archive, 1, 1, "request-1")
		promise(t, s.Archive, 2, 1, "request-1")
		if got := names(promised(t, s.Archive, 0, 10)); got != "2 " {
			t.Errorf("promised: %s", got)
		}
		if _, err := s.DeadLetter(t.Context(), id(1)); err == nil {
			t.Error("no error")
		}
	})
}

// A letter whose options cannot be read is listed without them: those behind it are reached.
func TestUnreadableOptionsHoldNobodyUp(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		record(t, w, discarded(1, 1), discarded(2, 2), discarded(3, 3))
		execute(t, s.DB, "UPDATE failed_jobs SET options = '{' WHERE job_id = ?", string(id(2)))
		var all []job.DeadLetter
		if err := s.EachDead(t.Context(), job.Filter{}, func(d job.DeadLetter) error { all = append(all, d); return nil }); err != nil {
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

// What a Redis took with it is promised again: requeues marked under another run without an outcome, and nothing else.
func TestReopen(t *testing.T) {
	t.Attr("proves", "F19")
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		record(t, w, discarded(1, 1), discarded(2, 2), discarded(3, 3), discarded(4, 4))
		for n := 1; n <= 3; n++ {
			if !promise(t, s.Archive, n, 1, "request") {
				t.Fatal(n)
			}
			run := map[int]string{1: "run-1", 2: "run-1", 3: "run-2"}[n]
			if err := s.Requeued(t.Context(), []job.DeadLetter{{Job: job.Job{ID: id(n), Generation: 1}}}, run); err != nil {
				t.Fatal(err)
			}
		}
		again := completed(2) // its new life has ended
		again.Generation, again.Attempt = 2, 2
		record(t, w, again)
		for _, want := range []string{"1 ", "1 "} { // asked twice it is the same
			if _, err := s.Reopen(t.Context(), []string{"run-2", "run-5"}); err != nil {
				t.Fatal(err)
			}
			if got := names(promised(t, s.Archive, 0, 10)); got != want {
				t.Errorf("promised again: %s, want %s", got, want)
			}
		}
		if n := s.Count(t, "failed_jobs WHERE requeued_run_id IS NOT NULL"); n != 1 {
			t.Errorf("%d letters name a run; only the requeue under way does", n)
		}
	})
}
