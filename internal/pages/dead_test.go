package pages

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestDead_AreListed(t *testing.T) {
	o := newOps()
	o.says("GET /admin/dead", 200, opsJobs("", evilText, "second"))
	w := o.open(t, "/dashboard/dead", nil)
	o.did(t, "GET /admin/dead?limit=100")
	holds(t, w, 200, "<b>2</b> dead letters", `name="one" value="`+opsID+`"`, "Requeue all 2", `href="/admin/dead/export"`,
		`name="tier" value=""`)
	lacks(t, w, "<script>alert", "Older")

	o.says("GET /admin/dead", 200, opsJobs("", "alone"))
	holds(t, o.open(t, "/dashboard/dead", nil), 200, "<b>1</b> dead letter<")

	// If there are more pages, the server counts.
	o.says("GET /admin/dead", 200, opsJobs("c1", "x"))
	o.says("GET /jobs/dead", 200, `{"items":[],"page":0,"size":1,"total":1204}`)
	holds(t, o.open(t, "/dashboard/dead", nil), 200, "<b>1,204</b> dead letters", `href="/dashboard/dead?cursor=c1"`)
	o.says("POST /admin/dead/requeue", 200, `{"matched":45,"requeued":0}`)
	w = o.open(t, "/dashboard/dead?tier=PAID&cause=HANDLER_ERROR&to=2026-05-02T00:00:00Z&cursor=c0", nil)
	o.did(t, "GET /admin/dead?cause=HANDLER_ERROR&cursor=c0&limit=100&tier=PAID&to=2026-05-02T00%3A00%3A00Z",
		`POST /admin/dead/requeue {"before":"2026-05-02T00:00:00Z","cause":"HANDLER_ERROR","dryRun":true,"limit":10000,`+
			`"tier":"PAID"}`)
	holds(t, w, 200, "<b>45</b> dead letters",
		`href="/admin/dead/export?cause=HANDLER_ERROR&amp;tier=PAID&amp;to=2026-05-02T00%3A00%3A00Z"`,
		`name="tier" value="PAID"`)
	w = o.open(t, "/dashboard/dead?from=2026-05-02T00:00:00Z", nil)
	o.did(t, "GET /admin/dead?from=2026-05-02T00%3A00%3A00Z&limit=100",
		`POST /admin/dead/requeue {"after":"2026-05-02T00:00:00Z","dryRun":true,"limit":10000}`)
	holds(t, w, 200, "<b>45</b>", `name="from" value="2026-05-02T00:00:00Z"`)
	o.refuses("POST /admin/dead/requeue", 503, "SYSTEM_UNHEALTHY", "away")
	holds(t, o.open(t, "/dashboard/dead?tier=PAID", nil), 200, opsID) // the list is shown without the count

	// A caller who may only read sees no buttons.
	o.says("GET /api/me", 200, `{"open":false,"name":"eve","role":"read-only","operator":true}`)
	w = o.open(t, "/dashboard/dead?tier=PAID", nil)
	o.did(t, "GET /admin/dead?limit=100&tier=PAID")
	lacks(t, w, `name="one"`, `name="scope"`, `type="checkbox" name="id"`)

	o.says("GET /admin/dead", 400,
		`{"status":400,"errorCode":"INVALID_REQUEST","detail":"from: no",`+
			`"errors":[{"field":"from","reason":"must be a time"}]}`)
	holds(t, o.open(t, "/dashboard/dead?from=yesterday", nil), 400, "from: must be a time", `value="yesterday"`)
	o.refuses("GET /admin/dead", 503, "SYSTEM_UNHEALTHY", "a store that this request needs does not answer")
	w = o.open(t, "/dashboard/dead", nil)
	holds(t, w, 503, "data-heal")
	lacks(t, w, "No dead letters")
	o.refuses("GET /admin/dead", 403, "FORBIDDEN", "the role submit may not do this")
	holds(t, o.open(t, "/dashboard/dead", nil), 403, "the role submit may not do this")
}

