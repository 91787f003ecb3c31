package archive_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// lostIDs are those of the rows that name none of the present runs.
func lostIDs(t *testing.T, s *archivetest.Store, present ...string) (ids []job.ID) {
	t.Helper()
	runs, err := s.Runs(t.Context())
	done(t, err)
	for _, run := range runs {
		if slices.Contains(present, run) {
			continue
		}
		jobs, err := s.Lost(t.Context(), run, "", 10)
		done(t, err)
		for _, l := range jobs {
			ids = append(ids, l.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// outcomeOnly writes an outcome behind the archive's back: as if the two had been written at the same moment.
func outcomeOnly(t *testing.T, s *archivetest.Store, n, generation int) {
	t.Helper()
	execute(t, s.DB, "INSERT INTO job_outcomes (job_id, generation, outcome, attempt, tier, type, owner, retry_count, max_retries, trace_id) "+
		"VALUES (?, ?, 'FAILED', 3, 'PAID', 'SIMULATION', '', 0, 5, '')", string(id(n)), generation)
}

// What another life of Redis was given is read whole, in order and page by page, and is lost no longer once it was found.
func TestLost(t *testing.T) {
	t.Attr("proves", "F17 F19")
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{Incarnation: func(int) string { return "run-1" }})
		if got := lostIDs(t, s); got != nil {
			t.Errorf("an empty journal has %v", got)
		}
		runs := []string{"run-0", "run-1", "", "run-2", "run-3", "run-1", "run-1"}
		rows := make([]job.JournalRow, len(runs))
		for n, run := range runs {
			rows[n] = living(n)
			rows[n].Incarnation = run
		}
		rows[0].RunAt, rows[0].CallbackURL, rows[0].Payload, rows[0].Idempotency = arrival.Add(time.Hour), "", nil, job.Idempotency{}
		rows[6].Generation = 2
		done(t, j.Accept(t.Context(), rows))
		done(t, j.Claimed(t.Context(), []job.Lease{lease(1, 1, 2)}))
		done(t, s.Cancelling(t.Context(), id(1), "run-9"))
		outcomeOnly(t, s, 5, 1) // ended
		outcomeOnly(t, s, 6, 1) // an earlier life did

		if young, err := s.Lost(t.Context(), "", "", 10); err != nil || len(young) != 0 {
			t.Errorf("%d rows that were just written and no Redis has are lost, %v", len(young), err)
		}
		execute(t, s.DB, "UPDATE accepted_jobs SET recorded_at = '2025-01-01 00:00:00.000000'")
		present, err := s.Runs(t.Context())
		done(t, err)
		if want := []string{"", "run-0", "run-1", "run-2", "run-3"}; !slices.Equal(present, want) {
			t.Errorf("runs %q, want %q", present, want)
		}
		got, err := s.Lost(t.Context(), "run-1", "", 10)
		done(t, err)
		want := []job.JournalRow{rows[1], rows[6]}
		l := lease(1, 1, 2)
		want[0].Attempt, want[0].RetryCount, want[0].FirstTriedAt, want[0].StartedAt, want[0].Worker = 2, 1, l.FirstTriedAt, l.StartedAt, l.Worker
		want[0].CancelRequested = true
		for i := range want {
			want[i].Status = job.Pending
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if !got[0].Running() || got[1].Running() {
			t.Error("the one that runs is not the one that was claimed")
		}
		one, err := s.Lost(t.Context(), "run-1", "", 1)
		done(t, err)
		two, err := s.Lost(t.Context(), "run-1", id(1), 1)
		done(t, err)
		three, err := s.Lost(t.Context(), "run-1", id(6), 1)
		done(t, err)
		if len(one) != 1 || one[0].ID != id(1) || len(two) != 1 || two[0].ID != id(6) || len(three) != 0 {
			t.Errorf("page by page %v, %v, %v", one, two, three)
		}

		all := []job.ID{id(0), id(1), id(2), id(4), id(6)}
		if got := lostIDs(t, s, "run-2"); !slices.Equal(got, all) {
			t.Errorf("lost to run-2: %v", got)
		}
		if got := lostIDs(t, s, "run-1", "run-2"); !slices.Equal(got, []job.ID{id(0), id(2), id(4)}) {
			t.Errorf("lost to two servers: %v", got)
		}
		done(t, s.Found(t.Context(), []job.ID{id(4), id(0), id(99)}, "run-2"))
		done(t, s.Found(t.Context(), nil, "run-2"))
		if got := lostIDs(t, s, "run-2"); !slices.Equal(got, []job.ID{id(1), id(2), id(6)}) {
			t.Errorf("after some were found: %v", got)
		}
		if got := lostIDs(t, s, "run-1"); !slices.Equal(got, []job.ID{id(0), id(2), id(3), id(4)}) {
			t.Errorf("for another run: %v", got)
		}
	})
}

// An options text that cannot be read costs the job nothing but its options.
func TestLostWithoutOptions(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		done(t, journal(t, s.Archive, archive.JournalOptions{}).Accept(t.Context(), []job.JournalRow{living(1)}))
		execute(t, s.DB, "UPDATE accepted_jobs SET options = '{'")
		got, err := s.Lost(t.Context(), living(1).Incarnation, "", 10)
		if err != nil || len(got) != 1 || got[0].ID != id(1) || got[0].CallbackURL != "" || string(got[0].Payload) != `{"steps":[]}` {
			t.Errorf("%+v, %v", got, err)
		}
		if j, err := s.Journaled(t.Context(), id(1)); err != nil || j.ID != id(1) {
			t.Errorf("%+v, %v", j, err)
		}
	})
}

