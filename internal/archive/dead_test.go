package archive_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// discarded returns a dead letter that was discarded some seconds after its arrival.
func discarded(n, seconds int) job.Outcome {
	o := failed(n)
	o.EndedAt, o.Attempts = arrival.Add(time.Duration(seconds)*time.Second), nil
	return o
}

func names(letters []job.DeadLetter) (all string) {
	for _, l := range letters {
		for n := range 10_000 {
			if id(n) == l.ID {
				all += fmt.Sprint(n, " ")
				break
			}
		}
	}
	return all
}

// dead reads a whole list of dead letters in pages of size.
func dead(t *testing.T, a *archive.Archive, f job.Filter, size int) (all []job.DeadLetter) {
	t.Helper()
	cursor := ""
	for range 1000 {
		letters, next, err := a.Dead(t.Context(), f, cursor, size)
		if err != nil || len(letters) > size {
			t.Fatalf("%d letters, %v", len(letters), err)
		}
		all = append(all, letters...)
		if next == "" {
			return all
		}
		cursor = next
	}
	t.Fatal("the list has no end")
	return nil
}

// A dead letter has everything that its inspection and its requeue need, for both causes that the watches report.
func TestDeadLetterIsWhole(t *testing.T) {
	t.Attr("proves", "T-7 S0-P2 S1-P3 S4-T1 S4-T2")
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		for n, cause := range []job.Cause{job.HeartbeatStopped, job.MaxTimeExceeded} {
			o := failed(n)
			o.Status, o.Cause = job.NeedDiscard, cause
			o.Options = job.Options{CallbackURL: "https://example.com/done?a=1&b=<2>", SpanID: "00f067aa0ba902b7"}
			record(t, w, o)
			want := job.DeadLetter{Job: o.Job}
			want.Status, want.Worker = job.Failed, "" // the attempts have the worker
			got, err := a.DeadLetter(t.Context(), id(n))
			if diff := cmp.Diff(want, got); diff != "" || err != nil || !got.Open() {
				t.Errorf("%s: %v, open %v (-want +got):\n%s", cause, err, got.Open(), diff)
			}
			want.Payload = nil
			listed := dead(t, a, job.Filter{Cause: cause}, 10)
			if diff := cmp.Diff([]job.DeadLetter{want}, listed); diff != "" {
				t.Errorf("%s, listed (-want +got):\n%s", cause, diff)
			}
		}
		record(t, w, completed(2), cancelled(3), failed(4))
		if got, err := a.DeadLetter(t.Context(), id(4)); err != nil || got.Options != (job.Options{}) {
			t.Errorf("without options: %+v, %v", got.Options, err)
		}
		again := completed(4)
		again.Generation = 2
		record(t, w, again)
		for n, want := range map[int]error{2: job.ErrWrongState, 3: job.ErrWrongState, 4: job.ErrWrongState,
			5: job.ErrNotFound} {
			if _, err := a.DeadLetter(t.Context(), id(n)); !errors.Is(err, want) {
				t.Errorf("job %d: %v, want %v", n, err, want)
			}
		}
	})
}

func TestDeadLists(t *testing.T) {
	t.Attr("proves", "S0-E3")
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		// 5, 6 and 7 were discarded in the same millisecond; 8 is no dead letter; 9 was requeued and has ended again.
		batch := []job.Outcome{
			discarded(1, 10), discarded(2, 40), discarded(3, 20), discarded(4, 50), discarded(5, 30), discarded(6, 30),
			discarded(7, 30), completed(8), discarded(9, 35),
		}
		batch[1].Type, batch[2].Tier, batch[5].Cause = "SEND_EMAIL", job.Paid, job.HandlerError
		record(t, w, batch...)
		again := completed(9)
		again.Generation = 2
		record(t, w, again)

		second := func(s int) time.Time { return arrival.Add(time.Duration(s) * time.Second) }
		for _, tc := range []struct {
			f    job.Filter
			want string
		}{
			{job.Filter{}, "4 2 7 6 5 3 1 "},
			{job.Filter{Status: job.Failed, Tier: job.Public}, "4 2 7 6 5 1 "},
			{job.Filter{Status: job.Completed}, ""},
			{job.Filter{Cause: job.HandlerError}, "6 "},
			{job.Filter{Type: "SEND_EMAIL"}, "2 "},
			{job.Filter{From: second(30)}, "4 2 7 6 5 "},
			{job.Filter{To: second(30)}, "3 1 "},
			{job.Filter{From: second(20), To: second(50)}, "2 7 6 5 3 "},
			{job.Filter{From: second(20), To: second(50), Tier: job.Paid}, "3 "},
			{job.Filter{From: second(51)}, ""},
		} {
			for _, size := range []int{1, 2, 3, 100} {
				if got := names(dead(t, a, tc.f, size)); got != tc.want {
					t.Errorf("%+v in pages of %d: %q, want %q", tc.f, size, got, tc.want)
				}
			}
			if n, err := a.CountDead(t.Context(), tc.f); err != nil || int(n)*2 != len(tc.want) {
				t.Errorf("%+v: counted %d, %v, want %q", tc.f, n, err, tc.want)
			}
		}
		for page, want := range map[int]string{0: "4 2 7 ", 1: "6 5 3 ", 2: "1 ", 3: "", 1 << 62: "", -1: "4 2 7 "} {
			letters, total, err := a.DeadPage(t.Context(), job.Filter{}, page, 3)
			if got := names(letters); got != want || total != 7 || err != nil {
				t.Errorf("page %d: %q of %d, %v, want %q of 7", page, got, total, err, want)
			}
		}
	})
}

