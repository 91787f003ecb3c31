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
	"github.com/tierq/tierq/internal/testkit"
)

// lostIDs returns the ids of the rows whose incarnation is not among the present ones.
func lostIDs(t *testing.T, s *archivetest.Store, present ...string) (ids []job.ID) {
	t.Helper()
	runs, err := s.Runs(t.Context())
	done(t, err)
	for _, run := range runs {
		if slices.Contains(present, run) {
			continue
		}
		jobs, err := s.Lost(t.Context(), run, 0, "", 10)
		done(t, err)
		for _, l := range jobs {
			ids = append(ids, l.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// outcomeOnly inserts an outcome directly, as if it and the row had been written at the same moment.
func outcomeOnly(t *testing.T, s *archivetest.Store, n, generation int) {
	t.Helper()
	execute(t, s.DB, "INSERT INTO job_outcomes (job_id, generation, outcome, attempt, tier, type, owner, retry_count, "+
		"max_retries, trace_id) "+
		"VALUES (?, ?, 'FAILED', 3, 'PAID', 'SIMULATION', '', 0, 5, '')", string(id(n)), generation)
}

// Rows of another incarnation are read in order and page by page. A row that was found is no longer lost.
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
		rows[2].Submitting, rows[6].Generation = true, 2
		done(t, submit(t.Context(), j, rows...))
		own := lease(1, 1, 2)
		own.Token, own.For = "t:1.2", 5*time.Second
		done(t, j.Claimed(t.Context(), []job.Lease{own}))
		done(t, s.Cancelling(t.Context(), id(1), "run-9"))
		outcomeOnly(t, s, 5, 1) // ended
		outcomeOnly(t, s, 6, 1) // an earlier generation ended

		execute(t, s.DB, "UPDATE accepted_jobs SET recorded_at = '2025-01-01 00:00:00.000000'")
		present, err := s.Runs(t.Context())
		done(t, err)
		if want := []string{"", "run-0", "run-1", "run-2", "run-3"}; !slices.Equal(present, want) {
			t.Errorf("runs %q, want %q", present, want)
		}
		got, err := s.Lost(t.Context(), "run-1", time.Minute, "", 10)
		done(t, err)
		want := []job.JournalRow{
			{Job: job.Job{ID: id(1), Generation: 1, CancelRequested: true}, Incarnation: "run-1"},
			{Job: job.Job{ID: id(6), Generation: 2}, Incarnation: "run-1"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// LivingOf reads the other columns of the rows.
		whole, err := s.LivingOf(t.Context(), []job.ID{id(0), id(1), id(2), id(5), id(6)})
		done(t, err)
		rows[1].Attempt, rows[1].RetryCount, rows[1].Worker, rows[1].CancelRequested = 2, 1, "host:2", true
		rows[1].Crashes, rows[1].Token, rows[1].LeaseFor = 1, "t:1.2", 5*time.Second
		rows[1].FirstTriedAt, rows[1].StartedAt = arrival.Add(time.Second), arrival.Add(2*time.Second)
		want = []job.JournalRow{rows[0], rows[1], rows[6]}
		for i := range want {
			want[i].Status = job.Pending
		}
		if diff := cmp.Diff(want, whole); diff != "" {
			t.Errorf("whole (-want +got):\n%s", diff)
		}
		if !whole[1].Running() || whole[2].Running() {
			t.Error("the one that runs is not the one that was claimed")
		}
		one, err := s.Lost(t.Context(), "run-1", 0, "", 1)
		done(t, err)
		two, err := s.Lost(t.Context(), "run-1", 0, id(1), 1)
		done(t, err)
		three, err := s.Lost(t.Context(), "run-1", 0, id(6), 1)
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
		done(t, s.Found(t.Context(), firstLives(id(4), id(0), id(99)), "run-2"))
		done(t, s.Found(t.Context(), nil, "run-2"))
		// A row that was replaced while Redis was asked is of a generation that Redis does not have.
		next := firstLives(id(1))
		next[0].Generation = 2
		done(t, s.Found(t.Context(), next, "run-2"))
		if got := lostIDs(t, s, "run-2"); !slices.Equal(got, []job.ID{id(1), id(2), id(6)}) {
			t.Errorf("after some were found: %v", got)
		}
		if got := lostIDs(t, s, "run-1"); !slices.Equal(got, []job.ID{id(0), id(2), id(3), id(4)}) {
			t.Errorf("for another run: %v", got)
		}
	})
}

// A row younger than the age is not lost yet, whatever incarnation it names. Age 0 includes every row.
func TestLost_Age(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{})
		done(t, submit(t.Context(), j, submitting(1), submitting(2), living(3), living(4)))
		execute(t, s.DB, "UPDATE accepted_jobs SET recorded_at = '2025-01-01 00:00:00.000000' WHERE job_id IN (?, ?)",
			string(id(2)), string(id(4)))
		for run, all := range map[string][]job.ID{"": {id(1), id(2)}, "run-1": {id(3), id(4)}} {
			ages := map[time.Duration][]job.ID{0: all, time.Minute: all[1:], 1_000_000 * time.Hour: nil}
			for age, want := range ages {
				var got []job.ID
				// SQLite's clock counts milliseconds.
				testkit.Eventually(t, within, "age 0 takes all", func() (bool, string) {
					lost, err := s.Lost(t.Context(), run, age, "", 10)
					done(t, err)
					got = nil
					for _, l := range lost {
						got = append(got, l.ID)
					}
					return age > 0 || slices.Equal(got, want), fmt.Sprint(got)
				})
				if !slices.Equal(got, want) {
					t.Errorf("run %q, age %v: %v, want %v", run, age, got, want)
				}
			}
		}
	})
}

