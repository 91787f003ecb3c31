package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const jobKnown = "/jobs/" + string(knownID)

// The addresses of the seeds for submitting and reading jobs accept the seeds' own names.
func TestJobs(t *testing.T) {
	t.Attr("proves", "S0-E1 S1-E1")
	r := newRooms(t)
	rec := r.json("POST", "/jobs", `{"type":"PAIR","payload":{"A":1}}`, "X-Trace-Id", "trace-1")
	wantJSON(t, rec, 202, `{"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4","status":"PENDING",`+
		`"createdAt":"2026-05-01T11:31:57.961931Z","traceId":"trace-1"}`)
	wantHeader(t, rec, "Location", jobKnown)
	if s := r.submitted[0]; s.Tier != job.Unpaid || s.Type != "PAIR" || string(s.Payload) != `{"A":1}` ||
		s.MaxRetries != -1 || s.TraceID != "trace-1" {
		t.Errorf("submitted %+v", s)
	}
}

func TestAPIJobs(t *testing.T) {
	t.Attr("proves", "S4-E1 S4-N7")
	r := newRooms(t)
	rec := r.json("POST", "/api/jobs", `{"jobType":"SIMULATION","payload":{"steps":[]},"maxRetryCount":1,"tier":"paid"}`,
		"X-Trace-Id", "trace-1")
	wantJSON(t, rec, 202, `{"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4","traceId":"trace-1"}`)
	wantHeader(t, rec, "Location", "/api/jobs/"+string(knownID))
	wantHeader(t, rec, "X-Trace-Id", "trace-1")
	if s := r.submitted[0]; s.Tier != job.Paid || s.Type != "SIMULATION" || string(s.Payload) != `{"steps":[]}` ||
		s.MaxRetries != 1 {
		t.Errorf("submitted %+v", s)
	}
	made := r.json("POST", "/api/jobs", `{"jobType":"SIMULATION"}`).Header().Get("X-Trace-Id")
	if len(made) != 32 || r.submitted[1].TraceID != made {
		t.Errorf("made %q, stored %q", made, r.submitted[1].TraceID)
	}
}

// A body that is not valid is refused before anything is stored, with the field names of the endpoint that was
// called.
func TestJobs_Validation(t *testing.T) {
	t.Attr("proves", "S4-P6 S4-P7")
	for _, c := range []struct {
		path, body string
		status     int
		code       string
		fields     []string
	}{
		{"/jobs", ``, 400, "INVALID_REQUEST", []string{"type"}},
		{"/jobs", `{}`, 400, "INVALID_REQUEST", []string{"type"}},
		{"/jobs", `{"jobType":"PAIR","maxRetryCount":1}`, 400, "INVALID_REQUEST", []string{"jobType", "maxRetryCount"}},
		{"/jobs", `{"type":"PAIR","tier":"GOLD"}`, 404, "UNKNOWN_TIER", []string{"tier"}},
		{"/jobs", `{"type":"PAIR","tier":"Paid"}`, 404, "UNKNOWN_TIER", []string{"tier"}},
		{"/jobs", `{"type":"PAIR","tier":""}`, 400, "INVALID_REQUEST", []string{"tier"}},
		{"/jobs", `{"type":"PAIR","tier":7}`, 400, "INVALID_REQUEST", []string{"tier"}},
		{"/jobs", `{"type":"PAIR","tier":"PAID ","nope":1}`, 400, "INVALID_REQUEST", []string{"nope"}},
		{"/jobs", `{"type":"PAIR","maxRetries":3}`, 400, "INVALID_REQUEST", []string{"maxRetries"}},
		{"/api/jobs", `{}`, 400, "INVALID_REQUEST", []string{"jobType"}},
		{"/api/jobs", `{"type":"PAIR"}`, 400, "INVALID_REQUEST", []string{"type"}},
		{"/api/jobs", `{"jobType":"PAIR","maxRetryCount":-1}`, 400, "INVALID_REQUEST", []string{"maxRetryCount"}},
		{"/api/jobs", `{"jobType":"PAIR","maxRetryCount":2.5}`, 400, "INVALID_REQUEST", []string{"maxRetryCount"}},
		{"/paid/submit", `{"type":"PAIR","maxRetries":6}`, 400, "INVALID_REQUEST", []string{"maxRetries"}},
		{"/api/jobs", `{"jobType":"NOPE"}`, 422, "UNKNOWN_JOB_TYPE", []string{"jobType"}},
		{"/api/jobs", `{"jobType":"PAIR","payload":{"A":"x"}}`, 422, "INVALID_PAYLOAD", []string{"payload.A"}},
		{"/api/jobs", `{"jobType":"PAIR","payload":{"C":1}}`, 422, "INVALID_PAYLOAD", []string{"payload"}},
		{"/api/jobs?x=1", `{"jobType":"PAIR"}`, 400, "INVALID_REQUEST", []string{"x"}},
	} {
		r := newRooms(t)
		wantProblem(t, r.json("POST", c.path, c.body), c.status, c.code, c.fields...)
		if len(r.submitted) != 0 {
			t.Errorf("%s %s: submitted %+v", c.path, c.body, r.submitted)
		}
	}
}

