package client

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// ReadSQL reads the rows of a requeued job, of a cancelled job, and of a job without an outcome, from both
// databases.
func TestReadSQL(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		insert := func(table, columns, values string) {
			t.Helper()
			if _, err := s.DB.ExecContext(t.Context(), "INSERT INTO "+table+" ("+columns+") VALUES "+values); err != nil {
				t.Fatal(err)
			}
		}
		const a, b, c = "019de340-01fe-7a58-be69-567cd7d6b700", "019de340-01fe-7a58-be69-567cd7d6b800",
			"019de340-01fe-7a58-be69-567cd7d6b900"
		insert("job_outcomes", "job_id, generation, outcome, attempt, tier, type, owner, retry_count, max_retries, "+
			"arrived_at, trace_id, first_tried_at, started_at, ended_at",
			`('`+a+`', 1, 'FAILED', 2, 'PAID', 'CHAOS', '', 1, 1, '2026-05-01 12:00:00.000000', 'ta', NULL, NULL, NULL),
			 ('`+b+`', 1, 'CANCELLED', 1, 'PUBLIC', 'CHAOS', '', 0, 1, '2026-05-01 12:00:00.001000', 'tb', '2026-05-01 `+
				`12:00:01.000000', '2026-05-01 12:00:01.000000', '2026-05-01 12:00:02.000000')`)
		insert("job_results", "job_id, generation, tier, type, owner, result, retry_count, max_retries, attempts, "+
			"arrived_at, first_tried_at, started_at, completed_at, trace_id",
			`('`+a+`', 2, 'PAID', 'CHAOS', '', '{"n": 1}', 0, 5, 4, '2026-05-01 12:01:00.000000', '2026-05-01 12:01:01.000000', '2026-05-01 12:01:02.000000', '2026-05-01 12:01:03.500000', 'ta'),
			 ('`+c+`', 1, 'PAID', 'CHAOS', '', '{}', 0, 5, 1, '2026-05-01 12:00:00.000000', NULL, NULL,
			  '2026-05-01 12:00:04.000000', 'tc')`)
		insert("failed_jobs", "job_id, generation, tier, type, owner, total_retries, max_retries, attempts, arrived_at, "+
			"first_tried_at, started_at, discarded_at, failure_cause, "+
			"last_error, requeued_at, trace_id",
			`('`+a+`', 1, 'PAID', 'CHAOS', '', 1, 1, 2, '2026-05-01 12:00:00.000000', '2026-05-01 12:00:01.000000', '2026-05-01 12:00:02.000000', '2026-05-01 12:00:03.000000',
			  'HANDLER_ERROR', 'x', '2026-05-01 12:00:59.000000', 'ta')`)
		insert("job_attempts", "job_id, attempt, worker, started_at, finished_at, outcome, error",
			`('`+a+`', 1, 'w', '2026-05-01 12:00:01.000000', '2026-05-01 12:00:01.500000', 'HANDLER_ERROR', ''), ('`+a+`', 2, 'w', NULL, NULL, 'HANDLER_ERROR', ''),
			 ('`+a+`', 3, 'w', NULL, NULL, 'RELEASED', ''), ('`+b+`', 1, 'w', NULL, NULL, 'CANCELLED', ''), ('`+c+`', 1, 'w', NULL, NULL, 'LATER', '')`)
		insert("accepted_jobs", "job_id, generation, tier, type, owner, priority, max_retries, attempt, retry_count, "+
			"worker, cancel_requested, run_id, trace_id",
			`('`+c+`', 1, 'PAID', 'CHAOS', '', 1, 5, 1, 0, '', 0, 'run', 'tc')`)

		var e check.Evidence
		if err := ReadSQL(t.Context(), s.DB, true, &e); err != nil {
			t.Fatal(err)
		}
		if len(e.Outcomes) != 4 || len(e.Journal) != 1 || e.Journal[0] != c ||
			*e.Tables != (check.Sums{Completed: 2, Failed: 1, Cancelled: 1}) {
			t.Fatalf("%+v, journal %v, tables %+v", e.Outcomes, e.Journal, e.Tables)
		}
		moment := func(text string) time.Time {
			at, _ := time.Parse("15:04:05.999", text)
			return at.AddDate(2026, 4, 0)
		}
		first, second, cancelled := e.Outcomes[0], e.Outcomes[1], e.Outcomes[2]
		if first.Generation != 1 || first.Outcome != job.Failed || first.Dead != 1 || first.Results != 0 || !first.Requeued ||
			first.ResultSum != "" ||
			len(first.Tries) != 2 || first.Tries[1].Number != 2 || !first.EndedAt.Equal(moment("12:00:03")) ||
			!first.Tries[0].FinishedAt.Equal(moment("12:00:01.5")) {
			t.Errorf("%+v", first)
		}
		if second.Generation != 2 || second.Results != 1 || second.Dead != 0 || second.Requeued ||
			second.ResultSum != Sum([]byte(`{"n":1}`)) || second.Trace != "ta" ||
			len(second.Tries) != 1 || second.Tries[0].Outcome != "RELEASED" || !second.EndedAt.Equal(moment("12:01:03.5")) ||
			!second.FirstTriedAt.Equal(moment("12:01:01")) {
			t.Errorf("%+v", second)
		}
		if cancelled.Results+cancelled.Dead != 0 || len(cancelled.Tries) != 1 ||
			!cancelled.EndedAt.Equal(moment("12:00:02")) || !cancelled.ArrivedAt.Equal(moment("12:00:00.001")) {
			t.Errorf("%+v", cancelled)
		}
		if err := ReadSQL(t.Context(), s.DB, false, &e); err != nil || e.Journal != nil {
			t.Errorf("without a journal: %v %v", e.Journal, err)
		}
	})
}

