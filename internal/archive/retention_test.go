package archive_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

const day = 24 * time.Hour

// age sets recorded_at of the matching outcomes to some days ago.
func age(t testing.TB, s *archivetest.Store, days int, where string, args ...any) {
	t.Helper()
	at := time.Now().UTC().Add(-time.Duration(days) * day).Format("2006-01-02 15:04:05.000000")
	for _, table := range []string{"job_outcomes", "job_results"} {
		s.Exec(t, "UPDATE "+table+" SET recorded_at = '"+at+"' WHERE "+where, args...)
	}
}

// old reads all old jobs of a kind, page by page.
func old(t testing.TB, a *archive.Archive, k job.Kind, days int) (all []job.OldJob) {
	t.Helper()
	var after job.OldJob
	for range 100 {
		page, err := a.OldJobs(t.Context(), k, time.Duration(days)*day, after)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = page[len(page)-1]
	}
	t.Fatal("the pages have no end")
	return nil
}

func numbers(jobs []job.OldJob) (all []string) {
	for _, o := range jobs {
		for n := range 2000 {
			if id(n) == o.ID {
				all = append(all, fmt.Sprintf("%d.%d", n, o.Generation))
			}
		}
	}
	return all
}

// Old jobs are found by kind and age, the oldest first. No page misses or repeats a job, also where many were
// recorded at one moment.
func TestOldJobs(t *testing.T) {
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, nobody{}, archive.WriterOptions{})
		record(t, w, many(250)...)
		record(t, w, failed(251), cancelled(252), completed(253), completed(254))
		public := completed(255)
		public.Tier = job.Public
		record(t, w, public)
		age(t, s, 91, "job_id <= ?", string(id(250)))
		age(t, s, 95, "job_id = ?", string(id(200)))
		age(t, s, 89, "job_id = ?", string(id(253)))
		age(t, s, 100, "job_id IN (?, ?)", string(id(251)), string(id(255)))

		kinds, err := s.Kinds(t.Context())
		if got := fmt.Sprint(kinds); err != nil ||
			got != "[{PAID COMPLETED} {PUBLIC COMPLETED} {PUBLIC FAILED} {PAID CANCELLED}]" {
			t.Errorf("kinds %v, %v", got, err)
		}
		got := numbers(old(t, s.Archive, job.Kind{Tier: job.Paid, Status: job.Completed}, 90))
		if len(got) != 250 || got[0] != "200.1" || got[1] != "1.1" || got[249] != "250.1" {
			t.Errorf("%d old jobs: %v", len(got), got)
		}
		if slices.Sort(got); len(slices.Compact(got)) != 250 {
			t.Errorf("some were read twice: %v", got)
		}
		for k, want := range map[job.Kind]string{
			{Tier: job.Public, Status: job.Completed}: "[255.1]", {Tier: job.Public, Status: job.Failed}: "[251.1]",
			{Tier: job.Paid, Status: job.Cancelled}: "[]", {Tier: job.Unpaid, Status: job.Completed}: "[]",
		} {
			if got := fmt.Sprint(numbers(old(t, s.Archive, k, 90))); got != want {
				t.Errorf("%v: %s, want %s", k, got, want)
			}
		}
		if got := old(t, s.Archive, job.Kind{Tier: job.Paid, Status: job.Completed}, 96); len(got) != 0 {
			t.Errorf("older than the oldest: %v", numbers(got))
		}
	})
}

// needs is one case of a job that stays or goes: how it is made, and whether it goes.
type needs struct {
	name string
	goes bool
	make func(t *testing.T, s *archivetest.Store, w *archive.Writer, n int) // its outcomes, and what still needs them
}

func lifeOf(o job.Outcome, generation int) job.Outcome {
	o.Generation = generation
	for i := range o.Attempts {
		o.Attempts[i].Number += 10 * (generation - 1)
	}
	o.Attempt += 10 * (generation - 1)
	return o
}

func promiseMade(t *testing.T, s *archivetest.Store, n, generation int) {
	t.Helper()
	if !promise(t, s.Archive, n, generation, fmt.Sprint("request-", n, generation)) {
		t.Fatal("not promised")
	}
}

func requeued(t *testing.T, s *archivetest.Store, n, generation int) {
	t.Helper()
	promiseMade(t, s, n, generation)
	if err := s.Found(t.Context(), firstLives(id(n)), "run-1"); err != nil {
		t.Fatal(err)
	}
}

const secondIsYoung = "requeued, and completed a short while ago"

