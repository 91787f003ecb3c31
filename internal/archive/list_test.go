package archive_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// listed reads a whole list in pages of size and returns the ids.
func listed(t *testing.T, a *archive.Archive, f job.Filter, size int) (ids []job.ID) {
	t.Helper()
	cursor := ""
	for range 10_000 {
		items, next, err := a.List(t.Context(), f, cursor, size)
		if err != nil {
			t.Fatal(err)
		}
		if len(items) > size {
			t.Fatalf("a page of %d, want at most %d", len(items), size)
		}
		for _, j := range items {
			ids = append(ids, j.ID)
		}
		if next == "" {
			return ids
		}
		cursor = next
	}
	t.Fatal("the list has no end")
	return nil
}

// A row of a list has the same fields as the answer of Find, except the result.
func TestListRows(t *testing.T) {
	t.Attr("proves", "S0-T1 S1-T1")
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		record(t, w, completed(1), failed(2), cancelled(3))
		items, next, err := a.List(t.Context(), job.Filter{}, "", 10)
		if err != nil || next != "" || len(items) != 3 {
			t.Fatalf("%d items, next %q, %v", len(items), next, err)
		}
		for n, got := range items {
			want, err := a.Find(t.Context(), id(3-n))
			want.Result = nil
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s: %v (-found +listed):\n%s", want.ID, err, diff)
			}
		}
		for n, worker := range map[int]string{2: "host:3", 1: "host:2", 0: ""} {
			if items[n].Worker != worker {
				t.Errorf("%s: worker %q, want %q", items[n].Status, items[n].Worker, worker)
			}
		}
	})
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		batch := []job.Outcome{completed(1), failed(2), cancelled(3), completed(4), failed(5), failed(6), failed(7)}
		batch[3].Tier, batch[3].Type = job.Public, "SEND_EMAIL"
		batch[4].Cause, batch[4].Tier = job.HandlerError, job.Unpaid
		batch[5].Type = "SEND_EMAIL"
		batch[1].Queue, batch[2].Queue, batch[3].Queue = "films", "films", "films"
		record(t, w, batch...)
		second, third := completed(6), failed(7) // 6 and 7 were requeued
		second.Generation, second.Type, second.Tier = 2, "SEND_EMAIL", job.Public
		third.Generation, third.Cause = 2, job.PermanentError
		record(t, w, second, third)

		for _, tc := range []struct {
			f    job.Filter
			want string
		}{
			{job.Filter{}, "7 6 5 4 3 2 1"},
			{job.Filter{Status: job.Completed}, "6 4 1"},
			{job.Filter{Status: job.Failed}, "7 5 2"},
			{job.Filter{Status: job.NeedDiscard}, "7 5 2"},
			{job.Filter{Status: job.Cancelled}, "3"},
			{job.Filter{Status: job.Pending}, ""},
			{job.Filter{Tier: job.Public}, "7 6 4 2"},
			{job.Filter{Type: "SEND_EMAIL"}, "6 4"},
			{job.Filter{Type: "send_email"}, ""},
			{job.Filter{Cause: job.HeartbeatStopped}, "2"},
			{job.Filter{Cause: job.HandlerError, Status: job.Failed}, "5"},
			{job.Filter{Cause: job.HandlerError, Status: job.Completed}, ""},
			{job.Filter{Status: job.Failed, Tier: job.Public, Type: "SIMULATION", Cause: job.PermanentError}, "7"},
			{job.Filter{Status: job.Completed, Tier: job.Paid}, "1"},
			{job.Filter{Tier: "' OR 1=1 --"}, ""},
			{job.Filter{Queue: "films"}, "4 3 2"},
			{job.Filter{Queue: "films", Status: job.Completed}, "4"},
			{job.Filter{Queue: "films", Status: job.Failed}, "2"},
			{job.Filter{Queue: "films", Cause: job.HeartbeatStopped}, "2"},
			{job.Filter{Queue: job.MainQueue}, "7 6 5 1"},
			{job.Filter{Queue: job.MainQueue, Status: job.Failed}, "7 5"},
			{job.Filter{Queue: "Films"}, ""},
		} {
			for _, size := range []int{1, 2, 100} {
				got := ""
				for _, found := range listed(t, a, tc.f, size) {
					for n := range 8 {
						if id(n) == found {
							got += fmt.Sprint(n, " ")
						}
					}
				}
				if want := tc.want; got != want && got != want+" " {
					t.Errorf("%+v in pages of %d: %q, want %q", tc.f, size, got, want)
				}
			}
		}
	})
}