// Rows whose outcome came at the same moment are swept out, page by page, and nobody else's.
func TestSweep(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		var rows []job.JournalRow
		for n := range 7 {
			rows = append(rows, living(n))
		}
		rows[5].Generation, rows[6].Generation = 2, 2
		done(t, journal(t, s.Archive, archive.JournalOptions{}).Accept(t.Context(), rows))
		for n, generation := range map[int]int{0: 1, 3: 2, 4: 1, 5: 1, 6: 2} { // 5 is in its second life
			outcomeOnly(t, s, n, generation)
		}
		after, all, calls := job.ID(""), int64(0), 0
		for {
			next, swept, err := s.Sweep(t.Context(), after, 3)
			done(t, err)
			all += swept
			calls++
			if next == "" {
				break
			}
			after = next
		}
		if all != 4 || calls != 3 {
			t.Errorf("%d swept in %d calls", all, calls)
		}
		for _, n := range []int{1, 2, 5} {
			if s.Count(t, "accepted_jobs WHERE job_id = ?", string(id(n))) != 1 {
				t.Errorf("job %d is gone", n)
			}
		}
		if n, err := s.JournalSize(t.Context()); n != 3 || err != nil {
			t.Errorf("%d rows, %v", n, err)
		}
	})
}

func TestJournaled(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{})
		rows := []job.JournalRow{living(0), living(1), living(2), living(3), living(4), living(5), living(6)}
		due := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
		rows[1].RunAt, rows[2].RunAt = due, arrival // the latter is due
		rows[4].Generation = 2
		rows[5].RunAt, rows[5].CancelRequested = due, true
		done(t, j.Accept(t.Context(), rows))
		done(t, j.Claimed(t.Context(), []job.Lease{lease(3, 1, 1), lease(6, 1, 1)}))
		done(t, s.Cancelling(t.Context(), id(6), "run-9"))
		outcomeOnly(t, s, 4, 1)
		for n, change := range []func(*job.Job){
			func(*job.Job) {},
			func(j *job.Job) { j.Status, j.RunAt = job.Scheduled, due },
			func(j *job.Job) { j.RunAt = time.Time{} },
			func(j *job.Job) { *j = lease(3, 1, 1).Job },
			func(*job.Job) {},
			func(j *job.Job) { j.Status, j.RunAt, j.CancelRequested = job.Cancelled, time.Time{}, true },
			func(j *job.Job) { *j, j.CancelRequested = lease(6, 1, 1).Job, true },
		} {
			want := rows[n].Job
			want.Status = job.Pending
			change(&want)
			got, err := s.Journaled(t.Context(), id(n))
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("job %d: %v (-want +got):\n%s", n, err, diff)
			}
		}
		outcomeOnly(t, s, 4, 2)
		for _, n := range []int{4, 9} {
			if _, err := s.Journaled(t.Context(), id(n)); !errors.Is(err, job.ErrNotFound) {
				t.Errorf("job %d: %v", n, err)
			}
		}
	})
}

func TestKnown(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		done(
			t,
			journal(
				t,
				s.Archive,
				archive.JournalOptions{},
			).Accept(t.Context(), []job.JournalRow{living(1), living(700)}),
		)
		outcomeOnly(t, s, 2, 3)
		ids := make([]job.ID, 701)
		for n := range ids {
			ids[n] = id(n)
		}
		known, err := s.Known(t.Context(), ids)
		done(t, err)
		for n, is := range known {
			if want := n == 1 || n == 2 || n == 700; is != want {
				t.Errorf("job %d: %v", n, is)
			}
		}
		if known, err := s.Known(t.Context(), nil); len(known) != 0 || err != nil {
			t.Error(known, err)
		}
	})
}

// The audit asks for those that have been there for long.
func TestWaiting(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{})
		done(t, j.Accept(t.Context(), []job.JournalRow{living(1), living(2), living(3), living(4)}))
		execute(t, s.DB, "UPDATE accepted_jobs SET recorded_at = '2026-01-01 00:00:00.000000' WHERE job_id <> ?", string(id(2)))
		next := living(3)
		next.Generation = 2
		done(t, j.Accept(t.Context(), []job.JournalRow{next})) // its new life is young
		for _, c := range []struct {
			after job.ID
			limit int
			than  time.Duration
			want  []job.ID
		}{
			{"", 10, time.Minute, []job.ID{id(1), id(4)}}, {"", 1, time.Minute, []job.ID{id(1)}}, {id(1), 10, time.Minute, []job.ID{id(4)}},
			{"", 10, -time.Minute, []job.ID{id(1), id(2), id(3), id(4)}},
		} {
			if c.than < 0 {
				c.than = 0
				<-time.After(5 * time.Millisecond) // SQLite's clock counts milliseconds
			}
			got, err := s.Waiting(t.Context(), c.after, c.limit, c.than)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%+v: %v, %v", c, got, err)
			}
		}
	})
}