// The rows of occurrences are read from both databases, and a reading keeps what the database has forgotten since.
func TestReadOccurrences(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		const fired, own = "019de340-01fe-7a58-be69-567cd7d6b700", "019de340-01fe-7a58-be69-567cd7d6b800"
		s.Exec(t, "INSERT INTO schedule_runs (name, occurrence, request, job_id, through_at, missed, reason, detail, "+
			"recorded_at) VALUES ('s', '2026-05-01 12:00:00.250000', '', '"+fired+"', '2026-05-01 12:00:00.250000', 0, '', '', "+
			"'2026-05-01 12:00:00.300000'), ('s', '2026-05-01 12:00:01.000000', '', '', '2026-05-01 12:00:02.000000', 2, "+
			"'GATE', 'x', '2026-05-01 12:00:02.000000')")
		s.Exec(t, "INSERT INTO job_outcomes (job_id, generation, outcome, attempt, tier, type, owner, retry_count, "+
			"max_retries, arrived_at, trace_id) VALUES ('"+own+"', 1, 'CANCELLED', 0, 'PAID', 'CHAOS', 'k', 0, 1, "+
			"'2026-05-01 12:00:00.000000', 't')")
		l := &Load{Options: Options{Schedules: Schedules{Key: Key{ID: "k"}, DB: s.DB}}, history: &history{}}
		began := time.Now()
		if l.readOccurrences(t.Context()).Before(began) {
			t.Fatal("they could not be read")
		}
		s.Exec(t, "DELETE FROM schedule_runs WHERE job_id <> ''")
		s.Exec(t, "UPDATE schedule_runs SET through_at = '2026-05-01 12:00:03.000000', missed = 3")
		l.readOccurrences(t.Context())
		var e check.Evidence
		if err := l.ReadSchedules(t.Context(), &e); err != nil {
			t.Fatal(err)
		}
		at := func(ms int) time.Time {
			return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
		}
		want := []check.OccurrenceRun{
			{Name: "s", Occurrence: at(250), Through: at(250), JobID: fired, At: at(300)},
			{Name: "s", Occurrence: at(1000), Through: at(3000), Missed: 3, Reason: job.MissedGate, At: at(2000)},
		}
		owned := e.Schedules.Owned
		if diff := cmp.Diff(want, e.Schedules.Runs); diff != "" || len(owned) != 1 || owned[0] != own {
			t.Errorf("owned are %v; rows (-want +got):\n%s", owned, diff)
		}
	})
}
