package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// leased is a job as the fake room hands it out.
func leased() job.WorkerLease {
	l := job.WorkerLease{
		Sealed: "v1.sealed", For: 6 * time.Second, MaxRun: 50 * time.Second,
		Until: aMoment.Add(6 * time.Second), Ends: aMoment.Add(20 * time.Second), // a claim that is repeated
	}
	l.Job = job.Job{
		ID: knownID, Generation: 1, Attempt: 2, Tier: job.Paid, Type: "RESIZE", RetryCount: 1, MaxRetries: 5,
		Payload: []byte(`{"width": 7}`), Checkpoint: []byte(`{"page":12}`), StartedAt: aMoment,
		TraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
	}
	l.Queue, l.SpanID = "paid", "00f067aa0ba902b7"
	return l
}

// hasty stands for a client that reads an answer and closes its connection at once: the request's context ends while
// the handler still runs.
type hasty struct {
	http.ResponseWriter
	leave context.CancelFunc
}

func (r hasty) Write(b []byte) (int, error) {
	defer r.leave()
	return r.ResponseWriter.Write(b)
}

// If a worker closes its connection after it has read the answer to a claim, it keeps the jobs. If it closes the
// connection before the answer, the server releases the jobs.
func TestWorker_ClaimAndLeave(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"after the answer": false, "before": true} {
		t.Run(name, func(t *testing.T) {
			r := newRooms(t)
			r.leases.jobs = []job.WorkerLease{leased()}
			r.behind(callers["worker"])
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if before {
				leave()
			}
			request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/worker/claim",
				strings.NewReader(`{"worker":"w","queues":["main"]}`))
			request.Header.Set("Content-Type", "application/json")
			rec := httptest.NewRecorder()
			r.ServeHTTP(hasty{rec, leave}, request)
			if len(r.leases.claims) != 1 || (len(r.leases.gaveBack) == 1) != before {
				t.Errorf("%d claims, answered %d, gave back %v", len(r.leases.claims), rec.Code, r.leases.gaveBack)
			}
		})
	}
}

