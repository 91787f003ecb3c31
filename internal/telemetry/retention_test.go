package telemetry

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// The gauge of rows is absent until the rows were counted; the counters of deletions begin at 0; an unknown table
// makes no series.
func TestRetentionMetrics(t *testing.T) {
	m := NewMetrics("test", &job.PlanBook{})
	page := func() string {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	if text := page(); strings.Contains(text, "tierq_sql_rows{") ||
		!strings.Contains(text, `tierq_sql_rows_deleted_total{table="job_results"} 0`) ||
		!strings.Contains(text, `tierq_files_deleted_total{kind="mail"} 0`) {
		t.Error("before anything was counted: " + text)
	}
	m.SQLRows(map[string]int64{"job_outcomes": 12, "changes": 0, "goose_db_version": 7})
	m.RowsDeleted("job_results", 3)
	m.RowsDeleted("job_results", 4)
	m.FilesDeleted("mail", 2)
	text := page()
	for _, want := range []string{
		`tierq_sql_rows{table="job_outcomes"} 12`, `tierq_sql_rows{table="changes"} 0`,
		`tierq_sql_rows_deleted_total{table="job_results"} 7`,
		`tierq_files_deleted_total{kind="mail"} 2`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(text, "goose") {
		t.Error("a table that is not in the list has a series")
	}
	var none *Metrics
	none.SQLRows(nil)
	none.RowsDeleted("changes", 1)
	none.FilesDeleted("mail", 1)
}
