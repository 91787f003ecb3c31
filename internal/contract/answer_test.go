package contract

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

const (
	aJob     = "019de340-01fe-7a58-be69-567cd7d6b7d4"
	stamped  = `"timestamp":"2026-05-01T11:31:57.961931Z"`
	accepted = `{"apiResponseData":{"jobId":"` + aJob + `","currentJobStatus":"PENDING"},` + stamped + `}`
	noJob    = `{"type":"about:blank","title":"Not Found","status":404,"detail":"x","errorCode":"JOB_NOT_FOUND",` +
		`"message":"x",` + stamped + `,"traceId":"t"}`
	event = `{"jobId":"` + aJob +
		`","tier":"PAID","status":"PENDING","attempt":0,"cause":null,"at":"2026-05-01T11:31:57.961931Z"}`
)

// call returns a Call. headers has name, value, name, value: first those of the request, then "|", then those of
// the answer.
func call(method, target, sent string, status int, body string, headers ...string) Call {
	c := Call{Request: httptest.NewRequest(method, target, nil), Sent: []byte(sent), Status: status, Body: []byte(body)}
	c.Header = http.Header{"X-Trace-Id": {"t"}}
	to := c.Request.Header
	for i := 0; i < len(headers); i++ {
		if headers[i] == "|" {
			to = c.Header
			continue
		}
		to.Add(headers[i], headers[i+1])
		i++
	}
	return c
}

// Check finds the fault in each of these calls, which differ from a right call in one thing.
func TestCheck(t *testing.T) {
	c := load(t)
	const typed, problem = "Content-Type", "application/problem+json"
	location := "/result/poll?jobId=" + aJob
	submit := func(sent, body string, headers ...string) Call {
		all := []string{typed, "application/json", "|", typed, "application/json", "Location", location, "Retry-After", "1"}
		return call("POST", "/paid/submit", sent, 202, body, append(all, headers...)...)
	}
	batch := func(sent, body string) Call {
		return call("POST", "/paid/submit/batch", sent, 202, body, typed, "application/json", "|", typed, "application/json",
			"Retry-After", "1")
	}
	stream := func(body string) Call {
		return call("GET", "/api/events", "", 200, body, "|", typed, "text/event-stream")
	}
	for name, o := range map[string]struct {
		call Call
		want string // a part of the error; "" = no error
	}{
		"right":                {submit("", accepted), ""},
		"right, with a body":   {submit(`{"delaySeconds":1.5}`, accepted), ""},
		"a replay":             {submit("", accepted, "Idempotency-Replayed", "true"), ""},
		"a replay that is not": {submit("", accepted, "Idempotency-Replayed", "false"), "Idempotency-Replayed"},
		"a status": {call("POST", "/paid/submit", "", 201, accepted, "|", typed, "application/json"),
			"status is not in the description"},
		"a member more": {submit("", strings.Replace(accepted, `"jobId"`, `"owner":"me","jobId"`, 1)), "owner"},
		"a member less": {submit("", strings.Replace(accepted, `,`+stamped, ``, 1)), "timestamp"},
		"another word": {submit("", strings.Replace(accepted, "PENDING", "NEED_DISCARD", 1)),
			"currentJobStatus"},
		"a time of three digits":   {submit("", strings.Replace(accepted, ".961931Z", ".961Z", 1)), "timestamp"},
		"not JSON":                 {submit("", "accepted"), "not JSON"},
		"a header that is wrong":   {submit("", accepted, "Retry-After", "x"), "Retry-After"},
		"a header that is unknown": {submit("", accepted, "X-Secret", "x"), "X-Secret is not in the description"},
		"a header that is missing": {call("POST", "/paid/submit", "", 202, accepted, "|", typed, "application/json",
			"Retry-After", "1"), "Location is missing"},
		"a type of content": {call("GET", "/livez", "", 200, `{"status":"UP"}`, "|", typed, "text/html"),
			"Content-Type"},
		"a field it does not list":  {submit(`{"priority":1}`, accepted), "priority"},
		"both times":                {submit(`{"delaySeconds":1,"runAt":"2026-12-01T08:00:00Z"}`, accepted), "'not' failed"},
		"a payload of another type": {submit(`{"type":"REPORT","payload":{"steps":[]}}`, accepted), "steps"},
		"a body it does not take": {call("GET", "/livez", "x", 200, `{"status":"UP"}`, "|", typed, "application/json"),
			"has a body"},
		"a parameter": {call("GET", "/jobs/dead?offset=1", "", 200, `{"items":[],"page":0,"size":20,"total":0}`,
			"|", typed, "application/json"), "offset is not"},
		"a parameter's value": {call("GET", "/jobs/dead?size=101", "", 200, `{"items":[],"page":0,"size":20,"total":0}`,
			"|", typed, "application/json"), "size"},
		"no parameter": {call("GET", "/result/poll", "", 304, "", "|", "Etag", `W/"FAILED-1-0-1"`),
			"jobId is missing"},
		"a path's value": {call("GET", "/jobs/7/artifact", "", 200, "", "|", typed, "application/pdf",
			"Content-Disposition", `attachment; filename="a"`), "parameter id"},
		"304":                      {call("GET", location, "", 304, "", "|", "Etag", `W/"FAILED-1-0-1"`), ""},
		"304 with a body":          {call("GET", location, "", 304, "x", "|", "Etag", `W/"FAILED-1-0-1"`), "a body"},
		"304 without its tag":      {call("GET", location, "", 304, ""), "ETag is missing"},
		"a strong tag":             {call("GET", location, "", 304, "", "|", "Etag", `"FAILED-1-0-1"`), "ETag"},
		"HEAD":                     {call("HEAD", "/livez", "", 200, "", "|", typed, "application/json"), ""},
		"HEAD where there is none": {call("HEAD", "/api/events", "", 200, "", "|", typed, "text/event-stream"), "not 405"},
		"an error":                 {call("GET", "/jobs/"+aJob, "", 404, noJob, "|", typed, problem), ""},
		"an error of elsewhere": {call("GET", "/jobs/"+aJob, "", 404,
			strings.Replace(noJob, "JOB_NOT_FOUND", "NOT_FOUND", 1), "|", typed, problem), "errorCode"},
		"an error nobody knows": {call("GET", "/jobs/"+aJob, "", 404, strings.Replace(noJob, "JOB_NOT_FOUND", "GONE", 1),
			"|", typed, problem), "errorCode"},
		"an error with a stack": {call("GET", "/jobs/"+aJob, "", 404,
			strings.Replace(noJob, `"detail"`, `"stack":"x","detail"`, 1), "|", typed, problem), "stack"},
		"an error not as a problem": {call("GET", "/jobs/"+aJob, "", 404, noJob, "|", typed, "application/json"),
			"Content-Type"},
		"an unknown address": {call("GET", "/nope", "", 404, strings.Replace(noJob, "JOB_", "", 1), "|", typed,
			problem), ""},
		"an address that is not": {call("GET", "/secret", "", 200, `{}`, "|", typed, "application/json"),
			"not in the description, and not 404"},
		"405 without Allow": {call("PUT", "/livez", "", 405, noJob, "|", typed, problem), "Allow is missing"},
		"a batch": {batch(`[{},{"nope":1}]`,
			`{"apiResponseData":[{"jobId":"`+aJob+
				`","currentJobStatus":"PENDING"},{"errorCode":"INVALID_REQUEST","message":"m","detail":"d"}],`+stamped+`}`), ""},
		"a batch's accepted entry": {batch(`[{"nope":1}]`,
			`{"apiResponseData":[{"jobId":"`+aJob+`","currentJobStatus":"PENDING"}],`+stamped+`}`), "entry 0"},
		"a batch's lost answer": {batch(`[{},{}]`,
			`{"apiResponseData":[{"jobId":"`+aJob+`","currentJobStatus":"PENDING"}],`+stamped+`}`), "1 answers to 2"},
		"a stream": {stream("retry: 2000\n\n: ping\n\nevent: job\nid: 1\ndata: " + event +
			"\n\nevent: bye\ndata: {}\n\n"), ""},
		"a stream's event": {stream("event: surprise\ndata: {}\n\n"), "surprise"},
		"a stream's data":  {stream("event: job\ndata: {}\n\n"), `event "job"`},
		"a stream's line":  {stream("evnt: job\n\n"), "evnt"},
		"an export's line": {call("GET", "/admin/dead/export", "", 200, event+"\n", "|", typed,
			"application/x-ndjson", "Content-Disposition", `attachment; filename="a"`), "requeuedAt"},
	} {
		err := c.Check(o.call)
		if o.want == "" && err != nil || o.want != "" && (err == nil || !strings.Contains(err.Error(), o.want)) {
			t.Errorf("%s: %v, want %q", name, err, o.want)
		}
	}
}