// everyNeed has one case per clause of the rule, besides jobs that nothing needs.
var everyNeed = []needs{
	{
		"a result",
		true,
		func(t *testing.T, _ *archivetest.Store, w *archive.Writer, n int) { record(t, w, completed(n)) },
	},
	{
		"an open dead letter",
		true,
		func(t *testing.T, _ *archivetest.Store, w *archive.Writer, n int) { record(t, w, failed(n)) },
	},
	{"a cancelled job", true, func(t *testing.T, s *archivetest.Store, w *archive.Writer, n int) {
		if err := s.KeepCancelReason(t.Context(), id(n), 1, "ordered twice", false); err != nil {
			t.Fatal(err)
		}
		record(t, w, cancelled(n))
	}},
	{"requeued, and completed since", true, func(t *testing.T, s *archivetest.Store, w *archive.Writer, n int) {
		record(t, w, failed(n))
		requeued(t, s, n, 1)
		record(t, w, lifeOf(completed(n), 2))
	}},
	{"requeued, and dead again", true, func(t *testing.T, s *archivetest.Store, w *archive.Writer, n int) {
		record(t, w, failed(n))
		requeued(t, s, n, 1)
		record(t, w, lifeOf(failed(n), 2))
	}},
	{secondIsYoung, false, func(t *testing.T, s *archivetest.Store, w *archive.Writer, n int) {
		record(t, w, failed(n))
		requeued(t, s, n, 1)
		record(t, w, lifeOf(completed(n), 2))
	}},
	{"a requeue was promised", false, func(t *testing.T, s *archivetest.Store, w *archive.Writer, n int) {
		record(t, w, failed(n))
		promiseMade(t, s, n, 1)
	}},
	{"requeued, and under way", false, func(t *testing.T, s *archivetest.Store, w *archive.Writer, n int) {
		record(t, w, failed(n))
		requeued(t, s, n, 1)
	}},
	{"dead twice, the second one requeued", false, func(t *testing.T, s *archivetest.Store, w *archive.Writer, n int) {
		record(t, w, failed(n))
		requeued(t, s, n, 1)
		record(t, w, lifeOf(failed(n), 2))
		requeued(t, s, n, 2)
	}},
	{"the journal has it", false, func(t *testing.T, s *archivetest.Store, w *archive.Writer, n int) {
		record(t, w, completed(n))
		journalRow(t, s, id(n))
	}},
	{"its callback is in the journal", false, func(t *testing.T, s *archivetest.Store, w *archive.Writer, n int) {
		record(t, w, completed(n))
		journalRow(t, s, callbackOf(id(n)))
	}},
	{"an Idempotency-Key stands for it", false, func(t *testing.T, s *archivetest.Store, w *archive.Writer, n int) {
		record(t, w, completed(n))
		keyRow(t, s, n, time.Hour)
	}},
	{"its Idempotency-Key has expired", true, func(t *testing.T, s *archivetest.Store, w *archive.Writer, n int) {
		record(t, w, completed(n))
		keyRow(t, s, n, -time.Hour)
	}},
}

func callbackOf(id job.ID) job.ID { return job.ID(strings.Replace(string(id), "7000", "7fff", 1)) }

// journalRow inserts a journal row directly: the Journal would not write one for an ended job.
func journalRow(t *testing.T, s *archivetest.Store, id job.ID) {
	t.Helper()
	_, err := s.DB.ExecContext(
		t.Context(),
		"INSERT INTO accepted_jobs (job_id, generation, tier, type, owner, priority, max_retries, attempt, retry_count, worker, "+
			"cancel_requested, run_id, trace_id) VALUES (?, 1, 'PAID', 'SIMULATION', '', 1, 5, 0, 0, '', 0, 'run-1', '')",
		string(id),
	)
	if err != nil {
		t.Fatal(err)
	}
}

func keyRow(t *testing.T, s *archivetest.Store, n int, expires time.Duration) {
	t.Helper()
	at := time.Now().UTC().Add(expires).Format("2006-01-02 15:04:05.000000")
	_, err := s.DB.ExecContext(
		t.Context(),
		"INSERT INTO idempotency_keys (idem_key, body, job_id, expires_at) VALUES (?, ?, ?, ?)",
		fmt.Sprintf("%032x", n),
		fmt.Sprintf("%032x", n),
		string(id(n)),
		at,
	)
	if err != nil {
		t.Fatal(err)
	}
}

func rowsOf(t *testing.T, s *archivetest.Store, id job.ID) (n int) {
	t.Helper()
	for _, table := range []string{"job_outcomes", "job_results", "failed_jobs", "job_attempts", "cancel_reasons"} {
		n += s.Count(t, table+" WHERE job_id = ?", string(id))
	}
	return n
}