func TestGetJob(t *testing.T) {
	t.Attr("proves", "S0-E2 S1-E2 S4-E2 S3-I18 S1-T1")
	j := done()
	j.Worker, j.Note = "host-2", "1 of 2 done"
	stored := []job.Attempt{{
		Number: 1, Worker: "host-1", StartedAt: aMoment.Add(time.Millisecond), FinishedAt: aMoment.Add(time.Second),
		Outcome: "HEARTBEAT_STOPPED",
	}}
	want := `{"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4","id":"019de340-01fe-7a58-be69-567cd7d6b7d4",` +
		`"type":"SIMULATION","tier":"PAID","queue":"main","key":null,"status":"COMPLETED","retryCount":1,` +
		`"attempts":2,"maxRetries":5,"runAt":null,"expiresAt":null,"lastError":"boom","owner":"key-7",` +
		`"payload":null,"payloadKept":false,` +
		`"callbackUrl":null,"schedule":null,"flowId":null,"batchId":null,` +
		`"result":{"stepsRun":1,"a":2},"createdAt":"2026-05-01T11:31:57.961931Z",` +
		`"updatedAt":"2026-05-01T11:31:59.961931Z",` +
		`"firstTriedAt":"2026-05-01T11:31:57.962931Z","completedAt":"2026-05-01T11:31:59.961931Z",` +
		`"failureCause":"HANDLER_ERROR","generation":1,"traceId":"trace-1","cancelRequested":false,"note":"1 of 2 done",` +
		`"history":[` +
		`{"attempt":1,"generation":null,"worker":"host-1","startedAt":"2026-05-01T11:31:57.962931Z",` +
		`"finishedAt":"2026-05-01T11:31:58.961931Z","outcome":"FAILURE","cause":"HEARTBEAT_STOPPED","error":null,` +
		`"reason":null,"until":null},{"attempt":2,"generation":1,"worker":"host-2",` +
		`"startedAt":"2026-05-01T11:31:58.961931Z","finishedAt":"2026-05-01T11:31:59.961931Z","outcome":"SUCCESS",` +
		`"cause":null,"error":null,"reason":null,"until":null}],"reasons":[]}`
	for _, path := range []string{jobKnown, "/api" + jobKnown, "/jobs/" + strings.ToUpper(string(knownID))} {
		r := keep(t, j)
		r.attempts = stored
		rec := r.do("GET", path, "")
		wantJSON(t, rec, 200, want)
		if head := r.do("HEAD", path, ""); head.Code != 200 {
			t.Errorf("HEAD %s: %d", path, head.Code)
		}
	}
	for _, path := range []string{jobKnown, "/api" + jobKnown} {
		if body := wantProblem(t, newRooms(t).do("GET", path, ""), 404, "JOB_NOT_FOUND"); body["jobId"] != string(knownID) {
			t.Errorf("%v", body)
		}
	}
	wantProblem(t, newRooms(t).do("GET", "/jobs/7", ""), 400, "INVALID_REQUEST", "id")
	wantProblem(t, newRooms(t).do("GET", jobKnown+"?x=1", ""), 400, "INVALID_REQUEST", "x")
}

