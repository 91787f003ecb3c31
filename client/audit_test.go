package client

import (
	"errors"
	"testing"
	"time"

	"github.com/tierq/tierq/client/internal/fake"
)

func TestAudit(t *testing.T) {
	s, c := newServer(t)
	const text = `{"report":{"startedAt":"2026-05-01T11:31:57.961931Z","seconds":1.5,"by":"w1","looks":7,"whole":false,` +
		`"problem":"it was cut short",` +
		`"totals":[{"result":"REPAIRED","kind":"counter","count":1}],"findings":[{"jobId":null,"partition":0,` +
		`"result":"REPAIRED","kind":"counter","detail":"x"}]},` +
		`"quarantine":{"total":3,"items":[{"jobId":"x","partition":1,"since":"2026-05-01T11:31:57Z","there":true}]},` +
		`"checks":[{"name":"sql","status":"fail","detail":"it does not answer","fix":"start it"}],` +
		`"timestamp":"2026-05-01T11:31:57.961931Z","new":1}`
	answers(s, "GET /admin/consistency", 200, text)
	got, err := c.Audit(soon(t))
	r := got.Report
	if err != nil || string(got.Raw) != text || r == nil || r.Seconds != 1.5 || r.Whole || r.Problem == "" ||
		r.Totals[0] != (FindingTotal{"REPAIRED", "counter", 1}) {
		t.Fatalf("%+v, %v", got, err)
	}
	if f := r.Findings[0]; f.JobID != "" || *f.Partition != 0 || f.Detail != "x" ||
		got.Checks[0] != (AuditCheck{"sql", "fail", "it does not answer", "start it"}) {
		t.Errorf("%+v", got)
	}
	if q := got.Quarantine; q.Total != 3 ||
		q.Items[0] != (QuarantinedJob{"x", 1, time.Date(2026, 5, 1, 11, 31, 57, 0, time.UTC), true}) {
		t.Errorf("%+v", q)
	}
}

func TestRunAudit(t *testing.T) {
	s, c := newServer(t)
	asked := answers(s, "POST /admin/consistency", 200, `{"report":null,"quarantine":{"total":0,"items":[]},"checks":[]}`)
	if got, err := c.RunAudit(soon(t)); err != nil || got.Report != nil || len(*asked) != 1 {
		t.Errorf("%+v, %v, %v", got, err, *asked)
	}
	s.Faults(firstOnly(99, fake.Fault{Status: 504, Code: "OUTCOME_UNKNOWN"}))
	if _, err := c.RunAudit(soon(t)); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("in doubt: %v", err)
	}
}
