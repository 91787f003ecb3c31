package archive_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

func check(t *testing.T, table string, got, want map[string]any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", table, diff)
	}
}

func TestRows(t *testing.T) {
	t.Attr("proves", "S2-T1 S2-T2 S2-P11")
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		r := &redis{}
		w := start(t, s.Archive, r, archive.WriterOptions{})
		queues := map[int]string{1: "", 2: "films", 3: "a:b"}
		second, third := failed(2), cancelled(3)
		second.Queue, third.Queue = queues[2], queues[3]
		record(t, w, completed(1), second, third)

		common := func(n int, tier string) map[string]any {
			return map[string]any{
				"job_id": string(id(n)), "generation": int64(1), "tier": tier, "type": "SIMULATION", "owner": "key-1",
				"queue":       queues[n],
				"trace_id":    "trace-1",
				"max_retries": int64(5), "arrived_at": "2025-11-24 16:00:00.123000",
			}
		}
		with := func(m map[string]any, more map[string]any) map[string]any {
			for k, v := range more {
				m[k] = v
			}
			return m
		}
		recordedNow := func(row map[string]any) map[string]any {
			t.Helper()
			recorded, err := time.Parse("2006-01-02 15:04:05.000000", row["recorded_at"].(string))
			if age := time.Since(recorded); err != nil || age < -time.Second || age > time.Minute {
				t.Errorf("recorded_at %v: %v", row["recorded_at"], err)
			}
			delete(row, "recorded_at")
			return row
		}
		for n, status := range map[int]string{2: "FAILED", 3: "CANCELLED"} {
			tier := map[int]string{2: "PUBLIC", 3: "PAID"}[n]
			got := recordedNow(s.Row(t, "job_outcomes WHERE job_id = ?", string(id(n))))
			times := map[string]any{"first_tried_at": nil, "started_at": nil, "ended_at": nil}
			if status == "CANCELLED" { // a cancelled job has no other row
				times = map[string]any{
					"first_tried_at": "2025-11-24 16:00:01.123000", "started_at": "2025-11-24 16:00:02.123000",
					"ended_at": "2025-11-24 16:00:03.123000",
				}
			}
			check(t, "job_outcomes", got, with(with(common(n, tier), times),
				map[string]any{"outcome": status, "attempt": int64(3), "retry_count": int64(1)}))
		}
		if n := s.Count(t, "job_outcomes"); n != 2 {
			t.Errorf("%d outcomes: a completed job has one row, its result", n)
		}
		check(t, "job_results", recordedNow(s.Row(t, "job_results")), with(common(1, "PAID"), map[string]any{
			"result": `{"n": 1, "žluť": "\u0000"}`, "note": "", "retry_count": int64(1), "attempts": int64(3),
			"first_tried_at": "2025-11-24 16:00:01.123000", "started_at": "2025-11-24 16:00:02.123000",
			"completed_at": "2025-11-24 16:00:03.123000", "worker": "host:3",
		}))
		letter := with(common(2, "PUBLIC"), map[string]any{
			"payload": `{"steps":[]}`, "options": `{"queue":"films"}`, "total_retries": int64(1), "attempts": int64(3),
			"first_tried_at": "2025-11-24 16:00:01.123000", "started_at": "2025-11-24 16:00:02.123000",
			"discarded_at":  "2025-11-24 16:00:03.123000",
			"failure_cause": "HEARTBEAT_STOPPED", "last_error": "process 7 💀 died",
			"requeue_requested_at": nil, "requeue_request_id": nil, "requeue_reason": "",
			"requeued_at": nil, "requeued_run_id": nil, "dismissed_at": nil, "dismiss_reason": "",
			"open_at": "2025-11-24 16:00:03.123000",
		})
		delete(letter, "queue") // it is among the options
		check(t, "failed_jobs", s.Row(t, "failed_jobs"), letter)
		check(t, "job_attempts", s.Row(t, "job_attempts WHERE attempt = 1"), map[string]any{
			"job_id": string(id(2)), "attempt": int64(1), "worker": "host:1", "outcome": "HANDLER_ERROR", "error": "boom",
			"started_at": "2025-11-24 16:00:01.123000", "finished_at": "2025-11-24 16:00:01.623000",
			"generation": int64(1), "until_at": nil,
		})
		if n := s.Count(t, "job_attempts"); n != 2 {
			t.Errorf("%d attempts, want 2", n)
		}
		want := job.Ack{ID: id(2), Generation: 1, Attempt: 3, Status: job.Failed}
		if got := r.ack(id(2)); got != want {
			t.Errorf("acknowledged %+v, want %+v", got, want)
		}
	})
}