// The detail of a job has the payload byte for byte as it was submitted, if a store still has it.
func TestGetJob_ThePayload(t *testing.T) {
	j := at(job.Failed, 1)
	j.Owner, j.Payload = "key-7", nil
	r := keep(t, j)
	r.whole = func(j job.Job) (job.Job, bool, error) {
		j.Payload, j.CallbackURL = []byte(`{"b":1.50e+3,"a":"<b>","a":2}`), "https://shop.example/hook?a=1&b=2"
		return j, true, nil
	}
	if rec := r.do("GET", jobKnown, ""); rec.Code != 200 ||
		!strings.Contains(rec.Body.String(),
			`"owner":"key-7","payload":{"b":1.50e+3,"a":"<b>","a":2},"payloadKept":true,`+
				`"callbackUrl":"https://shop.example/hook?a=1&b=2",`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	r.whole = func(job.Job) (job.Job, bool, error) { return j, false, nil }
	if rec := r.do("GET", jobKnown, ""); !strings.Contains(rec.Body.String(),
		`"payload":null,"payloadKept":false,"callbackUrl":null,"schedule":null,"flowId":null,`) {
		t.Error(rec.Body)
	}
	r.whole = func(job.Job) (job.Job, bool, error) { return j, false, job.ErrUnavailable }
	wantProblem(t, r.do("GET", jobKnown, ""), 503, "SYSTEM_UNHEALTHY")
}

func TestGetJob_AScheduledJobSaysWhen(t *testing.T) {
	j := at(job.Scheduled, 0)
	j.RunAt = aMoment.Add(time.Hour)
	if rec := keep(t, j).do("GET", jobKnown, ""); !strings.Contains(rec.Body.String(),
		`"runAt":"2026-05-01T12:31:57.961931Z"`) || !strings.Contains(rec.Body.String(), `"history":[]`) {
		t.Error(rec.Body)
	}
}

// The history has one entry per attempt, with its outcome and cause: the stored attempts, and the latest one from
// the job's own fields.
func TestHistory(t *testing.T) {
	t.Attr("proves", "S3-I16 S4-S2")
	failed := job.Attempt{Number: 1, Outcome: "HANDLER_ERROR", Error: "boom"}
	released := job.Attempt{Number: 2, Outcome: "RELEASED"}
	later := job.Attempt{Number: 3, Generation: 2, Outcome: "LATER", Error: "b says SUBMITTED", Until: aMoment}
	cancelled := job.Attempt{Number: 2, Outcome: "CANCELLED"}
	discarded := at(job.NeedDiscard, 2)
	discarded.Cause, discarded.LastError = job.PermanentError, "no"
	for name, c := range map[string]struct {
		job    job.Job
		stored []job.Attempt
		want   string
	}{
		"never tried": {at(job.Pending, 0), nil, ""},
		"running":     {at(job.Processing, 1), nil, "1 RUNNING"},
		"running again": {at(job.Processing, 4), []job.Attempt{failed, released, later},
			"1 FAILURE HANDLER_ERROR boom, 2 RELEASED, 3 LATER of 2 (b says SUBMITTED) until 2026-05-01T11:31:57.961931Z, " +
				"4 RUNNING"},
		"waits again": {at(job.Scheduled, 3), []job.Attempt{failed, released, later},
			"1 FAILURE HANDLER_ERROR boom, 2 RELEASED, 3 LATER of 2 (b says SUBMITTED) until 2026-05-01T11:31:57.961931Z"},
		"waits, and nobody knows why": {at(job.Pending, 2), []job.Attempt{failed}, "1 FAILURE HANDLER_ERROR boom"},
		"completed": {at(job.Completed, 2), []job.Attempt{failed},
			"1 FAILURE HANDLER_ERROR boom, 2 SUCCESS"},
		"failed, and stored": {at(job.Failed, 1), []job.Attempt{failed}, "1 FAILURE HANDLER_ERROR boom"},
		"failed, not yet stored": {discarded, []job.Attempt{failed},
			"1 FAILURE HANDLER_ERROR boom, 2 FAILURE PERMANENT_ERROR no"},
		"cancelled while running": {at(job.Cancelled, 2), []job.Attempt{failed, cancelled},
			"1 FAILURE HANDLER_ERROR boom, 2 CANCELLED"},
		"cancelled, not yet stored": {at(job.Cancelled, 1), nil, "1 CANCELLED"},
	} {
		var got []string
		for _, a := range history(&c.job, c.stored) {
			words := []string{fmt.Sprint(a.Attempt), a.Outcome}
			if a.Cause != nil {
				words = append(words, string(*a.Cause))
			}
			if a.Error != nil {
				words = append(words, *a.Error)
			}
			if a.Generation != nil && a.Outcome == "LATER" {
				words = append(words, fmt.Sprint("of ", *a.Generation))
			}
			if a.Reason != nil && a.Until != nil {
				words = append(words, "("+*a.Reason+")", "until", *a.Until)
			}
			got = append(got, strings.Join(words, " "))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %s, want %s", name, strings.Join(got, ", "), c.want)
		}
	}
}

func TestList(t *testing.T) {
	t.Attr("proves", "S1-E3 S4-E2 S0-S1 S1-S1 S2-G9 S4-S1")
	for _, path := range []string{"/admin/jobs", "/api/jobs"} {
		for query, want := range map[string]struct {
			filter job.Filter
			cursor string
			limit  int
		}{
			"": {job.Filter{}, "", 20},
			"?status=FAILED&type=SEND_EMAIL&limit=20": {job.Filter{Status: job.Failed, Type: "SEND_EMAIL"}, "", 20},
			"?status=DEAD&limit=100":                  {job.Filter{Status: job.Failed}, "", 100},
			"?status=SUCCESS":                         {job.Filter{Status: job.Completed}, "", 20},
			"?status=DONE":                            {job.Filter{Status: job.Completed}, "", 20},
			"?status=RUNNING&tier=paid":               {job.Filter{Status: job.Processing, Tier: job.Paid}, "", 20},
			"?status=SCHEDULED":                       {job.Filter{Status: job.Scheduled}, "", 20},
			"?status=RETRYING":                        {job.Filter{Status: job.Scheduled, Retrying: true}, "", 20},
			"?traceId=trace-1&type=PAIR":              {job.Filter{TraceID: "trace-1", Type: "PAIR"}, "", 20},
			"?queue=films:4k":                         {job.Filter{Queue: "films:4k"}, "", 20},
			"?queue=main":                             {job.Filter{Queue: "main"}, "", 20},
			"?status=CANCELLED&tier=GONE&type=A&cause=HANDLER_ERROR&limit=1&cursor=" +
				"Zm9v.%2B_-%3D": {job.Filter{Status: job.Cancelled, Tier: "GONE", Type: "A", Cause: job.HandlerError}, "Zm9v.+_-=",
				1},
		} {
			r := newRooms(t)
			r.list = func(f job.Filter, cursor string, limit int) ([]job.Job, string, error) {
				if !reflect.DeepEqual(f, want.filter) || cursor != want.cursor || limit != want.limit {
					t.Errorf("%s: %+v %q %d", query, f, cursor, limit)
				}
				return []job.Job{done()}, "next-1", nil
			}
			rec := r.do("GET", path+query, "")
			var body struct {
				Items []map[string]any
				Next  *string
			}
			if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil || rec.Code != 200 || body.Next == nil ||
				*body.Next != "next-1" {
				t.Fatalf("%s: %d %s", query, rec.Code, rec.Body)
			}
			if one := body.Items[0]; one["jobId"] != string(knownID) || one["status"] != "COMPLETED" || one["attempts"] != 2.0 {
				t.Errorf("%v", one)
			}
		}
		r := newRooms(t)
		r.list = func(job.Filter, string, int) ([]job.Job, string, error) { return nil, "", nil }
		wantJSON(t, r.do("GET", path, ""), 200, `{"items":[],"next":null}`)
	}
}

func TestList_BadInput(t *testing.T) {
	t.Attr("proves", "A21 A57 A60")
	for query, field := range map[string]string{
		"?limit=0": "limit", "?limit=101": "limit", "?limit=1e9": "limit", "?limit=": "limit", "?limit=5&limit=5": "limit",
		"?status=failed": "status", "?status=NEED_DISCARD": "status", "?status=": "status", "?tier=Paid": "tier",
		"?tier=": "tier", "?tier=id%3Bsleep(5)": "tier",
		"?status=retrying": "status", "?traceId=": "traceId", "?traceId=a%20b": "traceId", "?traceId=%27--": "traceId",
		"?trace=a": "trace",
		"?queue=":  "queue", "?queue=a/b": "queue", "?queue=films&queue=main": "queue",
		"?traceId=" + strings.Repeat("a", 65): "traceId",
		"?type=(select%201)":                  "type", "?type=1a": "type", "?cause=x": "cause", "?cause=": "cause",
		"?offset=1": "offset", "?sort=id": "sort", "?from=2026-01-01": "from",
		"?cursor=%00": "cursor", "?cursor=" + strings.Repeat("x", 513): "cursor", "?cursor=tampered": "cursor",
	} {
		r := newRooms(t)
		r.list = func(_ job.Filter, cursor string, _ int) ([]job.Job, string, error) {
			if cursor != "tampered" && cursor != "" {
				t.Errorf("asked for %q", cursor)
			}
			return nil, "", fmt.Errorf("list: %w", job.ErrBadCursor)
		}
		wantProblem(t, r.do("GET", "/admin/jobs"+query, ""), 400, "INVALID_REQUEST", field)
	}
}

// POST /api/jobs lowers retries above the tier's bound and says so; other addresses refuse them. The answer to a
// repeat has the retries of its job, even if the plan has changed since.
func TestAPIJobs_RetriesAreLowered(t *testing.T) {
	t.Attr("proves", "S4-N7")
	const accepted = `{"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4","traceId":"trace-1"`
	lowered := func(asked, has int) string {
		return fmt.Sprintf(
			`,"maxRetries":%d,"warnings":[{"field":"maxRetryCount","reason":"is %d, more than the tier allows: the job has %d"}]}`,
			has,
			asked,
			has,
		)
	}
	for body, want := range map[string]struct {
		retries int
		answer  string
	}{
		`{"jobType":"PAIR","payload":{"A":1}}`:                                  {-1, accepted + `}`},
		`{"jobType":"PAIR","payload":{"A":1},"maxRetryCount":0}`:                {0, accepted + `}`},
		`{"jobType":"PAIR","payload":{"A":1},"maxRetryCount":2}`:                {2, accepted + `}`},
		`{"jobType":"PAIR","payload":{"A":1},"maxRetryCount":3}`:                {2, accepted + lowered(3, 2)},
		`{"jobType":"PAIR","payload":{"A":1},"maxRetryCount":99,"tier":"PAID"}`: {5, accepted + lowered(99, 5)},
	} {
		r := newRooms(t)
		wantJSON(t, r.json("POST", "/api/jobs", body, "X-Trace-Id", "trace-1"), 202, want.answer)
		if s := r.submitted[0]; s.MaxRetries != want.retries {
			t.Errorf("%s: submitted with %d retries, want %d", body, s.MaxRetries, want.retries)
		}
	}

	first := at(job.Pending, 0)
	first.MaxRetries, first.TraceID = 1, "trace-0"
	r := keep(t, first)
	r.submit = func(context.Context, job.Submission) (job.Accepted, error) {
		return job.Accepted{ID: knownID, Replayed: true}, nil
	}
	ask := func(n int) job.Submission {
		rec := r.json(
			"POST",
			"/api/jobs",
			fmt.Sprintf(`{"jobType":"PAIR","payload":{"A":1},"maxRetryCount":%d}`, n),
			"Idempotency-Key",
			"k",
		)
		wantJSON(t, rec, 202, `{"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4","traceId":"trace-0"`+lowered(n, 1))
		return r.submitted[len(r.submitted)-1]
	}
	if ask(2).Idempotency.Body == ask(3).Idempotency.Body {
		t.Error("2 and 3 retries are the same request: what counts is what was said")
	}
}