// A job whose options cannot be read is lost as any other, without its options.
func TestLostWithoutOptions(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		done(t, submit(t.Context(), journal(t, s.Archive, archive.JournalOptions{}), living(1)))
		execute(t, s.DB, "UPDATE accepted_jobs SET options = '{'")
		if got := lostIDs(t, s); !slices.Equal(got, []job.ID{id(1)}) {
			t.Errorf("lost: %v", got)
		}
		got, err := s.LivingOf(t.Context(), []job.ID{id(1)})
		if err != nil || len(got) != 1 || got[0].ID != id(1) || got[0].CallbackURL != "" ||
			string(got[0].Payload) != `{"steps":[]}` {
			t.Errorf("%+v, %v", got, err)
		}
		if j, err := s.Journaled(t.Context(), id(1)); err != nil || j.ID != id(1) {
			t.Errorf("%+v, %v", j, err)
		}
	})
}

// Sweep removes, page by page, only the rows whose outcome was written at the same moment.
func TestSweep(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		var rows []job.JournalRow
		for n := range 7 {
			rows = append(rows, living(n))
		}
		rows[5].Generation, rows[6].Generation = 2, 2
		done(t, submit(t.Context(), journal(t, s.Archive, archive.JournalOptions{}), rows...))
		for n, generation := range map[int]int{0: 1, 3: 2, 4: 1, 5: 1, 6: 2} { // 5 is in its second generation
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
		rows := []job.JournalRow{
			living(0), living(1), living(2), living(3), living(4), living(5), living(6), submitting(7), submitting(8),
		}
		due := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
		rows[1].RunAt, rows[2].RunAt = due, arrival // 2 is due already
		rows[4].Generation = 2
		rows[5].RunAt, rows[5].CancelRequested = due, true
		done(t, submit(t.Context(), j, rows...))
		done(t, j.Claimed(t.Context(), []job.Lease{lease(3, 1, 1), lease(6, 1, 1)}))
		done(t, s.Cancelling(t.Context(), id(6), "run-9"))
		done(t, s.Cancelling(t.Context(), id(8), ""))
		outcomeOnly(t, s, 4, 1)
		for n, change := range []func(*job.Job){
			func(*job.Job) {},
			func(j *job.Job) { j.Status, j.RunAt = job.Scheduled, due },
			func(j *job.Job) { j.RunAt = time.Time{} },
			func(j *job.Job) { *j = lease(3, 1, 1).Job },
			func(*job.Job) {},
			func(j *job.Job) { j.Status, j.RunAt, j.CancelRequested = job.Cancelled, time.Time{}, true },
			func(j *job.Job) { *j, j.CancelRequested = lease(6, 1, 1).Job, true },
			func(*job.Job) {},
			func(j *job.Job) { j.CancelRequested = true },
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
		done(t, submit(t.Context(), journal(t, s.Archive, archive.JournalOptions{}), living(1), living(700)))
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

// Waiting returns the jobs that have been in the journal for long enough; the audit calls it.
func TestWaiting(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{})
		done(t, submit(t.Context(), j, living(1), living(2), living(3), living(4)))
		execute(t, s.DB, "UPDATE accepted_jobs SET recorded_at = '2026-01-01 00:00:00.000000' WHERE job_id <> ?",
			string(id(2)))
		next := living(3)
		next.Generation = 2
		done(t, submit(t.Context(), j, next)) // its new generation is young
		for _, c := range []struct {
			after job.ID
			limit int
			than  time.Duration
			want  []job.ID
		}{
			{"", 10, time.Minute, []job.ID{id(1), id(4)}}, {"", 1, time.Minute, []job.ID{id(1)}},
			{id(1), 10, time.Minute, []job.ID{id(4)}},
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

// firstLives returns rows of the first generation, as the ledger passes them to Found.
func firstLives(ids ...job.ID) []job.JournalRow {
	rows := make([]job.JournalRow, len(ids))
	for i, id := range ids {
		rows[i] = job.JournalRow{Job: job.Job{ID: id, Generation: 1}}
	}
	return rows
}
