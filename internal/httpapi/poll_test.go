package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// keep returns rooms that have one job and nothing else.
func keep(t *testing.T, j job.Job) *rooms {
	t.Helper()
	r := newRooms(t)
	r.find = func(id job.ID) (job.Job, error) {
		if id != j.ID {
			return job.Job{}, fmt.Errorf("find: %w", job.ErrNotFound)
		}
		return j, nil
	}
	return r
}

func done() job.Job {
	return job.Job{
		ID: knownID, Generation: 1, Tier: job.Paid, Type: "SIMULATION", Owner: "key-7", TraceID: "trace-1",
		Payload: []byte(`{"secret":1}`),
		Status:  job.Completed, Attempt: 2, RetryCount: 1, MaxRetries: 5,
		ArrivedAt: aMoment, FirstTriedAt: aMoment.Add(time.Millisecond), StartedAt: aMoment.Add(time.Second),
		EndedAt: aMoment.Add(2 * time.Second),
		Result:  []byte(`{"stepsRun":1,"a":"<b>","a":2}`), Cause: job.HandlerError, LastError: "boom",
	}
}

func TestPoll(t *testing.T) {
	t.Attr("proves", "S2-E6")
	pending := job.Job{ID: knownID, Generation: 1, Tier: job.Public, Type: "PAIR", Status: job.Pending, MaxRetries: 1,
		ArrivedAt: aMoment}
	scheduled := pending
	scheduled.Status, scheduled.RetryCount, scheduled.RunAt = job.Scheduled, 1, aMoment.Add(time.Hour)
	discarded := done()
	discarded.Status, discarded.Result, discarded.Cause, discarded.LastError = job.NeedDiscard, nil, job.HeartbeatStopped,
		""
	for name, c := range map[string]struct {
		job  job.Job
		want string
	}{
		"completed": {done(), `{"apiResponseData":{"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4",` +
			`"currentJobStatus":"COMPLETED","jobTier":"PAID","type":"SIMULATION","retryCount":1,"maxRetries":5,` +
			`"arrivedAt":"2026-05-01T11:31:57.961931Z","firstTriedAt":"2026-05-01T11:31:57.962931Z",` +
			`"completedAt":"2026-05-01T11:31:59.961931Z","runAt":null,"expiresAt":null,"position":null,"etaSeconds":null,` +
			`"result":{"stepsRun":1,"a":"<b>","a":2},"failureCause":"HANDLER_ERROR","lastError":"boom","traceId":"trace-1"},` +
			`"timestamp":"2026-05-01T11:31:57.961931Z"}`},
		"pending": {pending, `{"apiResponseData":{"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4",` +
			`"currentJobStatus":"PENDING","jobTier":"PUBLIC","type":"PAIR","retryCount":0,"maxRetries":1,` +
			`"arrivedAt":"2026-05-01T11:31:57.961931Z","firstTriedAt":null,"completedAt":null,"runAt":null,` +
			`"expiresAt":null,"position":null,` +
			`"etaSeconds":null,` +
			`"result":null,"failureCause":null,"lastError":null,"traceId":null},"timestamp":"2026-05-01T11:31:57.961931Z"}`},
		"scheduled says when it is due": {scheduled,
			`{"apiResponseData":{"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4","currentJobStatus":"SCHEDULED",` +
				`"jobTier":"PUBLIC","type":"PAIR","retryCount":1,"maxRetries":1,` +
				`"arrivedAt":"2026-05-01T11:31:57.961931Z","firstTriedAt":null,"completedAt":null,` +
				`"runAt":"2026-05-01T12:31:57.961931Z","expiresAt":null,"position":null,"etaSeconds":null,` +
				`"result":null,"failureCause":null,"lastError":null,"traceId":null},"timestamp":"2026-05-01T11:31:57.961931Z"}`},
		"discarded is shown as failed": {discarded,
			`{"apiResponseData":{"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4","currentJobStatus":"FAILED","jobTier":"PAID",` +
				`"type":"SIMULATION","retryCount":1,"maxRetries":5,` +
				`"arrivedAt":"2026-05-01T11:31:57.961931Z","firstTriedAt":"2026-05-01T11:31:57.962931Z",` +
				`"completedAt":"2026-05-01T11:31:59.961931Z","runAt":null,"expiresAt":null,"position":null,"etaSeconds":null,` +
				`"result":null,"failureCause":"HEARTBEAT_STOPPED","lastError":null,"traceId":"trace-1"},` +
				`"timestamp":"2026-05-01T11:31:57.961931Z"}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := keep(t, c.job)
			rec := r.do("GET", "/result/poll?jobId="+strings.ToUpper(string(knownID)), "")
			if rec.Code != 200 || rec.Body.String() != c.want {
				t.Errorf("%d\n%s\nwant\n%s", rec.Code, rec.Body, c.want)
			}
			wantHeader(t, rec, "Content-Type", "application/json")
			if !reflect.DeepEqual(r.found, []job.ID{knownID}) {
				t.Errorf("asked for %v", r.found)
			}
		})
	}
}

// A poll shows the members of the contract only, and no owner, payload, worker or token, even while the store has
// them.
func TestPoll_ShowsNoMore(t *testing.T) {
	t.Attr("proves", "A11")
	running := done()
	running.Status, running.Result, running.EndedAt, running.Worker = job.Processing, nil, time.Time{}, "host-7:4711"
	for _, j := range []job.Job{done(), running} {
		showsNoMore(t, j)
	}
}

func showsNoMore(t *testing.T, j job.Job) {
	t.Helper()
	var body struct {
		Data map[string]any `json:"apiResponseData"`
	}
	text := keep(t, j).do("GET", "/result/poll?jobId="+string(knownID), "").Body.Bytes()
	if err := json.Unmarshal(text, &body); err != nil {
		t.Fatal(err)
	}
	if len(body.Data) == 0 || j.Worker != "" && bytes.Contains(text, []byte(j.Worker)) {
		t.Errorf("%s: %s", j.Status, text)
	}
	for name := range body.Data {
		if !strings.Contains(
			" jobId currentJobStatus jobTier type retryCount maxRetries arrivedAt firstTriedAt completedAt runAt "+
				"expiresAt position etaSeconds result failureCause lastError traceId ",
			" "+name+" ",
		) {
			t.Errorf("shows %s", name)
		}
	}
}

func TestPoll_ETag(t *testing.T) {
	base := done()
	tag := keep(t, base).do("GET", "/result/poll?jobId="+string(knownID), "").Header().Get("ETag")
	if !strings.HasPrefix(tag, `W/"`) {
		t.Fatalf("ETag %q", tag)
	}
	for header, want := range map[string]int{
		tag: 304, strings.TrimPrefix(tag, "W/"): 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200, "": 200,
		tag[:len(tag)-1]: 200,
	} {
		rec := keep(t, base).do("GET", "/result/poll?jobId="+string(knownID), "", "If-None-Match", header)
		if rec.Code != want || (want == 304) != (rec.Body.Len() == 0) {
			t.Errorf("If-None-Match %s: %d %s", header, rec.Code, rec.Body)
		}
		wantHeader(t, rec, "ETag", tag)
	}
	for name, change := range map[string]func(*job.Job){
		"status":     func(j *job.Job) { j.Status = job.Failed },
		"attempt":    func(j *job.Job) { j.Attempt++ },
		"retryCount": func(j *job.Job) { j.RetryCount++ },
		"generation": func(j *job.Job) { j.Generation++ },
	} {
		changed := base
		change(&changed)
		if etag(&changed) == tag {
			t.Errorf("the same tag with another %s", name)
		}
	}
	hidden := base
	hidden.Status = job.NeedDiscard
	base.Status = job.Failed
	if etag(&hidden) != etag(&base) {
		t.Error("the tag tells NEED_DISCARD from FAILED")
	}
}

func TestPoll_BadInput(t *testing.T) {
	t.Attr("proves", "A58")
	for query, field := range map[string]string{
		"": "jobId", "?": "jobId", "?jobId=": "jobId", "?jobId=x": "jobId", "?jobId=" + string(knownID) + "x": "jobId",
		"?jobId={tierq:0}:*":                            "jobId",
		"?jobId=019de340-01fe-7a58-be69-567cd7d6b7d%00": "jobId", "?jobId=019de34001fe7a58be69567cd7d6b7d4": "jobId",
		"?jobId=" + strings.Repeat("a", 5000):                     "jobId",
		"?jobId=019de340-01fe-7a58-be69-567cd7d6b%0d%0a":          "jobId",
		"?jobId=" + string(knownID) + "&jobId=" + string(knownID): "jobId",
		"?jobId=" + string(knownID) + "&wait=61s":                 "wait",
		"?jobId=" + string(knownID) + "&wait=-1s":                 "wait",
		"?jobId=" + string(knownID) + "&wait=1e9":                 "wait",
		"?jobId=" + string(knownID) + "&wait=":                    "wait",
		"?jobId=" + string(knownID) + "&wait=1s&wait=2s":          "wait",
		"?jobid=" + string(knownID):                               "jobid",
	} {
		t.Run(query[:min(len(query), 60)], func(t *testing.T) {
			r := keep(t, done())
			wantProblem(t, r.do("GET", "/result/poll"+query, ""), 400, "INVALID_REQUEST", field)
			if len(r.found) != 0 {
				t.Errorf("asked for %v", r.found)
			}
		})
	}
	wantProblem(t, newRooms(t).do("GET", "/result/poll?jobId=%zz", ""), 400, "INVALID_REQUEST")
}

func TestPoll_WhatCannotBeFound(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		code   string
	}{
		"unknown":  {job.ErrNotFound, 404, "JOB_NOT_FOUND"},
		"away":     {fmt.Errorf("find: %w", job.ErrUnavailable), 503, "SYSTEM_UNHEALTHY"},
		"lost":     {fmt.Errorf("find: %w", job.ErrAmbiguous), 503, "SYSTEM_UNHEALTHY"},
		"deadline": {context.DeadlineExceeded, 500, "INTERNAL"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRooms(t)
			r.find = func(job.ID) (job.Job, error) { return job.Job{}, c.err }
			rec := r.do("GET", "/result/poll?jobId="+string(knownID), "")
			body := wantProblem(t, rec, c.status, c.code)
			if (c.status == 404) != (body["jobId"] == string(knownID)) ||
				(c.status == 503) != (rec.Header().Get("Retry-After") == "1") {
				t.Errorf("%v %s", rec.Header(), rec.Body)
			}
		})
	}
	broken := done()
	broken.Result = []byte(`{"cut`)
	rec := keep(t, broken).do("GET", "/result/poll?jobId="+string(knownID), "")
	wantProblem(t, rec, 500, "INTERNAL")
	wantHeader(t, rec, "ETag", "")
}