// A page reads at most 5,000 rows, even for a filter that few jobs pass.
func TestListLooksAtBoundedRows(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		batch := many(5001)
		batch[0].Type = "RARE"
		record(t, w, batch...)
		f := job.Filter{Type: "RARE"}
		items, next, err := a.List(t.Context(), f, "", 10)
		if err != nil || len(items) != 0 || next != string(id(2)) {
			t.Errorf("the first page: %d items, next %q, %v; want none and the 5,000th id", len(items), next, err)
		}
		items, next, err = a.List(t.Context(), f, next, 10)
		if err != nil || len(items) != 1 || items[0].ID != id(1) || next != "" {
			t.Errorf("the second: %d items, next %q, %v", len(items), next, err)
		}
		if items, _, err := a.List(t.Context(), job.Filter{}, "", 1_000_000); len(items) != 1000 || err != nil {
			t.Errorf("a page of a million has %d, %v", len(items), err)
		}
	})
}

func TestCursorsAreStrict(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		for _, cursor := range []string{
			"x", "~", string(id(1)) + " ", "019A0000-0000-7000-8000-000000000100", "1_1_019A0000-0000-7000-8000-000000000100",
			"1", "1_", "_1_", "+1_1_",
			"01_1_", "1_-1_", "1_1_" + string(id(1)) + "_", "1_1_x", "1_99999999999_", "999999999999999999_0_",
			"9999999999999999999999_0_", "1_1_' OR 1=1 --", "\x00",
		} {
			if _, _, err := a.List(t.Context(), job.Filter{}, cursor, 1); !errors.Is(err, job.ErrBadCursor) {
				t.Errorf("List takes %q: %v", cursor, err)
			}
			if _, _, err := a.Dead(t.Context(), job.Filter{}, cursor, 1); !errors.Is(err, job.ErrBadCursor) {
				t.Errorf("Dead takes %q: %v", cursor, err)
			}
		}
		if _, _, err := a.Dead(t.Context(), job.Filter{}, "1764000003123000_1_"+string(id(1)), 1); err != nil {
			t.Error(err)
		}
	})
}

// Each attempt of every generation has one row, written in the transaction of the outcome. The last error is that
// of the latest attempt.
func TestAttempts(t *testing.T) {
	t.Attr("proves", "S1-P3 S4-T3 S3-I16")
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		first, second := failed(1), failed(1)
		second.Generation, second.Attempt, second.LastError = 2, 5, "the second life's"
		second.Attempts = []job.Attempt{
			{
				Number:     4,
				Generation: 2,
				Worker:     "host:4",
				StartedAt:  arrival.Add(time.Hour),
				FinishedAt: arrival.Add(61 * time.Minute),
				Outcome:    "RELEASED",
			},
			{
				Number:     5,
				Generation: 2,
				Worker:     "host:5",
				StartedAt:  arrival.Add(2 * time.Hour),
				Outcome:    "MAX_TIME_EXCEEDED",
				Error:      "the second life's",
			},
		}
		record(t, w, first, second, failed(2), completed(3))
		got, err := a.Attempts(t.Context(), id(1))
		if diff := cmp.Diff(append(first.Attempts, second.Attempts...), got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if got, err := a.Attempts(t.Context(), id(3)); len(got) != 0 || err != nil {
			t.Errorf("a job without any: %v, %v", got, err)
		}
		j, err := a.Find(t.Context(), id(1))
		if err != nil || j.Worker != "host:5" || j.LastError != "the second life's" {
			t.Errorf("%+v, %v", j, err)
		}
	})
}

func TestTally(t *testing.T) {
	at := func(when time.Time, n int) job.ID {
		ms := when.UnixMilli()
		return job.ID(fmt.Sprintf("%08x-%04x-7000-8000-%012x", ms>>16, ms&0xffff, n<<8))
	}
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		day := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		batch := []job.Outcome{completed(1), completed(2), failed(3), cancelled(4), failed(5), completed(6), completed(7)}
		for i, when := range []time.Duration{0, time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, -time.Millisecond,
			24 * time.Hour} {
			batch[i].ID = at(day.Add(when), i)
		}
		batch[1].EndedAt = batch[1].StartedAt.Add(2500 * time.Millisecond)
		batch[2].FirstTriedAt = time.Time{} // never claimed
		again := completed(5)
		again.ID, again.Generation, again.Tier = batch[4].ID, 2, job.Public
		record(t, w, batch...)
		record(t, w, again)

		want := []job.Tally{
			{Tier: job.Paid, Type: "SIMULATION", Completed: 2, Cancelled: 1, MeanRun: 1750 * time.Millisecond,
				MaxRun: 2500 * time.Millisecond, MeanWait: time.Second},
			{Tier: job.Public, Type: "SIMULATION", Completed: 1, Failed: 1, MeanRun: time.Second, MaxRun: time.Second,
				MeanWait: time.Second},
		}
		got, err := a.Tally(t.Context(), nil, day, day.AddDate(0, 0, 1))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		want[0].Completed = 4
		got, err = a.Tally(t.Context(), nil, time.Time{}, time.Time{})
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(job.Tally{}, "MeanRun")); diff != "" || err != nil {
			t.Errorf("all: %v (-want +got):\n%s", err, diff)
		}
		if got, err := a.Tally(t.Context(), nil, day.AddDate(1, 0, 0), time.Time{}); len(got) != 0 || err != nil {
			t.Errorf("a later year: %v, %v", got, err)
		}
	})
}