// open lists schemas that are parts of other schemas, and one that another system defines.
var open = []string{"SubmitFields", "SubmitWords", "JobFields", "DeadFields", "PlanFields", "LineKey", "LimitFields",
	"FlowFields", "ScheduleFields", "ScheduleShown", "DocumentState"}

// The schemas of answers are closed: an object that lists its members allows no others.
func TestSchemas_AreClosed(t *testing.T) {
	c := load(t)
	objects := 0
	walk(c.at("#/components"), func(n node) {
		schema, ok := n.value.(map[string]any)
		if !ok || schema["type"] != "object" || strings.Contains(n.pointer, "/if/") ||
			strings.Contains(n.pointer, "/examples/") {
			return
		}
		if slices.Contains(open, strings.TrimPrefix(n.pointer, "#/components/schemas/")) {
			return
		}
		objects++
		if schema["additionalProperties"] == nil && schema["unevaluatedProperties"] != false {
			t.Errorf("%s takes what it does not list", n.pointer)
		}
		for _, i := range n.child("required").names() {
			if name := n.child("required").child(i).value.(string); n.child("properties").child(name).value == nil &&
				schema["allOf"] == nil {
				t.Errorf("%s wants %s and does not list it", n.pointer, name)
			}
		}
	})
	if objects < 50 {
		t.Errorf("only %d objects were looked at", objects)
	}
}

// Every operation has an id of its own, a known tag, a summary and a description.
func TestOperations_AreDescribed(t *testing.T) {
	c := load(t)
	tags := c.at("#/tags")
	known, seen := map[any]bool{}, map[string]bool{}
	for _, i := range tags.names() {
		known[tags.child(i).text("name")] = true
	}
	for _, o := range c.Operations() {
		id := o.node.text("operationId")
		if o.Method != "HEAD" && (id == "" || seen[id]) {
			t.Errorf("%s %s: operationId %q", o.Method, o.Path, id)
		}
		seen[id] = true
		if o.node.text("summary") == "" || len(o.node.text("description")) < 20 ||
			!known[o.node.child("tags").child("0").value] {
			t.Errorf("%s %s: summary, description or tag is missing", o.Method, o.Path)
		}
		if c.child(o.node, "responses", "500").value == nil {
			t.Errorf("%s %s: any call may answer 500", o.Method, o.Path)
		}
	}
}
