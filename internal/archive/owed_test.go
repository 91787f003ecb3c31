package archive_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// giver records the owed rows that it is given.
type giver struct {
	mu    sync.Mutex
	given []job.JournalRow
	when  func(rows []job.JournalRow, since time.Time)
}

func (g *giver) give(ctx context.Context, rows []job.JournalRow, since time.Time) {
	if g.when != nil {
		g.when(rows, since)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, bounded := ctx.Deadline(); bounded {
		g.given = append(g.given, rows...)
	}
}

func (g *giver) ids() (ids []job.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.given {
		ids = append(ids, g.given[i].ID)
	}
	slices.Sort(ids)
	return ids
}

func called(o job.Outcome) job.Outcome {
	o.CallbackURL = "https://example.com/done"
	return o
}

// The transaction that inserts an outcome writes the row of the callback job, with and without the journal. A
// writer that finds the outcome in SQL writes no row. The row is given to Redis after the commit.
func TestOwed(t *testing.T) {
	t.Attr("proves", "S4-P8")
	t.Parallel()
	for name, each := range map[string]func(*testing.T, func(*testing.T, *archivetest.Store)){
		"journal": archivetest.EachJournal, "no journal": archivetest.EachStore,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, s *archivetest.Store) {
				began, early := time.Now(), false
				g := &giver{when: func(_ []job.JournalRow, since time.Time) {
					early = s.Count(t, "accepted_jobs") == 0 || since.Before(began) || since.After(time.Now())
				}}
				r := &redis{}
				w := start(t, s.Archive, r, archive.WriterOptions{Owes: owes, Give: g.give})
				record(t, w, called(completed(1)), failed(2), cancelled(3))
				check(t, "owed", accepted(t, s, 101), fresh(101, map[string]any{"run_id": "", "arrived_at": nil}))
				if n := s.Count(t, "accepted_jobs"); n != 1 || early || r.count() != 3 {
					t.Errorf("%d rows, %d acknowledged; given before the row was there: %v", n, r.count(), early)
				}
				testkit.Eventually(t, 5*time.Second, "it is given", func() (bool, string) {
					return slices.Equal(g.ids(), []job.ID{id(101)}), fmt.Sprint(g.ids())
				})
				ended := completed(101) // the owed job
				ended.Type = job.CallbackType
				quiet := start(t, s.Archive, r, archive.WriterOptions{})
				record(t, quiet, ended)
				record(t, w, called(completed(1)))
				if n := s.Count(t, "accepted_jobs"); n != 0 || len(g.ids()) != 1 {
					t.Errorf("a repeat of the outcome owes it again: %d rows, given %v", n, g.ids())
				}
				// Outcome and owed row are written together or not at all.
				execute(t, s.DB, "DROP TABLE accepted_jobs")
				if err := w.Record(t.Context(), []job.Outcome{completed(5)}); !errors.Is(err, job.ErrUnavailable) {
					t.Errorf("%v", err)
				}
				if n := s.Count(t, "job_outcomes WHERE job_id = ?", string(id(5))); n != 0 {
					t.Error("an outcome without what it owes")
				}
			})
		})
	}
}

// If a version without callback rows wrote an outcome and the outbox still has it, the owed job gets its row
// later, with the outcome as SQL has it. While SQL takes no such row, the outcome is not acknowledged.
func TestOwedLate(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		second := completed(4)
		second.Generation = 2
		old := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		record(t, old, called(completed(1)), called(failed(2)), called(cancelled(3)), called(failed(4)))
		record(t, old, second)

		r := &redis{}
		w := start(t, s.Archive, r, archive.WriterOptions{Owes: func(o *job.Outcome) (job.JournalRow, bool) {
			l, ok := owes(&job.Outcome{Job: job.Job{ID: o.ID, Status: job.Completed}})
			l.Payload = []byte(string(o.Status) + string(o.Cause) + string(o.Result))
			return l, ok
		}})
		execute(t, s.DB, "ALTER TABLE accepted_jobs RENAME TO away")
		if err := w.Record(t.Context(), []job.Outcome{called(completed(1))}); err == nil || r.count() != 0 {
			t.Errorf("%v; %d acknowledged without a row", err, r.count())
		}
		execute(t, s.DB, "ALTER TABLE away RENAME TO accepted_jobs")
		another := called(completed(4)) // its second generation has ended, and that outcome is reported
		for range 2 {
			record(t, w, called(failed(1)), called(completed(2)), called(completed(3)), another, completed(5))
		}
		late := s.Count(t, "accepted_jobs WHERE run_id = '' AND job_id IN (?, ?)", string(id(101)), string(id(102)))
		if n := s.Count(t, "accepted_jobs"); late != 2 || n != 3 { // the third row is that of 5, which is new
			t.Errorf("%d rows, %d in all", late, n)
		}
		for n, want := range map[int]string{
			101: "COMPLETED" + string(completed(1).Result), 102: "FAILED" + string(job.HeartbeatStopped),
		} {
			if got := accepted(t, s, n)["payload"]; got != want {
				t.Errorf("%d tells %q, want %q", n, got, want)
			}
		}
		if r.count() != 5 {
			t.Errorf("%d acknowledged, want 5", r.count())
		}
	})
}
