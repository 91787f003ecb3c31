package pages

import (
	"net/url"
	"strings"
	"testing"
)

const opsFlow = `{"flowId":"` + opsID + `","name":"a&b","state":"STUCK","cancelRequested":false,` +
	`"createdAt":"2026-05-01T11:31:57Z","endedAt":null,` +
	`"counts":{"waiting":1,"living":0,"completed":0,"failed":1},"jobs":[` +
	`{"name":"publish","jobId":"` + opsOther + `","status":"WAITING","tier":"PAID","type":"PUBLISH","after":["resize"],` +
	`"onFailure":"wait"},{"name":"resize","jobId":"` + opsID + `","status":"FAILED","tier":"PAID","type":"RESIZE",` +
	`"after":[],"onFailure":"cancel"}]}`

// The pages list flows, show one with its drawing, and cancel it.
func TestFlows(t *testing.T) {
	o := newOps()
	o.says("GET /api/flows", 200, `{"items":[`+opsFlow+`],"next":"c1"}`)
	o.says("GET /api/flows/"+opsID, 200, opsFlow)
	o.says("POST /api/flows/"+opsID+"/cancel", 200, opsFlow)
	w := o.open(t, "/flows?state=STUCK", nil)
	holds(t, w, 200, "a&amp;b", `href="/flows/`+opsID+`"`, "0 of 2", "/flows?cursor=c1&amp;state=STUCK",
		`<span class="st is-warn">STUCK</span>`)
	o.did(t, "GET /api/flows?limit=50&state=STUCK")
	w = o.open(t, "/flows/"+opsID, nil)
	holds(t, w, 200, `<svg class="flowdraw"`, ">resize</text>", `class="flowjob is-bad"`,
		`href="/poll?jobId=`+opsOther+`">publish</a>`, "Requeue that job, or cancel the flow",
		`action="/flows/`+opsID+`/cancel"`, `id="refresh" data-again="yes"`)
	o.did(t, "GET /api/flows/"+opsID)
	w = o.open(t, "/flows/"+opsID+"/cancel", url.Values{"reason": {"enough"}})
	goes(t, w, "/flows/"+opsID, "done", "The flow is cancelled")
	o.did(t, "POST /api/flows/"+opsID+`/cancel {"reason":"enough"}`)
	holds(t, o.open(t, "/flows/nope", nil), 404, "This page does not exist")
	o.says("GET /api/flows/"+opsID, 200, strings.Replace(opsFlow, `"endedAt":null`, `"endedAt":"2026-05-01T11:31:59Z"`, 1))
	holds(t, o.open(t, "/flows/"+opsID, nil), 200, `id="refresh" data-again=""`)
	o.refuses("GET /api/flows/"+opsID, 404, "NOT_FOUND", "there is no such flow")
	holds(t, o.open(t, "/flows/"+opsID, nil), 404)
}
