package archive_test

import (
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// Progress and logs are written with the outcome, read with the job, and deleted with it.
func TestLogsAndProgress(t *testing.T) {
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		dead, done, plain, quiet := failed(1), completed(1), completed(2), cancelled(3)
		done.Generation, done.Attempt = 2, 5
		text := strings.Repeat("\"<\x01ü", 900) // JSON escapes most of it
		dead.Log = []string{"1 1 1777635117961 INFO 3 a\nb{\"n\":1}", "1 7 1777635117961 GAP 1 6"}
		done.Log = []string{"5 1 1777635117961 ERROR 4500 " + text, "no line"}
		done.Progress = &job.Progress{At: arrival, Done: 3, Total: 9, Note: "50 % + ü"}
		quiet.Progress = &job.Progress{At: arrival, Done: 1}
		record(t, w, dead, plain, quiet)
		record(t, w, done)
		record(t, w, done) // again: the first stands
		if n := s.Count(t, "job_logs"); n != 3 {
			t.Errorf("%d rows", n)
		}
		lines, err := s.Logs(t.Context(), id(1))
		if err != nil || len(lines) != 3 || lines[0].Text != "a\nb" ||
			string(lines[0].Attrs) != `{"n":1}` || lines[1].Lost != 6 ||
			lines[2].Text != text || lines[2].Level != "ERROR" || lines[2].Seq() != 5_000_001 {
			t.Errorf("%v, %+v", err, lines)
		}
		for n, want := range map[int]*job.Progress{1: done.Progress, 2: nil, 3: quiet.Progress} {
			j, err := s.Find(t.Context(), id(n))
			if err != nil || (j.Progress == nil) != (want == nil) || want != nil && *j.Progress != *want ||
				(j.LogBytes > 0) != (n == 1) {
				t.Errorf("job %d: %+v of %d bytes, %v", n, j.Progress, j.LogBytes, err)
			}
		}
		if lines, err := s.Logs(t.Context(), id(2)); err != nil || len(lines) > 0 {
			t.Errorf("a job that told nothing: %v, %v", lines, err)
		}
		execute(t, s.DB, "UPDATE job_logs SET log = 'torn' WHERE generation = 1")
		if lines, err := s.Logs(t.Context(), id(1)); err != nil || len(lines) != 1 {
			t.Errorf("a torn log hides the other: %v, %v", lines, err)
		}
		deleted, err := s.DeleteJobs(t.Context(), []job.OldJob{{ID: id(1), Generation: 2}, {ID: id(3), Generation: 1}})
		if err != nil || deleted["job_logs"] != 3 || s.Count(t, "job_logs") != 0 {
			t.Errorf("deleted %v, %v", deleted, err)
		}
	})
}
