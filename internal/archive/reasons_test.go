package archive_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

func reasons(t *testing.T, a *archive.Archive, n int) string {
	t.Helper()
	all, err := a.Reasons(t.Context(), id(n))
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, r := range all {
		if age := time.Since(r.At); age > time.Hour || age < -time.Hour {
			t.Errorf("%+v", r)
		}
		text += fmt.Sprintf("%s %d %s %s. ", r.Action, r.Generation, r.Text, r.Outcome)
	}
	return text
}

// The reason of a requeue is written once, with the promise. The reason of a cancel is a row of its own, written
// before the cancel: the first one stays unless over is set.
func TestReasons(t *testing.T) {
	t.Attr("proves", "S3-I16")
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		long := strings.Repeat("\u20ac", job.MaxReason)
		cancelOf := func(n, generation int, reason string, over bool) {
			t.Helper()
			if err := a.KeepCancelReason(t.Context(), id(n), generation, reason, over); err != nil {
				t.Fatal(err)
			}
		}
		cancelOf(2, 2, "asked, and not carried out", false)
		cancelOf(2, 2, long, true)
		cancelOf(2, 2, "a repeat", false)
		cancelOf(3, 1, "bystander", false)
		if got := reasons(t, a, 2); got != "cancel 2 "+long+" . " {
			t.Errorf("before the outcome: %.100s", got)
		}
		second := cancelled(2)
		second.Generation = 2
		record(t, w, failed(1), failed(2), failed(4), failed(5))
		for range 2 {
			mine, err := a.PromiseRequeues(
				t.Context(),
				[]job.JournalRow{next(2, 1)},
				job.Request{ID: "request-1", Reason: "the bank is back"},
			)
			if err != nil || !mine[0] {
				t.Fatal(mine, err)
			}
		}
		other := job.Request{ID: "request-2", Reason: "mine"}
		mine, err := a.PromiseRequeues(t.Context(), []job.JournalRow{next(2, 1)}, other)
		if err != nil || mine[0] {
			t.Fatal(mine, err)
		}
		record(t, w, second)
		if got := reasons(t, a, 2); got != "requeue 1 the bank is back FAILED. cancel 2 "+long+" CANCELLED. " {
			t.Errorf("%.200s", got)
		}
		many := []job.JournalRow{next(4, 1), next(5, 1)}
		if _, err := a.PromiseRequeues(t.Context(), many, job.Request{ID: "request-3", Reason: "all of them"}); err != nil {
			t.Fatal(err)
		}
		if !promise(t, a, 1, 1, "request-4") {
			t.Fatal("not promised")
		}
		for n, want := range map[int]string{4: "requeue 1 all of them FAILED. ", 5: "requeue 1 all of them FAILED. ", 1: "",
			3: "cancel 1 bystander . ", 9: ""} {
			if got := reasons(t, a, n); got != want {
				t.Errorf("job %d: %q, want %q", n, got, want)
			}
		}
	})
}
