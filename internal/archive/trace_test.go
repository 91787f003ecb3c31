package archive_test

import (
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// The jobs of one trace are the oldest among five thousand others: every list finds them at once, although a page
// reads at most five thousand rows. Other filters, and the owner's, also apply within the trace.
func TestListsOfOneTrace(t *testing.T) {
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		own := "k234567k234567ab"
		var batch []job.Outcome
		for n := range 5_100 {
			o := completed(n + 1)
			if n%2 == 1 {
				o = discarded(n+1, n)
			}
			switch n {
			case 0, 1, 3, 5:
				o.TraceID = "trace-of-4.bb_2"
			}
			if n == 1 || n == 2 {
				o.Owner = own
			}
			if n == 5 {
				o.Type, o.Cause = "RARE", job.HandlerError
			}
			batch = append(batch, o)
		}
		record(t, w, batch...)
		again := completed(4) // its dead letter was requeued, and the new generation completed
		again.Generation, again.TraceID = 2, "trace-of-4.bb_2"
		record(t, w, again)

		with := func(f job.Filter) job.Filter {
			f.TraceID = "trace-of-4.bb_2"
			return f
		}
		for _, tc := range []struct {
			f         job.Filter
			all, dead string
		}{
			{with(job.Filter{}), "6 4 2 1 ", "6 2 "},
			{with(job.Filter{Type: "RARE"}), "6 ", "6 "},
			{with(job.Filter{Status: job.Failed}), "6 2 ", "6 2 "},
			{with(job.Filter{Cause: job.HandlerError}), "6 ", "6 "},
			{with(job.Filter{Status: job.Completed}), "4 1 ", ""},
			{with(job.Filter{Owner: &own}), "2 ", "2 "},
			{with(job.Filter{Owner: &own, Status: job.Failed}), "2 ", "2 "},
			{with(job.Filter{Owner: &own, Type: "RARE"}), "", ""},
			{job.Filter{TraceID: "TRACE-OF-4.BB_2"}, "", ""},
			{job.Filter{TraceID: "trace-of-4.bb_"}, "", ""},
			{job.Filter{TraceID: "' OR 1=1 --"}, "", ""},
		} {
			items, next, err := a.List(t.Context(), tc.f, "", 10)
			if got := numbersOf(items); got != tc.all || next != "" || err != nil {
				t.Errorf("%+v: %q, next %q, %v; want %q at once", tc.f, got, next, err, tc.all)
			}
			letters, next, err := a.Dead(t.Context(), tc.f, "", 10)
			if got := names(letters); got != tc.dead || next != "" || err != nil {
				t.Errorf("%+v, dead: %q, next %q, %v; want %q at once", tc.f, got, next, err, tc.dead)
			}
			each := ""
			err = a.EachDead(t.Context(), tc.f, func(d job.DeadLetter) error { each += names([]job.DeadLetter{d}); return nil })
			if each != tc.dead || err != nil {
				t.Errorf("%+v, each: %q, %v; want %q", tc.f, each, err, tc.dead)
			}
			if n, err := a.CountDead(t.Context(), tc.f); int(n)*2 != len(tc.dead) || err != nil {
				t.Errorf("%+v: %d are counted, %v; want %q", tc.f, n, err, tc.dead)
			}
		}
		for cursor, rest := "", "6 4 2 1 "; ; { // one per page
			items, next, err := a.List(t.Context(), with(job.Filter{}), cursor, 1)
			if err != nil || len(items) > 1 || len(items) == 1 && numbersOf(items) != rest[:2] {
				t.Fatalf("%q, %v; want %q", numbersOf(items), err, rest)
			}
			rest = rest[2*len(items):]
			if cursor = next; cursor == "" {
				if rest != "" {
					t.Errorf("the list ends before %q", rest)
				}
				break
			}
		}
	})
}
