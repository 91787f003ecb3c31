package httpapi

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// An operator's change is recorded: the actor, his address, the action, the state before and after, and the
// outcome. A submitter's change of his own jobs is not recorded, and neither is a request that is not valid.
func TestChanges_AreRecorded(t *testing.T) {
	const admin, open, submit = "admin", "open", "submit"
	id := string(knownID)
	for _, tc := range []struct {
		method, path, body string
		by                 string
		err                error
		want               string // action target outcome before after; "" = nothing
	}{
		{"POST", "/admin/keys", `{"name":"ci","role":"worker"}`, admin, nil,
			"key.create " + knownKey + ` done  {"id":"` + knownKey +
				`","name":"ci","role":"worker","tiers":[],"types":[],"queues":[],"rate":0,"burst":0,"inFlight":0,` +
				keyRest + `}`},
		{"POST", "/admin/keys", `{"name":"ci","role":"worker"}`, admin, job.ErrUnavailable,
			`key.create  refused  {"id":"","name":"ci","role":"worker","tiers":[],"types":[],"queues":[],"rate":0,` +
				`"burst":0,"inFlight":0,` +
				strings.Replace(keyRest, `"2026-05-01T11:31:57.961931Z"`, "null", 1) + `}`},
		{"POST", "/admin/keys", `{"name":"ci"}`, admin, nil, ""},
		{"POST", "/admin/keys", `{"name":"ci","role":"admin"}`, submit, nil, ""},
		{"POST", "/admin/keys/" + knownKey + "/rotate", `{"graceSeconds":60}`, admin, nil,
			"key.rotate " + knownKey + ` done  {"graceSeconds":60}`},
		{"POST", "/admin/keys/" + knownKey + "/rotate", "", admin, job.ErrNoKey,
			"key.rotate " + knownKey + ` refused  {"graceSeconds":86400}`},
		{"DELETE", "/admin/keys/" + knownKey, "", admin, job.ErrAmbiguous,
			"key.revoke " + knownKey + ` unknown  {"id":"` + knownKey + `"`},
		{"PUT", "/admin/tiers/PAID", goldPlan, admin, nil, `tier.put PAID done {"tier":"PAID","priority":1,`},
		{"PUT", "/admin/tiers/GOLD", goldPlan, admin, job.ErrChanged, `tier.put GOLD refused  {"tier":"GOLD","priority":4,`},
		{"PUT", "/admin/tiers/GOLD", goldPlan, open, job.ErrAmbiguous, `tier.put GOLD unknown  {"tier":"GOLD","priority":4,`},
		{"DELETE", "/admin/jobs/" + id, "", admin, nil, "job.cancel " + id + ` done  {"answer":"CANCELLED"}`},
		{"DELETE", "/api/jobs/" + id, "", open, job.ErrWrongState, "job.cancel " + id + " refused  {}"},
		{"POST", "/api/jobs/" + id + "/cancel", "", submit, nil, ""},
		{"POST", "/jobs/" + id + "/retry", "", submit, nil, ""},
		{"POST", "/jobs/" + id + "/retry", "", open, nil, "job.requeue " + id + " done  "},
		{"POST", "/admin/jobs/" + id + "/resubmit", "", admin, job.ErrAmbiguous, "job.requeue " + id + " unknown  "},
		{"POST", "/admin/dead/requeue",
			`{"limit":5,"tier":"PAID","before":"2026-05-01T00:00:00Z","after":"2026-04-30T00:00:00Z"}`, admin, nil,
			`dead.requeue limit=5 tier=PAID after=2026-04-30T00:00:00.000000Z before=2026-05-01T00:00:00.000000Z done  ` +
				`{"matched":7,"requeued":0}`},
		{"POST", "/admin/dead/requeue", `{"limit":5}`, open, job.ErrUnavailable,
			`dead.requeue limit=5 refused  {"matched":7,"requeued":0}`},
		{"POST", "/admin/dead/requeue", `{"limit":5,"dryRun":true}`, admin, nil, ""},
		{"POST", "/admin/consistency", "", admin, nil,
			`consistency.repair  done  {"whole":true,"totals":[{"result":"REPAIRED","kind":"counter","count":2}]}`},
		{"POST", "/admin/consistency", "", admin, job.ErrAmbiguous, "consistency.repair  unknown  "},
		{"GET", "/admin/keys", "", admin, nil, ""},
	} {
		r := newRooms(t)
		caller := callers[tc.by]
		caller.Address = netip.MustParseAddr("203.0.113.7")
		if caller.Key.Name = ""; !caller.Open {
			caller.Key.Name = "Ada"
		}
		r.behind(caller)
		r.ring.err = tc.err
		r.find = func(id job.ID) (job.Job, error) { return job.Job{ID: id, Owner: mine, Status: job.Failed}, nil }
		r.store = func(p job.Plan, _ int64) (job.Plan, error) { p.Version++; return p, tc.err }
		r.cancel = func(job.ID) (job.Word, error) {
			if tc.err != nil {
				return "", tc.err
			}
			return job.WasCancelled, nil
		}
		r.requeue = func(job.ID, string) error { return tc.err }
		r.requeueDead = func(job.Filter, int, bool) (int, int, error) { return 7, 0, tc.err }
		r.audit = func(bool) (Audit, error) {
			if tc.err != nil {
				return Audit{}, tc.err
			}
			return Audit{Report: &job.AuditReport{Whole: true,
				Totals: []job.FindingTotal{{Result: job.Repaired, Kind: "counter", Count: 2}}}}, nil
		}
		rec := r.json(tc.method, tc.path, tc.body, "X-Trace-Id", "trace-7")
		if tc.want == "" {
			if r.told.changes != nil {
				t.Errorf("%s %s: recorded %+v", tc.method, tc.path, r.told.changes)
			}
			continue
		}
		if len(r.told.changes) != 1 {
			t.Errorf("%s %s: %d changes: %d %s", tc.method, tc.path, len(r.told.changes), rec.Code, rec.Body)
			continue
		}
		c := r.told.changes[0]
		if got := fmt.Sprintf("%s %s %s %s %s", c.Action, c.Target, c.Outcome, c.Before, c.After); !strings.HasPrefix(got,
			tc.want) || strings.HasSuffix(tc.want, "  ") && got != tc.want {
			t.Errorf("%s %s: recorded %q, want %q", tc.method, tc.path, got, tc.want)
		}
		if c.Actor != caller.Key.ID || c.Name != caller.Key.Name || c.Address != "203.0.113.7" || c.TraceID != "trace-7" ||
			!c.At.Equal(aMoment) {
			t.Errorf("%s %s: recorded of %+v", tc.method, tc.path, c)
		}
		if (tc.err == nil) != (rec.Code < 400) {
			t.Errorf("%s %s: %d", tc.method, tc.path, rec.Code)
		}
	}
}