// The dead letter stores both causes of the watches unchanged.
func TestDeadLetterCauses(t *testing.T) {
	t.Attr("proves", "S2-S8 S2-T2")
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		for n, cause := range []job.Cause{job.HeartbeatStopped, job.MaxTimeExceeded} {
			o := failed(n)
			o.Status, o.Cause = job.NeedDiscard, cause
			record(t, w, o)
			if got := s.Row(t, "failed_jobs WHERE job_id = ?", string(id(n)))["failure_cause"]; got != string(cause) {
				t.Errorf("failure_cause %v, want %s", got, cause)
			}
			if got := s.Row(t, "job_outcomes WHERE job_id = ?", string(id(n)))["outcome"]; got != "FAILED" {
				t.Errorf("outcome %v", got)
			}
		}
	})
}

func TestFind(t *testing.T) {
	t.Attr("proves", "S2-P11")
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		record(t, w, completed(1), failed(2), cancelled(3))

		for _, o := range []job.Outcome{completed(1), failed(2), cancelled(3)} {
			want := o.Job
			want.Payload = nil
			got, err := a.Find(t.Context(), o.ID)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", o.Status, err, diff)
			}
		}
		if _, err := a.Find(t.Context(), id(4)); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("an unknown job: %v", err)
		}
	})
}

func TestResultBytesComeBackIdentical(t *testing.T) {
	t.Attr("proves", "S2-T1")
	t.Parallel()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	results := [][]byte{nil, {}, []byte("null"), []byte(" {\"a\":1,  \"a\":1e400}\n"), every,
		bytes.Repeat([]byte("x"), 1<<20)}
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{})
		for n, result := range results {
			o := completed(n)
			o.Result = result
			record(t, w, o)
			got, err := a.Find(t.Context(), id(n))
			if err != nil || !bytes.Equal(got.Result, result) {
				t.Errorf("result %d: %v, %.40q, want %.40q", n, err, got.Result, result)
			}
			if (got.Result == nil) != (result == nil) {
				t.Errorf("result %d: nil is %v, want %v", n, got.Result == nil, result == nil)
			}
		}
	})
}

func TestZeroTimesAreNull(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		o := completed(1)
		o.FirstTriedAt, o.StartedAt = time.Time{}, time.Time{}
		record(t, w, o)
		row := s.Row(t, "job_results")
		if row["first_tried_at"] != nil || row["started_at"] != nil {
			t.Errorf("%v", row)
		}
		got, err := s.Find(t.Context(), id(1))
		if err != nil || !got.StartedAt.IsZero() || !got.EndedAt.Equal(o.EndedAt) {
			t.Errorf("%v %+v", err, got)
		}
	})
}

func TestRequeuedGeneration(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		record(t, w, failed(1), failed(2))
		second := completed(1)
		second.Generation, second.Attempt, second.ArrivedAt = 2, 4, arrival.Add(time.Hour)
		record(t, w, second)

		if got := s.Row(t, "failed_jobs WHERE job_id = ?",
			string(id(1)))["requeued_at"]; got != "2025-11-24 17:00:00.123000" {
			t.Errorf("the dead letter's requeued_at is %v, want the next generation's arrival", got)
		}
		if got := s.Row(t, "failed_jobs WHERE job_id = ?", string(id(2)))["requeued_at"]; got != nil {
			t.Errorf("the bystander's requeued_at is %v", got)
		}
		got, err := s.Find(t.Context(), id(1))
		if err != nil || got.Status != job.Completed || got.Generation != 2 || string(got.Result) != string(second.Result) {
			t.Errorf("found %v %+v, want the latest generation", err, got)
		}
		if _, err := s.DB.Exec("UPDATE failed_jobs SET requeued_at = '2025-01-01 00:00:00.000000' WHERE job_id = ?",
			string(id(2))); err != nil {
			t.Fatal(err)
		}
		third := failed(2)
		third.Generation = 2
		record(t, w, third)
		if got := s.Row(t, "failed_jobs WHERE generation = 1 AND job_id = ?",
			string(id(2)))["requeued_at"].(string); !strings.HasPrefix(got, "2025-01-01") {
			t.Errorf("requeued_at was overwritten: %v", got)
		}
	})
}

// Queries use the primary key although the id column is ascii and the connection is utf8mb4.
func TestFindUsesTheKey(t *testing.T) {
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		s := archivetest.New(t, databasetest.MariaDB(t))
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		record(t, w, many(200)...)
		plan := s.Explain(t, "SELECT outcome FROM job_outcomes WHERE job_id = ?", string(id(1)))
		if plan["key"] != "PRIMARY" {
			t.Errorf("%v", plan)
		}
	})
}
