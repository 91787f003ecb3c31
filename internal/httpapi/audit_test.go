package httpapi

import (
	"testing"

	"github.com/tierq/tierq/internal/job"
)

func TestAudit(t *testing.T) {
	t.Attr("proves", "F53")
	r := newRooms(t)
	ran := 0
	r.audit = func(run bool) (Audit, error) {
		if run {
			ran++
		}
		return Audit{
			Report: &job.AuditReport{
				StartedAt: aMoment, Seconds: 1.5, By: "host-1", Looks: 7, Whole: true,
				Totals: []job.FindingTotal{{Result: job.Repaired, Kind: "counter", Count: 1}},
				Findings: []job.Finding{
					{Partition: 0, Result: job.Repaired, Kind: "counter", Detail: "PAID:ready was 2, counted 1"},
					{ID: knownID, Partition: -1, Result: job.Quarantined, Kind: "no_job"},
				},
			},
			Quarantined: []job.QuarantinedJob{{ID: "x", Partition: 1, Since: aMoment, There: true}}, Total: 120,
			Checks: []AuditCheck{{"redis", "ok", "7.2", ""}, {"sql", "fail", "it does not answer", "start it"}},
		}, nil
	}
	const want = `{"report":{"startedAt":"2026-05-01T11:31:57.961931Z","seconds":1.5,"by":"host-1","looks":7,` +
		`"whole":true,"problem":"",` +
		`"totals":[{"result":"REPAIRED","kind":"counter","count":1}],` +
		`"findings":[{"jobId":null,"partition":0,"result":"REPAIRED","kind":"counter","detail":"PAID:ready was 2, counted 1"},` +
		`{"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4","partition":null,"result":"QUARANTINED","kind":"no_job",` +
		`"detail":""}]},` +
		`"quarantine":{"total":120,"items":[{"jobId":"x","partition":1,"since":"2026-05-01T11:31:57.961931Z",` +
		`"there":true}]},` +
		`"checks":[{"name":"redis","status":"ok","detail":"7.2"},{"name":"sql","status":"fail","detail":"it does not ` +
		`answer","fix":"start it"}],` +
		`"timestamp":"2026-05-01T11:31:57.961931Z"}`
	wantJSON(t, r.do("GET", "/admin/consistency", ""), 200, want)
	if ran != 0 {
		t.Error("a look made a pass")
	}
	wantJSON(t, r.do("POST", "/admin/consistency", ""), 200, want)
	wantJSON(t, r.json("POST", "/admin/consistency", "{}"), 200, want)
	if ran != 2 {
		t.Errorf("%d passes", ran)
	}
	wantProblem(t, r.json("POST", "/admin/consistency", `{"repair":true}`), 400, "INVALID_REQUEST", "repair")
	wantProblem(t, r.do("GET", "/admin/consistency?repair", ""), 400, "INVALID_REQUEST", "repair")
	wantProblem(t, r.do("POST", "/admin/consistency?repair", ""), 400, "INVALID_REQUEST", "repair")

	r.audit = func(bool) (Audit, error) { return Audit{}, nil }
	wantJSON(t, r.do("GET", "/admin/consistency", ""), 200,
		`{"report":null,"quarantine":{"total":0,"items":[]},"checks":[],"timestamp":"2026-05-01T11:31:57.961931Z"}`)
	r.audit = func(bool) (Audit, error) { return Audit{}, job.ErrUnavailable }
	wantProblem(t, r.do("GET", "/admin/consistency", ""), 503, "SYSTEM_UNHEALTHY")
	wantProblem(t, r.do("POST", "/admin/consistency", ""), 503, "SYSTEM_UNHEALTHY")
	r.audit = func(bool) (Audit, error) { return Audit{}, job.ErrAmbiguous }
	wantProblem(t, r.do("POST", "/admin/consistency", ""), 504, "OUTCOME_UNKNOWN")
}