// Two generations of a job that are recorded in the wrong order leave two open letters, perhaps of the same
// millisecond. No page repeats or misses one of them.
func TestDeadListsBothLives(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		second := discarded(1, 1)
		second.Generation = 2
		record(t, w, second)
		record(t, w, discarded(1, 1), discarded(2, 1), discarded(3, 0))
		for _, size := range []int{1, 2, 3} {
			if got := names(dead(t, a, job.Filter{}, size)); got != "2 1 1 3 " {
				t.Errorf("in pages of %d: %s", size, got)
			}
		}
	})
}

func TestEachDead(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		batch := make([]job.Outcome, 250)
		for i := range batch {
			batch[i] = discarded(i+1, i/7)
			batch[i].CallbackURL = "https://example.com"
		}
		record(t, w, batch...)
		var seen []job.ID
		err := a.EachDead(t.Context(), job.Filter{To: arrival.Add(30 * time.Second)}, func(l job.DeadLetter) error {
			if string(l.Payload) != `{"steps":[]}` || l.CallbackURL != "https://example.com" {
				t.Errorf("not whole: %+v", l)
			}
			seen = append(seen, l.ID)
			return nil
		})
		if err != nil || len(seen) != 210 || len(slices.Compact(slices.Clone(seen))) != 210 || seen[0] != id(210) ||
			seen[209] != id(1) {
			t.Errorf("%d letters, %v", len(seen), err)
		}
		enough, n := errors.New("enough"), 0
		err = a.EachDead(t.Context(), job.Filter{}, func(job.DeadLetter) error {
			if n++; n == 3 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || n != 3 {
			t.Errorf("%v after %d", err, n)
		}
	})
}

// A page reads at most 5,000 rows, even for a filter that few letters pass.
func TestDeadLooksAtBoundedRows(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		batch := make([]job.Outcome, 5003)
		for i := range batch {
			batch[i] = discarded(i+1, i)
		}
		batch[1].Type, batch[3].Type = "RARE", "RARE" // the 5,002nd and the 5,000th from the newest
		batch[3].EndedAt = batch[2].EndedAt           // discarded at the same time as the 5,001st
		record(t, w, batch...)
		f := job.Filter{Type: "RARE"}
		letters, next, err := a.Dead(t.Context(), f, "", 10)
		if err != nil || names(letters) != "4 " || next == "" {
			t.Errorf("the first page: %q, next %q, %v", names(letters), next, err)
		}
		letters, next, err = a.Dead(t.Context(), f, next, 10)
		if err != nil || names(letters) != "2 " || next != "" {
			t.Errorf("the second: %q, next %q, %v", names(letters), next, err)
		}
	})
}

// The dead letters of a queue are counted by its whole name, those of main by none.
func TestCountDeadIn(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		var batch []job.Outcome
		for n, queue := range []string{"", "films", "Films", "films.big", "films", "a_b", "axb"} {
			one := discarded(n+1, n)
			one.Queue = queue
			batch = append(batch, one)
		}
		record(t, w, batch...)
		for queue, want := range map[string]int64{"": 6, "films": 2, "Films": 1, "films.big": 1, "a_b": 1, "big": 0, "%": 0} {
			if n, err := a.CountDeadIn(t.Context(), queue); n != want || err != nil {
				t.Errorf("%q: %d, %v, want %d", queue, n, err, want)
			}
		}
	})
}
