package archive_test

import (
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// A dismissed letter is in no list of dead letters and in no count. Its job stays FAILED, and other letters stay.
func TestDismiss(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		a, ctx := s.Archive, t.Context()
		w := start(t, a, &redis{}, archive.WriterOptions{})
		record(t, w, failed(1), failed(2), completed(3))
		dismiss := func(n int, reason string, want bool) {
			t.Helper()
			if done, err := a.Dismiss(ctx, failed(n).ID, reason); done != want || err != nil {
				t.Fatalf("dismiss %d: %v, %v", n, done, err)
			}
		}
		left := func(f job.Filter, want ...job.ID) {
			t.Helper()
			page, _, err := a.Dead(ctx, f, "", 10)
			numbered, total, err2 := a.DeadPage(ctx, f, 0, 10)
			n, err3 := a.CountDead(ctx, f)
			var each []job.ID
			err4 := a.EachDead(ctx, f, func(d job.DeadLetter) error { each = append(each, d.ID); return nil })
			if err != nil || err2 != nil || err3 != nil || err4 != nil || total != int64(len(want)) || n != total ||
				len(page) != len(want) || len(numbered) != len(want) || len(each) != len(want) {
				t.Fatalf("%d, %d, %d, %d and %d letters, want %d; %v %v %v %v", len(page), len(numbered), total, n, len(each),
					len(want), err, err2, err3, err4)
			}
			for i := range want {
				if page[i].ID != want[i] || numbered[i].ID != want[i] || each[i] != want[i] {
					t.Errorf("letter %d is %s, %s and %s, want %s", i, page[i].ID, numbered[i].ID, each[i], want[i])
				}
			}
		}
		dismiss(1, "dealt with", true)
		dismiss(1, "again", false)
		dismiss(3, "", false) // completed
		dismiss(4, "", false) // unknown
		one, two := failed(1).Job, failed(2).Job
		for _, f := range []job.Filter{{}, {Tier: two.Tier}, {Type: two.Type}, {Cause: two.Cause}, {Status: job.Failed}} {
			left(f, two.ID)
		}
		if j, err := a.Find(ctx, one.ID); err != nil || j.Status != job.Failed || j.LastError != one.LastError {
			t.Errorf("%+v, %v", j, err)
		}
		if history, err := a.Attempts(ctx, one.ID); err != nil || len(history) != len(failed(1).Attempts) {
			t.Errorf("%+v, %v", history, err)
		}
		d, err := a.DeadLetter(ctx, one.ID)
		if err != nil || !d.Open() || d.DismissedAt.IsZero() {
			t.Errorf("%+v, %v", d, err)
		}
		if got := reasons(t, a, 1); got != "dismiss 1 dealt with FAILED. " {
			t.Error(got)
		}

		// A requeue of the dismissed letter ends the dismissal. The next one, when it is dead too, is on the list.
		if !promise(t, a, 1, 1, "r") {
			t.Fatal("not promised")
		}
		if d, err = a.DeadLetter(ctx, one.ID); err != nil || d.Open() || !d.DismissedAt.IsZero() {
			t.Errorf("%+v, %v", d, err)
		}
		dismiss(1, "", false) // it has a promise
		again := failed(1)
		again.Generation, again.Attempt = 2, again.Attempt+1
		record(t, w, again)
		left(job.Filter{}, two.ID, one.ID)
		dismiss(1, "", true)
		left(job.Filter{}, two.ID)
	})
}

// A row keeps that its job was killed, and why; only in the generation that was killed.
func TestKilling(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		a, ctx := s.Archive, t.Context()
		w := start(t, a, &redis{}, archive.WriterOptions{})
		record(t, w, failed(1))
		if !promise(t, a, 1, 1, "r") {
			t.Fatal("not promised")
		}
		id := failed(1).ID
		for generation, want := range map[int]string{1: "", 2: "no use"} {
			k := job.Killing{ID: id, Generation: generation, Reason: "no use"}
			if err := a.Killing(ctx, k, "run-1"); err != nil {
				t.Fatal(err)
			}
			if generation != 2 {
				continue
			}
			rows, err := a.LivingOf(ctx, []job.ID{id})
			if err != nil || len(rows) != 1 || rows[0].KillReason != want || !rows[0].CancelRequested ||
				rows[0].Incarnation != "run-1" {
				t.Errorf("%+v, %v", rows, err)
			}
		}
		if j, err := a.Journaled(ctx, id); err != nil || j.Status != job.Failed || j.Cause != job.Killed ||
			j.LastError != "no use" || j.CancelRequested {
			t.Errorf("%+v, %v", j, err)
		}
	})
}