// Every clause of the rule keeps its job as a whole, and no other job. It is checked in UnneededJobs and again in
// DeleteJobs, because the answer may change in between.
func TestWhatIsNeededIsNotDeleted(t *testing.T) {
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, nobody{}, archive.WriterOptions{})
		for n, c := range everyNeed {
			c.make(t, s, w, n)
		}
		age(t, s, 91, "1 = 1")
		for n, c := range everyNeed {
			if c.name == secondIsYoung {
				age(t, s, 1, "job_id = ? AND generation = 2", string(id(n)))
			}
		}
		record(t, w, completed(100)) // too young
		var all []job.OldJob
		for _, k := range kindsOf(t, s) {
			all = append(all, old(t, s.Archive, k, 90)...)
		}
		for i := range all {
			all[i].Callback = callbackOf(all[i].ID)
		}
		free, err := s.UnneededJobs(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		for n, c := range everyNeed {
			if goes := slices.ContainsFunc(free, func(o job.OldJob) bool { return o.ID == id(n) }); goes != c.goes {
				t.Errorf("%s: unneeded %v", c.name, goes)
			}
		}
		before := map[int]int{100: rowsOf(t, s, id(100))}
		total := 0
		for n, c := range everyNeed {
			if before[n] = rowsOf(t, s, id(n)); c.goes {
				total += before[n]
			}
		}
		deleted, err := s.DeleteJobs(t.Context(), all) // all of them, as if each need had arisen in between
		if err != nil {
			t.Fatal(err)
		}
		for n, c := range everyNeed {
			want := before[n]
			if c.goes {
				want = 0
			}
			if got := rowsOf(t, s, id(n)); got != want {
				t.Errorf("%s: %d rows are left of %d, want %d", c.name, got, before[n], want)
			}
		}
		if got := rowsOf(t, s, id(100)); got != before[100] || got == 0 {
			t.Errorf("the young job has %d rows of %d", got, before[100])
		}
		sum := 0
		for _, n := range deleted {
			sum += int(n)
		}
		if sum != total || deleted["job_outcomes"] != 5 || deleted["job_results"] != 3 {
			t.Errorf("it counts %v, %d in all; %d rows are gone", deleted, sum, total)
		}
		if deleted, err := s.DeleteJobs(t.Context(), all); err != nil || deleted["job_outcomes"]+deleted["job_results"] != 0 {
			t.Errorf("once more: %v, %v", deleted, err)
		}
		if _, err := s.Find(t.Context(), id(3)); !strings.Contains(fmt.Sprint(err), job.ErrNotFound.Error()) {
			t.Errorf("a requeued job that was deleted is found: %v", err)
		}
	})
}

func kindsOf(t *testing.T, s *archivetest.Store) []job.Kind {
	t.Helper()
	kinds, err := s.Kinds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

// An outcome that is recorded again after its deletion has one row, as the first time. Nothing is written twice,
// and no other deleted row comes back.
func TestOutcomeAgainAfterItsDeletion(t *testing.T) {
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, nobody{}, archive.WriterOptions{})
		record(t, w, failed(1))
		age(t, s, 91, "1 = 1")
		o := old(t, s.Archive, job.Kind{Tier: job.Public, Status: job.Failed}, 90)
		if _, err := s.DeleteJobs(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if n := rowsOf(t, s, id(1)); n != 0 {
			t.Fatalf("%d rows are left", n)
		}
		record(t, w, failed(1), failed(1))
		if n := rowsOf(t, s, id(1)); n != 4 || s.Count(t, "accepted_jobs") != 0 {
			t.Errorf("%d rows, want the outcome, its letter and two attempts, and none in the journal", n)
		}
	})
}

func TestCountRows(t *testing.T) {
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, nobody{}, archive.WriterOptions{})
		record(t, w, many(1000)...)
		if s.Options.MySQLDSN != "" { // MySQL updates its statistics in the background, too late for a test
			if _, err := s.DB.ExecContext(t.Context(), "ANALYZE TABLE job_outcomes, job_results"); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := s.CountRows(t.Context())
		if err != nil || len(rows) != 13 {
			t.Fatal(rows, err)
		}
		for table, n := range rows {
			lo, hi := int64(0), int64(2) // InnoDB never says that a table is empty
			if table == "job_results" {
				lo, hi = 800, 1200
			}
			if n < lo || n > hi {
				t.Errorf("%s has about %d rows, it says", table, n)
			}
		}
	})
}
