package pages

import (
	"net/url"
	"strings"
	"testing"
)

const opsBatch = `{"batchId":"` + opsID + `","name":"a&b","tier":"PAID","state":"STUCK","round":2,"sealed":true,` +
	`"total":4,"living":0,"completed":3,"failed":1,"cancelled":0,"expired":0,"progress":1,` +
	`"then":{"type":"MAIL","on":"succeeded"},` +
	`"thenJobId":null,"createdAt":"2026-05-01T11:31:57Z","endedAt":"2026-05-01T11:31:59Z","cancelledAt":null}`

// The pages list batches, show one with the members that failed, seal it and cancel it.
func TestBatches(t *testing.T) {
	o := newOps()
	o.says("GET /api/batches", 200, `{"items":[`+opsBatch+`],"next":"c1"}`)
	o.says("GET /api/batches/"+opsID, 200, opsBatch)
	o.says("GET /api/batches/"+opsID+"/members", 200, `{"items":[{"jobId":"`+opsOther+`","status":"FAILED",`+
		`"generation":1,"endedAt":"2026-05-01T11:31:58Z"}],"next":null}`)
	o.says("POST /api/batches/"+opsID+"/seal", 200, opsBatch)
	o.says("POST /api/batches/"+opsID+"/cancel", 200, `{"batchId":"`+opsID+`","cancelled":2000,"asked":0,"next":"n"}`)
	w := o.open(t, "/batches", nil)
	holds(t, w, 200, "a&amp;b", `href="/batches/`+opsID+`"`, "4 of 4", "/batches?cursor=c1",
		`<span class="st is-warn">STUCK</span>`)
	o.did(t, "GET /api/batches?limit=50")
	w = o.open(t, "/batches/"+opsID, nil)
	holds(t, w, 200, `<progress class="whole" value="4" max="4"`, "3 completed, 1 failed",
		`href="/poll?jobId=`+opsOther+`"`, "Requeue those that failed", "MAIL runs, if all are COMPLETED")
	o.did(t, "GET /api/batches/"+opsID, "GET /api/batches/"+opsID+"/members?status=FAILED&limit=50")
	goes(t, o.open(t, "/batches/"+opsID+"/seal", url.Values{}), "/batches/"+opsID, "done", "sealed")
	o.did(t, "POST /api/batches/"+opsID+"/seal")
	goes(t, o.open(t, "/batches/"+opsID+"/cancel", url.Values{}), "/batches/"+opsID, "done", "cancel again")
	o.did(t, "POST /api/batches/"+opsID+"/cancel")
	holds(t, o.open(t, "/batches/nope", nil), 404, "This page does not exist")
	open := strings.NewReplacer(`"STUCK"`, `"OPEN"`, `"sealed":true`, `"sealed":false`, `"failed":1`, `"failed":0`).
		Replace(opsBatch)
	o.says("GET /api/batches/"+opsID, 200, open)
	holds(t, o.open(t, "/batches/"+opsID, nil), 200, `action="/batches/`+opsID+`/seal"`,
		`action="/batches/`+opsID+`/cancel"`, "No job of it failed")
	o.refuses("GET /api/batches/"+opsID, 404, "BATCH_NOT_FOUND", "there is no such batch")
	holds(t, o.open(t, "/batches/"+opsID, nil), 404)
}
