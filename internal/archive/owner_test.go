package archive_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// One owner has the oldest jobs among ten thousand of others. The owner's list has only these, and they are on its
// first page, although a page reads at most five thousand rows.
func TestListsOfOneOwner(t *testing.T) {
	t.Attr("proves", "A01")
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		own, none, others, quoted := "k234567k234567ab", "", "key-1", "' OR 1=1 --"
		var batch []job.Outcome
		for n := range 10_000 {
			o := completed(n + 1)
			if n%2 == 1 {
				o = discarded(n+1, n)
			}
			switch n {
			case 0, 1, 3, 5:
				o.Owner = own
			case 2, 7:
				o.Owner = none
			}
			if n == 5 {
				o.Type, o.Cause = "RARE", job.HandlerError
			}
			batch = append(batch, o)
		}
		record(t, w, batch...)
		again := completed(4) // the owner's too, of a new generation
		again.Generation, again.Owner = 2, own
		record(t, w, again)

		for _, tc := range []struct {
			f         job.Filter
			all, dead string
		}{
			{job.Filter{Owner: &own}, "6 4 2 1 ", "6 2 "},
			{job.Filter{Owner: &none}, "8 3 ", "8 "},
			{job.Filter{Owner: &own, Type: "RARE"}, "6 ", "6 "},
			{job.Filter{Owner: &own, Status: job.Failed}, "6 2 ", "6 2 "},
			{job.Filter{Owner: &own, Cause: job.HandlerError}, "6 ", "6 "},
			{job.Filter{Owner: &own, Tier: job.Paid}, "4 1 ", ""},
			{job.Filter{Owner: &own, Status: job.Completed}, "4 1 ", ""},
			{job.Filter{Owner: &none, Type: "RARE"}, "", ""},
			{job.Filter{Owner: &quoted}, "", ""},
		} {
			items, next, err := a.List(t.Context(), tc.f, "", 10)
			if got := numbersOf(items); got != tc.all || next != "" || err != nil {
				t.Errorf("%+v: %q, next %q, %v; want %q at once", tc.f, got, next, err, tc.all)
			}
			letters, next, err := a.Dead(t.Context(), tc.f, "", 10)
			if got := names(letters); got != tc.dead || next != "" || err != nil {
				t.Errorf("%+v, dead: %q, next %q, %v; want %q at once", tc.f, got, next, err, tc.dead)
			}
			letters, total, err := a.DeadPage(t.Context(), tc.f, 0, 10)
			if got := names(letters); got != tc.dead || int(total)*2 != len(tc.dead) || err != nil {
				t.Errorf("%+v, by number: %q of %d, %v; want %q", tc.f, got, total, err, tc.dead)
			}
			each := ""
			err = a.EachDead(t.Context(), tc.f, func(d job.DeadLetter) error { each += names([]job.DeadLetter{d}); return nil })
			if each != tc.dead || err != nil {
				t.Errorf("%+v, each: %q, %v; want %q", tc.f, each, err, tc.dead)
			}
		}
		for page, want := range map[int]string{0: "6 ", 1: "2 ", 2: ""} {
			if letters, total, err := a.DeadPage(t.Context(), job.Filter{Owner: &own}, page, 1); names(letters) != want ||
				total != 2 || err != nil {
				t.Errorf("page %d: %q of %d, %v", page, names(letters), total, err)
			}
		}
		if n, err := a.CountDead(t.Context(), job.Filter{Owner: &others}); n != 4996 || err != nil {
			t.Errorf("%d of others', %v", n, err)
		}
	})
}

func numbersOf(items []job.Job) (all string) {
	for _, j := range items {
		var n int
		if _, err := fmt.Sscanf(string(j.ID[24:]), "%x", &n); err == nil {
			all += fmt.Sprint(n>>8, " ")
		}
	}
	return all
}

// A tally of one owner counts only the owner's jobs, times and generations.
func TestTallyOfOneOwner(t *testing.T) {
	t.Attr("proves", "A01")
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		own, none := "k234567k234567ab", ""
		batch := []job.Outcome{completed(1), completed(2), failed(3), failed(4), cancelled(5), cancelled(6), completed(7),
			failed(8)}
		for _, n := range []int{1, 3, 5, 7} {
			batch[n].Owner = own
		}
		batch[6].Owner = none
		batch[1].EndedAt = batch[1].StartedAt.Add(7 * time.Second)
		batch[7].FirstTriedAt = batch[7].ArrivedAt.Add(3 * time.Second)
		record(t, w, batch...)
		again := completed(4)
		again.Generation, again.Owner, again.Tier = 2, own, job.Public
		record(t, w, again)
		want := []job.Tally{
			{Tier: job.Paid, Type: "SIMULATION", Completed: 1, Cancelled: 1, MeanRun: 7 * time.Second, MaxRun: 7 * time.Second,
				MeanWait: time.Second},
			{Tier: job.Public, Type: "SIMULATION", Completed: 1, Failed: 1, MeanRun: time.Second, MaxRun: time.Second,
				MeanWait: 2 * time.Second},
		}
		got, err := a.Tally(t.Context(), &own, time.Time{}, time.Time{})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if got, err := a.Tally(t.Context(), &none, time.Time{}, time.Time{}); err != nil || len(got) != 1 ||
			got[0].Completed != 1 {
			t.Errorf("without a key: %+v, %v", got, err)
		}
		if got, err := a.Tally(t.Context(), nil, time.Time{}, time.Time{}); err != nil || len(got) != 2 ||
			got[0].Completed != 3 {
			t.Errorf("everybody's: %+v, %v", got, err)
		}
	})
}