func TestWorker_Claim(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.leases.jobs = []job.WorkerLease{leased()}
	r.behind(callers["worker"])
	rec := r.json("POST", "/api/worker/claim",
		`{"worker":"thumb-1","queues":["paid","main"],"tiers":["PAID","unpaid"],"max":7,"wait":"1500ms","leaseSeconds":60,`+
			`"claimId":"c.1"}`)
	wantJSON(t, rec, 200, `{"worker":"thumb-1","state":"run","claimId":"c.1","heldMs":0,"retryAfterMs":0,"reported":[],`+
		`"jobs":[{"jobId":"`+string(knownID)+`","type":"RESIZE","queue":"paid","tier":"PAID","payload":{"width": 7},`+
		`"attempt":2,"retryCount":1,"maxRetries":5,"generation":1,"checkpoint":{"page":12},`+
		`"traceId":"4bf92f3577b34da6a3ce929d0e0e4736",`+
		`"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","flowId":null,`+
		`"lease":"v1.sealed","leaseForMs":6000,`+
		`"heartbeatEveryMs":2000,"endsInMs":20000,"leaseUntil":"2026-05-01T11:32:03.961931Z",`+
		`"endBy":"2026-05-01T11:32:47.961931Z"}]}`)
	want := job.WorkerClaim{
		Key: mine, Worker: "thumb-1", ID: "c.1", Queues: []string{"paid", "main"}, Tiers: []job.Tier{job.Paid, job.Unpaid},
		Max: 7, Wait: 1500 * time.Millisecond, Lease: time.Minute,
	}
	if !reflect.DeepEqual(r.leases.claims, []job.WorkerClaim{want}) || r.leases.gaveBack != nil {
		t.Errorf("asked %+v, gave back %+v", r.leases.claims, r.leases.gaveBack)
	}
	r.leases.jobs = nil
	rec = r.json("POST", "/api/worker/claim", `{"worker":"w","queues":["main"]}`)
	var body struct {
		ClaimID      string
		RetryAfterMs int
		Jobs         []any
	}
	err := json.Unmarshal(rec.Body.Bytes(), &body)
	if err != nil || rec.Code != 200 || len(body.ClaimID) != 24 || body.RetryAfterMs == 0 || body.Jobs == nil {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if c := r.leases.claims[1]; c.ID != body.ClaimID || c.Max != 1 || c.Wait != 0 || c.Lease != 0 {
		t.Errorf("asked %+v", c)
	}
}

// A claim of an unknown queue is refused on a server with keys; without keys it declares the queue.
func TestWorker_ClaimDeclares(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	if rec := r.json("POST", "/api/worker/claim", `{"worker":"w","queues":["paid","films"]}`); rec.Code != 200 ||
		fmt.Sprint(r.queues.asked) != "["+stored(0, 0)+"]" {
		t.Errorf("%d %s, asked %q", rec.Code, rec.Body, r.queues.asked)
	}
	r.queues.err = job.ErrChanged // another claim has declared it
	if rec := r.json("POST", "/api/worker/claim", `{"worker":"w","queues":["films"]}`); rec.Code != 200 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	r.queues.err = job.ErrBadQueue
	wantProblem(t, r.json("POST", "/api/worker/claim", `{"worker":"w","queues":["a b"]}`), 400, "INVALID_REQUEST")
	for _, caller := range []string{"worker", "admin"} {
		r := newRooms(t)
		r.behind(callers[caller])
		wantProblem(t, r.json("POST", "/api/worker/claim", `{"worker":"w","queues":["films"]}`), 404, "UNKNOWN_QUEUE",
			"queues")
		if r.queues.asked != nil || r.leases.claims != nil {
			t.Errorf("%s: %q, %+v", caller, r.queues.asked, r.leases.claims)
		}
	}
}

func TestWorker_BadInput(t *testing.T) {
	t.Parallel()
	lease := `"lease":"v1.x"`
	for _, c := range []struct{ verb, body, field string }{
		{"claim", `{"queues":["paid"]}`, "worker"}, {"claim", `{"worker":"a b","queues":["paid"]}`, "worker"},
		{"claim", `{"worker":"` + strings.Repeat("w", 65) + `","queues":["paid"]}`, "worker"},
		{"claim", `{"worker":"w"}`, "queues"}, {"claim", `{"worker":"w","queues":[]}`, "queues"},
		{"claim", `{"worker":"w","queues":"paid"}`, "queues"}, {"claim", `{"worker":"w","queues":[7]}`, "queues"},
		{"claim", `{"worker":"w","queues":["paid"],"max":0}`, "max"},
		{"claim", `{"worker":"w","queues":["paid"],"max":101}`, "max"},
		{"claim", `{"worker":"w","queues":["paid"],"wait":"61s"}`, "wait"},
		{"claim", `{"worker":"w","queues":["paid"],"wait":61}`, "wait"},
		{"claim", `{"worker":"w","queues":["paid"],"leaseSeconds":4}`, "leaseSeconds"},
		{"claim", `{"worker":"w","queues":["paid"],"leaseSeconds":3601}`, "leaseSeconds"},
		{"claim", `{"worker":"w","queues":["paid"],"claimId":"a:b"}`, "claimId"},
		{"claim", `{"worker":"w","queues":["paid"],"tiers":["Paid"]}`, "tiers"},
		{"claim", `{"worker":"w","queues":["paid"],"priority":1}`, "priority"},
		{"claim", `{"worker":"w","queues":["paid"],"reports":{}}`, "reports"},
		{"heartbeat", `{}`, "leases"}, {"heartbeat", `{"leases":[]}`, "leases"},
		{"heartbeat", `{"leases":[` + strings.Repeat("7,", 1000) + `7]}`, "leases"},
		{"heartbeat", `{"leases":[{"lease":"v1.a"}],"leases":[{"lease":"v1.a"}]}`, "leases"},
		{"report", `{"reports":[7],"reports":[7]}`, "reports"},
		{"complete", `{}`, "lease"}, {"complete", `{"lease":7}`, "lease"},
		{"complete", `{` + lease + `,"error":{}}`, "error"},
		{"fail", `{` + lease + `,"error":"no"}`, "error"}, {"fail", `{` + lease + `,"error":{"code":1}}`, "error.code"},
		{"fail", `{` + lease + `,"permanent":1}`, "permanent"},
		{"fail", `{` + lease + `,"retryAfterSeconds":86401}`, "retryAfterSeconds"},
		{"release", `{` + lease + `,"delaySeconds":-1}`, "delaySeconds"},
		{"release", `{` + lease + `,"reason":7}`, "reason"},
		{"report", `{}`, "reports"}, {"report", `{"reports":[]}`, "reports"},
		{"report", `{"reports":[{` + lease + `,"completed":{}},{` + lease + `,"released":{}}]}`, "reports"},
	} {
		r := newRooms(t)
		wantProblem(t, r.json("POST", "/api/worker/"+c.verb, c.body), 400, "INVALID_REQUEST", c.field)
		if r.leases.claims != nil || r.leases.reports != nil || r.leases.beats != nil {
			t.Errorf("%s %s: the room was asked", c.verb, c.body)
		}
	}
	for _, verb := range []string{"claim", "heartbeat", "complete", "fail", "release", "report"} {
		wantProblem(t, newRooms(t).json("POST", "/api/worker/"+verb, ""), 400, "INVALID_REQUEST")
		wantProblem(t, newRooms(t).json("POST", "/api/worker/"+verb, "[]"), 400, "INVALID_REQUEST")
	}
	nested := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	deep := `{"lease":"v1.x","result":` + nested(33) + `}`
	wantProblem(t, newRooms(t).json("POST", "/api/worker/complete", deep), 400, "INVALID_REQUEST")
	for path, body := range map[string]string{ // 32 levels, wherever the value is
		"complete":  `{"lease":"v1.x","result":` + nested(32) + `}`,
		"report":    `{"reports":[{"lease":"v1.x","completed":{"result":` + nested(32) + `}}]}`,
		"heartbeat": `{"leases":[{"lease":"v1.x","save":1,"checkpoint":` + nested(32) + `}]}`,
	} {
		r := newRooms(t)
		r.leases.end = func(job.WorkerReport) job.WorkerEnd { return job.WorkerEnd{How: job.EndCompleted} }
		r.leases.pulses = func([]job.WorkerBeat) []job.WorkerPulse { return []job.WorkerPulse{{Word: job.OK}} }
		if rec := r.json("POST", "/api/worker/"+path, body); rec.Code != 200 || strings.Contains(rec.Body.String(), "error") {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
}

func TestWorker_Ends(t *testing.T) {
	t.Parallel()
	at, due := aMoment, aMoment.Add(time.Minute)
	for name, c := range map[string]struct {
		verb, body string
		want       job.Report
		end        job.WorkerEnd
		answer     string
	}{
		"completed": {
			"complete", `"result":{"a": [1]}`, job.Report{Kind: job.DidSucceed, Result: []byte(`{"a": [1]}`), RetryAfter: -1},
			job.WorkerEnd{How: job.EndCompleted, At: at}, `"outcome":"COMPLETED","at":"2026-05-01T11:31:57.961931Z"`,
		},
		"cancelled": {
			"complete", `"result":null`, job.Report{Kind: job.DidSucceed, RetryAfter: -1},
			job.WorkerEnd{How: job.EndCancelled, At: at}, `"outcome":"CANCELLED","at":"2026-05-01T11:31:57.961931Z"`,
		},
		"retried": {
			"fail", `"error":{"type":"OSError","message":"no space","stack":"at 1"},"retryAfterSeconds":60`,
			job.Report{Kind: job.DidFail, Error: "OSError: no space\nat 1", RetryAfter: time.Minute},
			job.WorkerEnd{How: job.EndRetried, Cause: job.HandlerError, At: at, RunAt: due, RetryCount: 1, MaxRetries: 5},
			`"outcome":"RETRIED","at":"2026-05-01T11:31:57.961931Z","failureCause":"HANDLER_ERROR","retryCount":1,` +
				`"maxRetries":5,"runAt":"2026-05-01T11:32:57.961931Z"`,
		},
		"dead": {
			"fail", `"error":{"message":"no"},"permanent":true`,
			job.Report{Kind: job.DidFail, Error: "no", Permanent: true, RetryAfter: -1},
			job.WorkerEnd{How: job.EndFailed, Cause: job.PermanentError, At: at},
			`"outcome":"FAILED","at":"2026-05-01T11:31:57.961931Z","failureCause":"PERMANENT_ERROR"`,
		},
		"unknown": {
			"fail", `"error":{"type":"UNKNOWN_JOB_TYPE"}`,
			job.Report{Kind: job.DidFail, Error: "UNKNOWN_JOB_TYPE: ", UnknownType: true, RetryAfter: -1},
			job.WorkerEnd{How: job.EndReleased, Cause: job.UnknownJobType, At: at},
			`"outcome":"RELEASED","at":"2026-05-01T11:31:57.961931Z","failureCause":"UNKNOWN_JOB_TYPE"`,
		},
		"later": {
			"release", `"delaySeconds":60,"reason":"busy"`,
			job.Report{Kind: job.GaveBack, Delay: time.Minute, Reason: "busy", RetryAfter: -1},
			job.WorkerEnd{How: job.EndReleased, At: at, RunAt: due},
			`"outcome":"LATER","at":"2026-05-01T11:31:57.961931Z","runAt":"2026-05-01T11:32:57.961931Z"`,
		},
	} {
		answer := `{"jobId":"` + string(knownID) + `",` + c.answer + `}`
		list := map[string]string{"complete": "completed", "fail": "failed", "release": "released"}[c.verb]
		reports := `"reports":[{"lease":"v1.x","` + list + `":{` + c.body + `}}]`
		for call, want := range map[string]string{
			"/api/worker/" + c.verb + ` {"lease":"v1.x",` + c.body + `}`: answer,
			`/api/worker/report {"worker":"w",` + reports + `}`:          `{"reports":[` + answer + `]}`,
		} {
			r := newRooms(t)
			r.leases.end = func(r job.WorkerReport) job.WorkerEnd {
				e := c.end
				e.ID = knownID
				return e
			}
			r.behind(callers["worker"])
			path, body, _ := strings.Cut(call, " ")
			wantJSON(t, r.json("POST", path, body), 200, want)
			if !reflect.DeepEqual(r.leases.reports, []job.WorkerReport{{Sealed: "v1.x", Report: c.want}}) ||
				r.leases.keys[0] != mine {
				t.Errorf("%s: %+v", name, r.leases.reports)
			}
		}
	}
}

// Entries of a list are carried out each by itself: what is wrong with one is told in its place.
func TestWorker_Report(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.leases.end = func(report job.WorkerReport) job.WorkerEnd {
		switch report.Sealed {
		case "v1.lost":
			return job.WorkerEnd{Err: job.ErrLeaseLost}
		case "none":
			return job.WorkerEnd{Err: job.ErrBadLease}
		case "v1.away":
			return job.WorkerEnd{Err: fmt.Errorf("call: %w", job.ErrAmbiguous)}
		}
		return job.WorkerEnd{ID: knownID, How: job.EndCompleted, At: aMoment}
	}
	r.leases.jobs = []job.WorkerLease{leased()}
	reports := `"reports":[{"lease":"v1.a","completed":{"result":1}},{"lease":"v1.lost","released":{}},{"lease":"none",` +
		`"failed":{}},{"lease":"v1.away","failed":{}},{"lease":"v1.b"},{"completed":{}},{"lease":"v1.c","completed":{},` +
		`"failed":{}},7]`
	want := "COMPLETED LEASE_LOST INVALID_REQUEST SYSTEM_UNHEALTHY INVALID_REQUEST INVALID_REQUEST INVALID_REQUEST " +
		"INVALID_REQUEST"
	for path, body := range map[string]string{
		"/api/worker/report": "{" + reports + "}", "/api/worker/claim": `{"worker":"w","queues":["paid"],` + reports + `}`,
	} {
		r.leases.reports = nil
		req := httptest.NewRequest("POST", path, strings.NewReader(body)) // against the description, on purpose
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, req)
		var got struct {
			Reports, Reported []struct {
				Outcome string
				Error   struct{ ErrorCode string }
			}
			Jobs []any
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != 200 {
			t.Fatalf("%s: %d %s", path, rec.Code, rec.Body)
		}
		var words []string
		for _, one := range append(got.Reports, got.Reported...) {
			words = append(words, one.Outcome+one.Error.ErrorCode)
		}
		if strings.Join(words, " ") != want || len(r.leases.reports) != 4 {
			t.Errorf("%s: %q, sent %+v", path, words, r.leases.reports)
		}
		if path == "/api/worker/claim" && len(got.Jobs) != 1 {
			t.Errorf("the claim got %d jobs", len(got.Jobs))
		}
	}
	r.leases.err = job.ErrUnavailable // the reports' answers are not lost where the claim finds no store
	rec := r.json("POST", "/api/worker/claim",
		`{"worker":"w","queues":["paid"],"reports":[{"lease":"v1.a","failed":{}}]}`)
	if rec.Code != 200 || !strings.Contains(rec.Body.String(), "SYSTEM_UNHEALTHY") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

func TestWorker_Heartbeat(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.behind(callers["worker"])
	r.leases.pulses = func(beats []job.WorkerBeat) []job.WorkerPulse {
		return []job.WorkerPulse{
			{Word: job.OK, For: 30 * time.Second, Until: aMoment.Add(30 * time.Second)},
			{Word: job.Cancel, For: time.Minute, Until: aMoment.Add(time.Minute)},
			{Word: job.Lost, Err: job.ErrLeaseLost},
		}
	}
	rec := r.json("POST", "/api/worker/heartbeat",
		`{"worker":"w","leases":[{"lease":"v1.a","save":3,"checkpoint":{"p": 1}},`+
			`{"lease":"v1.b","extendSeconds":60},{"lease":"v1.c"}]}`)
	wantJSON(t, rec, 200, `{"state":"run","heldMs":0,"leases":[{"word":"OK","leaseForMs":30000},{"word":"CANCEL",`+
		`"leaseForMs":60000},{"word":"LOST"}]}`)
	want := []job.WorkerBeat{
		{Sealed: "v1.a", Save: 3, Checkpoint: []byte(`{"p": 1}`)}, {Sealed: "v1.b", Extend: time.Minute}, {Sealed: "v1.c"},
	}
	if !reflect.DeepEqual(r.leases.beats, want) || r.leases.keys[0] != mine {
		t.Errorf("%+v by %q", r.leases.beats, r.leases.keys)
	}
	r.leases.err = fmt.Errorf("call: %w", job.ErrAmbiguous)
	wantProblem(t, r.json("POST", "/api/worker/heartbeat", `{"leases":[{"lease":"v1.x"}]}`), 503, "SYSTEM_UNHEALTHY")
}

// A wrong entry of a heartbeat extends its lease all the same, if it names one, and the answer says what is wrong with
// it. The other entries are carried out.
func TestWorker_HeartbeatEntries(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("c", 17000)
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	lease := `"lease":"v1.x"`
	for name, c := range map[string]struct{ entry, lease, says string }{
		"no object":             {`"v1.x"`, "", "an entry must be a JSON object"},
		"no lease":              {`{"save":1,"checkpoint":1}`, "", "lease: is missing"},
		"a number":              {`{"lease":7}`, "", "lease: must be a lease"},
		"made by hand":          {`{"lease":"v0.x"}`, "v0.x", "is no lease"},
		"no number":             {`{` + lease + `,"checkpoint":1}`, "v1.x", "checkpoint: goes with save"},
		"no checkpoint":         {`{` + lease + `,"save":1}`, "v1.x", "checkpoint: goes with save"},
		"a short lease":         {`{` + lease + `,"extendSeconds":1}`, "v1.x", "extendSeconds: must be"},
		"large":                 {`{` + lease + `,"save":1,"checkpoint":"` + long + `"}`, "v1.x", "16384 bytes"},
		"deep":                  {`{` + lease + `,"save":1,"checkpoint":` + deep + `}`, "v1.x", "deeper than 32"},
		"a name twice":          {`{"save":1,"checkpoint":{"a":1,"a":2},` + lease + `}`, "v1.x", "is there twice"},
		"half an emoji":         {`{"save":1,"checkpoint":"\ud83d",` + lease + `}`, "v1.x", "surrogate"},
		"no UTF-8":              {"{\"save\":1,\"checkpoint\":\"\xff\"," + lease + "}", "v1.x", "UTF-8"},
		"an unknown field":      {`{"priority":1,` + lease + `}`, "v1.x", "priority: unknown field"},
		"a progress without it": {`{` + lease + `,"progress":{"done":-1}}`, "v1.x", "progress.done: must be"},
		"a note":                {`{` + lease + `,"progress":{"note":"` + long + `"}}`, "v1.x", "progress.note: must be"},
	} {
		r := newRooms(t)
		r.behind(callers["worker"])
		r.leases.pulses = func(beats []job.WorkerBeat) []job.WorkerPulse {
			pulses := make([]job.WorkerPulse, len(beats))
			for i, b := range beats {
				pulses[i] = job.WorkerPulse{Word: job.OK, Until: aMoment.Add(time.Second)}
				if !strings.HasPrefix(b.Sealed, "v1.") {
					pulses[i] = job.WorkerPulse{Word: job.Lost, Err: job.ErrBadLease}
				}
			}
			return pulses
		}
		req := httptest.NewRequest("POST", "/api/worker/heartbeat", // against the description, on purpose
			strings.NewReader(`{"worker":"w","leases":[{"lease":"v1.a"},`+c.entry+`,{"lease":"v1.b","save":1,"checkpoint":2}]}`))
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, req)
		var got struct {
			Leases []struct {
				Word       string
				LeaseForMs int
				Error      *struct{ ErrorCode, Detail string }
			}
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != 200 || len(got.Leases) != 3 {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
			continue
		}
		one, word := got.Leases[1], map[bool]string{true: "OK", false: "LOST"}[c.lease == "v1.x"]
		if one.Error == nil || one.Error.ErrorCode != "INVALID_REQUEST" || !strings.Contains(one.Error.Detail, c.says) ||
			one.Word != word {
			t.Errorf("%s: %+v %+v, want %s and %q", name, one, one.Error, word, c.says)
		}
		want := []job.WorkerBeat{{Sealed: "v1.a"}, {Sealed: c.lease}, {Sealed: "v1.b", Save: 1, Checkpoint: []byte("2")}}
		if got.Leases[0].Word != "OK" || got.Leases[2].Word != "OK" || got.Leases[0].Error != nil ||
			got.Leases[2].Error != nil || !reflect.DeepEqual(r.leases.beats, want) {
			t.Errorf("%s: %s, sent %+v", name, rec.Body, r.leases.beats)
		}
	}
}

// The jobs of a worker that has gone before its answer was sent are given back.
func TestWorker_Gone(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.leases.jobs = []job.WorkerLease{leased()}
	ctx, cancel := context.WithCancel(t.Context())
	req := httptest.NewRequestWithContext(ctx, "POST", "/api/worker/claim",
		strings.NewReader(`{"worker":"w","queues":["paid"]}`))
	req.Header.Set("Content-Type", "application/json")
	cancel()
	r.ServeHTTP(httptest.NewRecorder(), req)
	if len(r.leases.gaveBack) != 1 || r.leases.gaveBack[0].ID != knownID {
		t.Errorf("gave back %+v", r.leases.gaveBack)
	}
}

// A type that this server does not run goes into the queue that is declared for it.
func TestSubmit_TypesOfQueues(t *testing.T) {
	t.Parallel()
	book := []job.Queue{
		{Name: "films", Types: []string{"TRANSCODE"}, MaxRun: time.Hour}, {Name: "any"},
		{Name: "RESIZE"}, {Name: "SIMULATION"}, {Name: "PICKY", Types: []string{"OTHER"}},
	}
	for body, want := range map[string]string{
		`{"type":"TRANSCODE"}`:                                              "films 3600000",
		`{"type":"TRANSCODE","maxProcessingSeconds":60}`:                    "films 60000",
		`{"type":"TRANSCODE","payload":[1]}`:                                "films 3600000",
		`{"type":"RESIZE"}`:                                                 "RESIZE 0",
		`{"type":"RESIZE","queue":"any"}`:                                   "any 0",
		`{"type":"SIMULATION"}`:                                             " 0",
		`{"type":"SIMULATION","queue":"films"}`:                             "films 3600000", // the server knows it
		`{"type":"SIMULATION","maxProcessingSeconds":5}`:                    " 5000",
		`{"type":"RESIZE","queue":"films"}`:                                 "UNKNOWN_JOB_TYPE",
		`{"type":"RESIZE","queue":"main"}`:                                  "UNKNOWN_JOB_TYPE",
		`{"type":"PICKY"}`:                                                  "UNKNOWN_JOB_TYPE",
		`{"type":"NOPE"}`:                                                   "UNKNOWN_JOB_TYPE",
		`{"type":"TRANSCODE","maxProcessingSeconds":3601}`:                  "INVALID_REQUEST",
		`{"type":"SIMULATION","maxProcessingSeconds":51}`:                   "INVALID_REQUEST",
		`{"type":"SIMULATION","maxProcessingSeconds":0}`:                    "INVALID_REQUEST",
		`{"type":"TRANSCODE","payload":"` + strings.Repeat("p", 999) + `"}`: "PAYLOAD_TOO_LARGE",
	} {
		r := newRooms(t)
		r.queues.Set(book)
		rec := r.post(body)
		var got string
		if len(r.submitted) == 1 && rec.Code == 202 {
			got = fmt.Sprint(r.submitted[0].Queue, " ", r.submitted[0].MaxRunMs)
		} else {
			var p struct{ ErrorCode string }
			_ = json.Unmarshal(rec.Body.Bytes(), &p)
			got = p.ErrorCode
		}
		if got != want {
			t.Errorf("%.60s: %q, want %q: %s", body, got, want, rec.Body)
		}
	}
}