func TestChanges_Page(t *testing.T) {
	r := newRooms(t)
	r.behind(callers["read-only"])
	r.told.next = "41"
	r.told.changes = []job.Change{
		{ID: 43, At: aMoment, Actor: mine, Name: "<script>alert(1)</script>", Address: "2001:db8::1", Action: "tier.put",
			Target: "PAID",
			Before: []byte(`{"tier":"PAID"}`), After: []byte(`{"tier":"PAID","share":1}`), Outcome: "done", TraceID: "trace-7"},
		{ID: 42, At: aMoment, Action: "key.create", Target: knownKey, Outcome: "unknown"},
	}
	rec := r.do("GET", "/admin/audit?limit=2&cursor=44", "")
	wantJSON(t, rec, 200, `{"items":[{"id":43,"at":"2026-05-01T11:31:57.961931Z","actor":"`+mine+`","name":"<script>alert(1)</script>","address":"2001:db8::1",
		"action":"tier.put","target":"PAID","before":{"tier":"PAID"},"after":{"tier":"PAID","share":1},"outcome":"done","traceId":"trace-7"},
		{"id":42,"at":"2026-05-01T11:31:57.961931Z","actor":null,"name":null,"address":null,"action":"key.create","target":"`+knownKey+`",
		"before":null,"after":null,"outcome":"unknown","traceId":null}],"next":"41"}`)
	if r.told.cursor != "44" || r.told.limit != 2 {
		t.Errorf("asked for %q, %d", r.told.cursor, r.told.limit)
	}
	for query, field := range map[string]string{"limit=0": "limit", "limit=101": "limit", "cursor=%00": "cursor",
		"days=1": "days"} {
		wantProblem(t, r.do("GET", "/admin/audit?"+query, ""), 400, "INVALID_REQUEST", field)
	}
	r.told.err = fmt.Errorf("list: %w", job.ErrBadCursor)
	wantProblem(t, r.do("GET", "/admin/audit?cursor=x", ""), 400, "INVALID_REQUEST", "cursor")
	if r.told.err = errors.New("inner secret"); strings.Contains(r.do("GET", "/admin/audit", "").Body.String(), "inner") {
		t.Error("internal text is told")
	}
}
