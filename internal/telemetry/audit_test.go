package telemetry

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func TestAuditIsCounted(t *testing.T) {
	t.Attr("proves", "F53")
	m := measured()
	page := func() string {
		rec := httptest.NewRecorder()
		m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
		return rec.Body.String()
	}
	text := page()
	if !strings.Contains(text, `tierq_audit_findings_total{kind="no_job",result="quarantined"} 0`) ||
		strings.Contains(text, "tierq_quarantined") || strings.Contains(text, "tierq_audit_pass") {
		t.Errorf("before the first pass: %s", text)
	}
	m.AuditFound(job.Finding{Result: job.Repaired, Kind: "lost"}, 3)
	m.AuditFound(job.Finding{Result: job.Reported, Kind: "something new"}, 1)
	m.Quarantined(2)
	m.AuditEnded(job.AuditReport{StartedAt: time.Unix(1777, 0), Seconds: 1.5})
	text = page()
	for _, want := range []string{
		`tierq_audit_findings_total{kind="lost",result="repaired"} 3`,
		`tierq_audit_findings_total{kind="other",result="reported"} 1`,
		"\ntierq_quarantined 2", "\ntierq_audit_last_pass_timestamp_seconds 1777", "\ntierq_audit_pass_seconds 1.5",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	var none *Metrics
	none.AuditFound(job.Finding{}, 1)
	none.Quarantined(1)
	none.AuditEnded(job.AuditReport{})
}