// A form that does not say which letters to requeue does nothing.
func TestRequeue_NothingChosenIsNothingDone(t *testing.T) {
	for name, form := range map[string]url.Values{
		"nothing":       {},
		"only a filter": {"tier": {"PAID"}},
		"only ids":      {"id": {opsID}},
		"no scope":      {"scope": {""}, "one": {""}, "id": {opsID}},
		"another scope": {"scope": {"everything"}, "confirmed": {"yes"}, "expected": {"5"}},
		"none selected": {"scope": {"selected"}},
		"no id":         {"one": {"../../admin/keys"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOps()
			w := o.open(t, "/dashboard/dead/requeue", form)
			goes(t, w, "/dashboard/dead", "trouble", "")
			to, _ := url.Parse(w.Header().Get("Location"))
			if to.Query().Get("trouble") == "" || to.Query().Get("done") != "" || to.Query().Get("tier") != form.Get("tier") {
				t.Errorf("went to %s", to)
			}
			o.did(t)
		})
	}
}

// A dismissal of the list asks first, and comes back to the list with its filter.
func TestDismiss_OfTheList(t *testing.T) {
	o := newOps()
	o.says("POST /admin/dead/"+opsID+"/dismiss", 200, `{"jobId":"`+opsID+`","status":"FAILED"}`)
	form := url.Values{"one": {opsID}, "tier": {"PAID"}, "cause": {"KILLED"}}
	w := o.open(t, "/dashboard/dead/dismiss", form)
	for _, has := range []string{`name="one" value="` + opsID, `name="tier" value="PAID"`, `name="cause" value="KILLED"`,
		`action="/dashboard/dead/dismiss"`} {
		if w.Code != 200 || !strings.Contains(w.Body.String(), has) {
			t.Errorf("%d, without %s", w.Code, has)
		}
	}
	o.did(t)
	form.Set("confirmed", "yes")
	goes(t, o.open(t, "/dashboard/dead/dismiss", form), "/dashboard/dead", "done", "The dead letter was dismissed")
	o.did(t, "POST /admin/dead/"+opsID+"/dismiss")
	o.refuses("POST /admin/dead/"+opsID+"/dismiss", 409, "INVALID_STATE_TRANSITION", "the job is PENDING")
	goes(t, o.open(t, "/dashboard/dead/dismiss", form), "/dashboard/dead", "trouble", "the job's state does not allow that")
	o.did(t, "POST /admin/dead/"+opsID+"/dismiss")
	goes(t, o.open(t, "/dashboard/dead/dismiss", url.Values{"one": {"../7"}, "confirmed": {"yes"}}), "/dashboard/dead",
		"trouble", "nothing was done")
	o.did(t)
}