func TestHealth(t *testing.T) {
	r := newRooms(t)
	r.ready = Report{Ready: true, Status: "DEGRADED",
		Checks: []Check{{"sql", "DOWN", "dial: refused"}, {"redis", "UP", ""}}}
	if rec := r.do("GET", "/livez", ""); rec.Code != 200 || rec.Body.String() != `{"status":"UP"}` {
		t.Errorf("livez: %d %s", rec.Code, rec.Body)
	}
	if rec := r.do("GET", "/readyz", ""); rec.Code != 200 ||
		rec.Body.String() != `{"status":"DEGRADED","timestamp":"2026-05-01T11:31:57.961931Z"}` {
		t.Errorf("readyz: %d %s", rec.Code, rec.Body)
	}
	want := `{"status":"DEGRADED","timestamp":"2026-05-01T11:31:57.961931Z","checks":[{"name":"sql","status":"DOWN",` +
		`"detail":"dial: refused"},{"name":"redis","status":"UP"}]}`
	if rec := r.do("GET", "/readyz?verbose", ""); rec.Code != 200 || rec.Body.String() != want {
		t.Errorf("readyz?verbose: %d %s", rec.Code, rec.Body)
	}
	r.ready = Report{Status: "OUT_OF_SERVICE"}
	if rec := r.do("GET", "/readyz", ""); rec.Code != 503 || !strings.Contains(rec.Body.String(), `"OUT_OF_SERVICE"`) {
		t.Errorf("readyz: %d %s", rec.Code, rec.Body)
	}
}
