package pages

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// opsJobs returns a page of a list.
func opsJobs(next string, errors ...string) string {
	items := []map[string]any{}
	for i, text := range errors {
		items = append(items, map[string]any{
			"jobId": fmt.Sprintf("%s%03d", opsID[:33], i), "tier": "PAID", "type": "MY_OWN", "status": "FAILED", "attempts": 3,
			"lastError": text, "failureCause": "HANDLER_ERROR",
			"createdAt": "2026-11-22T19:59:00.000000Z", "completedAt": "2026-11-22T19:59:30.000000Z", "runAt": nil,
			"requeueRequestedAt": nil,
		})
	}
	body := map[string]any{"items": items, "next": nil}
	if next != "" {
		body["next"] = next
	}
	text, _ := json.Marshal(body)
	return string(text)
}

func TestJobs_AreFiltered(t *testing.T) {
	o := newOps()
	o.says("GET /api/jobs", 200, opsJobs("c2", evilText))
	w := o.open(t, "/dashboard/jobs?status=FAILED&tier=PAID&type=MY_OWN&cause=HANDLER_ERROR&cursor=c1", nil)
	o.did(t, "GET /api/jobs?cause=HANDLER_ERROR&cursor=c1&limit=50&status=FAILED&tier=PAID&type=MY_OWN")
	holds(t, w, 200, `href="/poll?jobId=`+opsID+`"`, "<option selected>FAILED</option>",
		"<option selected>MY_OWN</option>", "30.0 s",
		`href="/dashboard/jobs?cause=HANDLER_ERROR&amp;cursor=c2&amp;status=FAILED&amp;tier=PAID&amp;type=MY_OWN"`)
	lacks(t, w, "<script>alert", "<img src=x")

	waits := strings.NewReplacer(
		`"FAILED"`, `"SCHEDULED"`, `"runAt":null`, `"runAt":"2026-11-22T20:15:00.000000Z","retryCount":1`,
	).Replace(opsJobs("c2", "boom"))
	o.says("GET /api/jobs", 200, waits)
	w = o.open(t, "/dashboard/jobs?status=RETRYING&trace=t.1", nil)
	o.did(t, "GET /api/jobs?limit=50&status=RETRYING&traceId=t.1")
	holds(
		t,
		w,
		200,
		"<option selected>RETRYING</option>",
		`name="trace" value="t.1"`,
		"due <time",
		`href="/dashboard/jobs?cursor=c2&amp;status=RETRYING&amp;trace=t.1"`,
	)
	o.says("GET /api/jobs", 200, strings.ReplaceAll(opsJobs("", ""), `"FAILED"`, `"HELD"`))
	holds(t, o.open(t, "/dashboard/jobs?status=HELD", nil), 200, "<option selected>HELD</option>",
		`<span class="st is-idle">HELD</span>`)
	o.did(t, "GET /api/jobs?limit=50&status=HELD")
	o.says("GET /api/jobs", 200, waits)
	o.says("GET /api/jobs/"+opsID, 200, strings.TrimSuffix(strings.TrimPrefix(waits, `{"items":[`), `],"next":"c2"}`))
	holds(t, o.open(t, "/dashboard/jobs?status=RETRYING&id="+opsID, nil), 200, `href="/poll?jobId=`+opsID+`"`)

	o.says("GET /api/jobs", 200, opsJobs(""))
	w = o.open(t, "/dashboard/jobs", nil)
	o.did(t, "GET /api/jobs?limit=50")
	holds(t, w, 200, "No job matches")
	lacks(t, w, "Older")

	o.says("GET /api/jobs", 400, `{"status":400,"errorCode":"INVALID_REQUEST","detail":"cursor: no",`+
		`"errors":[{"field":"cursor","reason":"is not a cursor of this list"}]}`)
	holds(t, o.open(t, "/dashboard/jobs?cursor=<b>", nil), 400, "cursor: is not a cursor of this list")

	o.refuses("GET /api/jobs", 503, "SYSTEM_UNHEALTHY", "a store that this request needs does not answer")
	w = o.open(t, "/dashboard/jobs", nil)
	holds(t, w, 503, "data-heal", "a store that this request needs does not answer")
	lacks(t, w, "No job matches")
}

// The API cannot search in errors: the page reads a bounded number of jobs, and the next page goes on from there.
func TestJobs_AreSearchedByTheirErrors(t *testing.T) {
	o := newOps()
	asked := 0
	o.replies["GET /api/jobs"] = func(r *http.Request, _ string) (int, any) {
		asked++
		return 200, json.RawMessage(opsJobs(fmt.Sprint("c", asked), "connection refused", "Gone away"))
	}
	w := o.open(t, "/dashboard/jobs?text=gone+AWAY", nil)
	holds(t, w, 200, "Gone away", "The errors of 10 jobs were looked through, 5 match. There are older ones.",
		`cursor=c5&amp;text=gone&#43;AWAY`)
	lacks(t, w, "connection refused")
	if len(o.asked) != 5 || o.asked[0] != "GET /api/jobs?limit=100" || o.asked[4] != "GET /api/jobs?cursor=c4&limit=100" {
		t.Errorf("asked %q", o.asked)
	}
	o.replies["GET /api/jobs"] = func(r *http.Request, _ string) (int, any) {
		if r.URL.Query().Get("cursor") != "" {
			return 429, json.RawMessage(`{"status":429,"errorCode":"RATE_LIMITED","detail":"too many"}`)
		}
		return 200, json.RawMessage(opsJobs("c1", "Gone away"))
	}
	holds(t, o.open(t, "/dashboard/jobs?text=gone", nil), 200, "Gone away", "cursor=c1")
	// A page of the API may be empty and still have a next one.
	empty := 0
	o.replies["GET /api/jobs"] = func(*http.Request, string) (int, any) {
		if empty++; empty < 3 {
			return 200, json.RawMessage(opsJobs(fmt.Sprint("c", empty)))
		}
		return 200, json.RawMessage(opsJobs("", "there"))
	}
	w = o.open(t, "/dashboard/jobs", nil)
	holds(t, w, 200, opsID)
	lacks(t, w, "No job matches")
}

func TestJobs_AreFoundByTheirID(t *testing.T) {
	o := newOps()
	o.says("GET /api/jobs/"+opsID, 200,
		strings.TrimSuffix(strings.TrimPrefix(opsJobs("", "no"), `{"items":[`), `],"next":null}`))
	w := o.open(t, "/dashboard/jobs?id=+"+opsID+"+&tier=PAID", nil)
	o.did(t, "GET /api/jobs/"+opsID)
	holds(t, w, 200, `href="/poll?jobId=`+opsID+`"`)
	for _, other := range []string{"trace=t2", "status=RETRYING", "tier=PUBLIC", "status=COMPLETED", "type=X",
		"cause=PERMANENT_ERROR", "text=yes"} {
		w := o.open(t, "/dashboard/jobs?id="+opsID+"&"+other, nil)
		holds(t, w, 200, "No job matches")
		lacks(t, w, "/poll?jobId=")
	}
	o.refuses("GET /api/jobs/"+opsOther, 404, "JOB_NOT_FOUND", "There is no job with this id.")
	holds(t, o.open(t, "/dashboard/jobs?id="+opsOther, nil), 200, "No job matches")
	for _, id := range []string{"x", "../../admin/keys", opsID + "/events", opsID + "?x=1", "<b>", "%00"} {
		w := o.open(t, "/dashboard/jobs?id="+url.QueryEscape(id), nil)
		o.did(t)
		holds(t, w, 400, "is not a job id")
	}
}