func TestRequeue_OneAndTheSelected(t *testing.T) {
	o := newOps()
	o.hub = NewHub(HubOptions{})
	for _, id := range []string{opsID, opsOther, opsThird} {
		o.says("POST /jobs/"+id+"/retry", 202, `{"jobId":"`+id+`","status":"PENDING","traceId":"t"}`)
	}
	// The value one, from the pressed button, wins over a scope.
	goes(t, o.open(t, "/dashboard/dead/requeue",
		url.Values{"one": {opsID}, "scope": {"all"}, "id": {opsOther}, "tier": {"PAID"}}), "/dashboard/dead", "done",
		"The dead letter was requeued.")
	o.did(t, "POST /jobs/"+opsID+"/retry")
	if items, _ := o.hub.Recent(9); len(items) != 1 ||
		!strings.Contains(string(items[0].Data), "ann requeued it") ||
		!strings.Contains(string(items[0].Data), `"kind":"requeue"`) {
		t.Errorf("the feed: %+v", items)
	}
	goes(t, o.open(t, "/dashboard/dead/requeue", url.Values{"scope": {"selected"}, "id": {opsOther, opsID, opsOther}}),
		"/dashboard/dead", "done", "Requeued 2 dead letters.")
	o.did(t, "POST /jobs/"+opsID+"/retry", "POST /jobs/"+opsOther+"/retry")

	// An error about one letter does not stop the others.
	o.refuses("POST /jobs/"+opsID+"/retry", 409, "INVALID_STATE_TRANSITION", "the job is PENDING")
	goes(
		t, o.open(t, "/dashboard/dead/requeue", url.Values{"scope": {"selected"}, "id": {opsID, opsOther, opsThird}}),
		"/dashboard/dead", "trouble", "Requeued 2 of 3. The latest error: the job's state does not allow that",
	)
	goes(
		t, o.open(t, "/dashboard/dead/requeue", url.Values{"one": {opsID}}), "/dashboard/dead", "trouble",
		"The dead letter was not requeued: the job's state does not allow that",
	)
	// An error of the server stops the rest.
	o.refuses("POST /jobs/"+opsOther+"/retry", 503, "SYSTEM_UNHEALTHY", "a store that this request needs does not answer")
	goes(
		t, o.open(t, "/dashboard/dead/requeue", url.Values{"scope": {"selected"}, "id": {opsID, opsOther, opsThird}}),
		"/dashboard/dead", "trouble", "Requeued 0 of 3. The latest error: Redis or SQL does not answer",
	)
	o.did(t, "POST /jobs/"+opsID+"/retry", "POST /jobs/"+opsOther+"/retry")
	// The key was revoked meanwhile.
	o.says("POST /jobs/"+opsID+"/retry", 202, `{}`)
	o.refuses("POST /jobs/"+opsOther+"/retry", 401, "UNAUTHORIZED", "This needs an API key")
	goes(t, o.open(t, "/dashboard/dead/requeue", url.Values{"scope": {"selected"}, "id": {opsID, opsOther, opsThird}}),
		"/dashboard/dead", "trouble", "Requeued 1 of 3.")

	many := url.Values{"scope": {"selected"}}
	for i := range 101 {
		many.Add("id", fmt.Sprintf("%s%03d", opsID[:33], i))
	}
	goes(t, o.open(t, "/dashboard/dead/requeue", many), "/dashboard/dead", "trouble", "at most 100")
	o.did(t)
}

// All letters can be requeued only after their number was shown, and never more than that number.
func TestRequeue_AllIsConfirmedWithTheCountOfTheDryRun(t *testing.T) {
	o := newOps()
	o.hub = NewHub(HubOptions{})
	o.replies["POST /admin/dead/requeue"] = func(_ *http.Request, body string) (int, any) {
		if strings.Contains(body, `"dryRun":true`) {
			return 200, json.RawMessage(`{"matched":1204,"requeued":0}`)
		}
		return 200, json.RawMessage(`{"matched":1300,"requeued":1204}`)
	}
	filter := url.Values{
		"scope": {"all"}, "tier": {"PAID"}, "type": {"SEND_EMAIL"}, "cause": {"HANDLER_ERROR"},
		"from": {"2026-05-01T00:00:00Z"}, "to": {"2026-05-02T00:00:00Z"},
	}
	const asking = `{"after":"2026-05-01T00:00:00Z","before":"2026-05-02T00:00:00Z","cause":"HANDLER_ERROR",` +
		`"dryRun":true,"limit":10000,"tier":"PAID","type":"SEND_EMAIL"}`
	w := o.open(t, "/dashboard/dead/requeue", filter)
	o.did(t, "POST /admin/dead/requeue "+asking)
	holds(t, w, 200, "Requeue 1,204 dead letters?", ">Requeue 1,204</button>", `name="confirmed" value="yes"`,
		`name="scope" value="all"`, `name="expected" value="1204"`,
		`name="tier" value="PAID"`, `name="type" value="SEND_EMAIL"`, `name="cause" value="HANDLER_ERROR"`,
		`name="to" value="2026-05-02T00:00:00Z"`,
		`name="from" value="2026-05-01T00:00:00Z"`, `action="/dashboard/dead/requeue"`,
		`href="/dashboard/dead?cause=HANDLER_ERROR&amp;from=2026-05-01T00%3A00%3A00Z&amp;tier=PAID`+
			`&amp;to=2026-05-02T00%3A00%3A00Z&amp;type=SEND_EMAIL"`)

	for _, bad := range []url.Values{
		{"confirmed": {"yes"}}, {"expected": {"5"}}, {"confirmed": {"no"}, "expected": {"5"}},
		{"confirmed": {"yes"}, "expected": {"0"}},
		{"confirmed": {"yes"}, "expected": {"10001"}}, {"confirmed": {"yes"}, "expected": {"all"}},
	} {
		for name := range filter {
			bad[name] = filter[name]
		}
		holds(t, o.open(t, "/dashboard/dead/requeue", bad), 200, "Requeue 1,204 dead letters?")
		o.did(t, "POST /admin/dead/requeue "+asking)
	}

	filter.Set("confirmed", "yes")
	filter.Set("expected", "1204")
	w = o.open(t, "/dashboard/dead/requeue", filter)
	o.did(t, "POST /admin/dead/requeue "+
		`{"after":"2026-05-01T00:00:00Z","before":"2026-05-02T00:00:00Z","cause":"HANDLER_ERROR","dryRun":false,`+
		`"limit":1204,"tier":"PAID","type":"SEND_EMAIL"}`)
	goes(t, w, "/dashboard/dead", "done", "Requeued 1,204 dead letters.")
	goes(t, w, "/dashboard/dead", "tier", "PAID")
	if items, _ := o.hub.Recent(9); len(items) != 1 ||
		!strings.Contains(string(items[0].Data), "ann requeued 1,204 dead letters") {
		t.Errorf("the feed: %+v", items)
	}

	o.says("POST /admin/dead/requeue", 200, `{"matched":1300,"requeued":90}`)
	goes(t, o.open(t, "/dashboard/dead/requeue", filter), "/dashboard/dead", "trouble", "Requeued 90 of 1,204")
	o.refuses("POST /admin/dead/requeue", 504, "OUTCOME_UNKNOWN", "Some of the dead letters may get a new life")
	goes(t, o.open(t, "/dashboard/dead/requeue", filter), "/dashboard/dead", "trouble", "The change may or may not")
	o.refuses("POST /admin/dead/requeue", 403, "FORBIDDEN", "the role read-only may not do this")
	goes(t, o.open(t, "/dashboard/dead/requeue", filter), "/dashboard/dead", "trouble", "the key may not do this")

	filter.Del("confirmed")
	holds(t, o.open(t, "/dashboard/dead/requeue", filter), 403, "may not do this")
	o.says("POST /admin/dead/requeue", 200, `{"matched":0,"requeued":0}`)
	goes(t, o.open(t, "/dashboard/dead/requeue", filter), "/dashboard/dead", "trouble", "none was requeued")
	o.says("POST /admin/dead/requeue", 200, `{"matched":10000,"requeued":0}`)
	holds(t, o.open(t, "/dashboard/dead/requeue", url.Values{"scope": {"all"}}), 200, "Requeue 10,000 dead letters?",
		"There may be more")
	o.says("POST /admin/dead/requeue", 200, `{"matched":1,"requeued":0}`)
	holds(t, o.open(t, "/dashboard/dead/requeue", url.Values{"scope": {"all"}, "type": {evilText}}), 200,
		"Requeue 1 dead letter?", "&lt;script&gt;")
	lacks(t, o.open(t, "/dashboard/dead/requeue", url.Values{"scope": {"all"}, "type": {evilText}}), "<script>alert")
	// A time that cannot be parsed gets the API's refusal.
	o.says("POST /admin/dead/requeue", 400,
		`{"status":400,"errorCode":"INVALID_REQUEST","detail":"after: is not a time","errors":[{"field":"after",`+
			`"reason":"is not a time"}]}`)
	holds(t, o.open(t, "/dashboard/dead/requeue", url.Values{"scope": {"all"}, "from": {"yesterday"}}), 400,
		"after: is not a time")
}
