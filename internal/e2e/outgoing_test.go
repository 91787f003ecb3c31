package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// told is an event in a callback.
type told struct {
	Type string `json:"type"`
	Data struct {
		JobID        string          `json:"jobId"`
		Generation   int             `json:"generation"`
		Status       string          `json:"status"`
		Tier         string          `json:"tier"`
		Type         string          `json:"type"`
		RetryCount   int             `json:"retryCount"`
		FailedAt     *time.Time      `json:"failedAt"`
		CompletedAt  *time.Time      `json:"completedAt"`
		Result       json.RawMessage `json:"result"`
		FailureCause *string         `json:"failureCause"`
		LastError    *string         `json:"lastError"`
		TraceID      string          `json:"traceId"`
	} `json:"data"`
}

// verify checks a signed message with the standard's own library: it verifies with this secret and with no other.
func verify(t *testing.T, c call) {
	t.Helper()
	for key, good := range map[string]bool{secret: true, "whsec_" + strings.Repeat("A", 40): false} {
		v, err := webhooks.NewWebhook(key)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Verify(c.body, c.header); (err == nil) != good {
			t.Errorf("signature of %s with the secret %s: %v", c.header.Get("webhook-id"), key, err)
		}
	}
}

// events returns the callbacks that were answered with 200, by message id, and checks the signature of every try.
func events(t *testing.T, calls []call) (of map[string]told, tries map[string]int) {
	t.Helper()
	of, tries = map[string]told{}, map[string]int{}
	first := map[string]string{}
	for _, c := range calls {
		verify(t, c)
		id := c.header.Get("webhook-id")
		var e told
		if err := json.Unmarshal(c.body, &e); err != nil {
			t.Fatalf("%v: %s", err, c.body)
		}
		if tries[id]++; tries[id] == 1 {
			first[id] = string(c.body)
		} else if first[id] != string(c.body) {
			t.Errorf("try %d of %s says %s, the first said %s", tries[id], id, c.body, first[id])
		}
		of[id] = e
	}
	return of, tries
}

// A callback URL gets a signed event, under an id that stays, for each end of its job: for a completed job, and
// for a failed one and again after its requeue. For a cancelled job it gets none. An event that the receiver
// refuses is sent again.
func TestCallbacks(t *testing.T) {
	t.Attr("proves", "S4-M1 S4-M3 S4-M4")
	t.Parallel()
	c := newCluster(t)
	r := newReceiver(t, func(w http.ResponseWriter, c call, before int) {
		if c.path == "/completed" && before < 2 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	s := c.start(outward...)
	s.tune("PAID", map[string]any{"backoff": backoff(200)})
	body := func(step, path, more string) string {
		return fmt.Sprintf(`{"payload":{"steps":[%s]},"callbackUrl":%q%s}`, step, r.URL+path, more)
	}
	done := s.submit("paid", body(`{"type":"LOG","message":"hi"}`, "/completed", ""))
	dead := s.submit("paid", body(`{"type":"FAIL","message":"boom"}`, "/failed", `,"maxRetries":1`))
	gone := s.submit("paid", body(`{"type":"LOG","message":"hi"}`, "/cancelled", `,"delaySeconds":3600`))
	wants(t, do(t, http.MethodDelete, s.base+"/api/jobs/"+gone, ""), http.StatusOK, "")
	c.settled(15*time.Second, done, dead, gone)
	wants(t, do(t, http.MethodPost, s.base+"/jobs/"+dead+"/retry", ""), http.StatusAccepted, "")
	c.counts(2, `SELECT COUNT(*) FROM `+endings+` WHERE job_id = '`+dead+`'`)
	c.quiet(15 * time.Second)

	of, tries := events(t, r.heard())
	if len(of) != 3 || tries[done+"_1"] != 3 || tries[dead+"_1"] != 1 || tries[dead+"_2"] != 1 {
		t.Fatalf("events and tries: %v", tries)
	}
	e := of[done+"_1"]
	if d := e.Data; e.Type != "job.completed" || d.JobID != done || d.Status != "COMPLETED" || d.Tier != "PAID" ||
		d.Type != "SIMULATION" ||
		d.CompletedAt == nil || d.FailedAt != nil || d.FailureCause != nil ||
		!strings.Contains(string(d.Result), `"stepsRun":1`) ||
		d.TraceID != s.job(done).TraceID {
		t.Errorf("%+v", e)
	}
	for generation := 1; generation <= 2; generation++ {
		e := of[dead+"_"+strconv.Itoa(generation)]
		if d := e.Data; e.Type != "job.failed" || d.JobID != dead || d.Generation != generation || d.Status != "FAILED" ||
			d.RetryCount != 1 ||
			d.FailedAt == nil || d.CompletedAt != nil || d.FailureCause == nil || *d.FailureCause != "HANDLER_ERROR" ||
			d.LastError == nil || !strings.Contains(*d.LastError, "boom") {
			t.Errorf("%+v", e)
		}
	}
	if n := len(r.of(http.MethodPost, "/cancelled")); n != 0 {
		t.Errorf("%d calls about the cancelled job", n)
	}
}

// The process that ran a job dies after the outcome is in SQL and before the callback is sent. The callback is
// still sent, once.
func TestCallbackSurvivesKill(t *testing.T) {
	t.Attr("proves", "F05 S4-M5")
	t.Parallel()
	c := newCluster(t)
	r := newReceiver(t, nil)
	api := c.start(append(outward, "TIERQ_ROLES=api,recovery")...)
	doomed := c.start(append(outward, "TIERQ_ROLES=worker", "TIERQ_FAILPOINTS=record.after=kill")...)
	file := filepath.Join(t.TempDir(), "runs")
	id := api.submit("paid", strings.TrimSuffix(counting(file, 0), "}")+fmt.Sprintf(`,"callbackUrl":%q}`, r.URL+"/hook"))
	doomed.waitFor("failpoint record.after hit", 10*time.Second)
	if _, err := doomed.WaitExit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var rows int
	c.row(`SELECT COUNT(*) FROM job_results WHERE job_id = '`+id+`'`, &rows)
	t.Logf("evidence: %s; %d row in SQL, %d calls", line(doomed.Output(), "failpoint"), rows, len(r.heard()))
	if rows != 1 || len(r.heard()) != 0 {
		t.Fatal("the process did not die between SQL and the callback")
	}
	c.start(append(outward, "TIERQ_ROLES=worker")...)
	c.settled(25*time.Second, id) // other processes may take a first attempt's outcome 10 s after its end
	of, tries := events(t, r.heard())
	if e := of[id+"_1"]; len(of) != 1 || tries[id+"_1"] != 1 || e.Type != "job.completed" || e.Data.JobID != id {
		t.Errorf("%v %v", of, tries)
	}
	if _, marks := executions(t, file); len(marks[id]) != 2 {
		t.Errorf("runs %v", marks[id])
	}
}

// Unless the operator allows it, no URL may lead into the own network: such a URL is refused at submit, in
// callbacks and in the job types that make calls.
func TestCallsIntoTheHouse(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	r := newReceiver(t, nil)
	s := c.start("TIERQ_ROLES=api")
	for _, tc := range []struct {
		body, code, field string
		status            int
	}{
		{`{"callbackUrl":%q}`, "INVALID_REQUEST", "callbackUrl", http.StatusBadRequest},
		{`{"type":"SEND_WEBHOOK","payload":{"url":%q}}`, "INVALID_PAYLOAD", "payload.url", http.StatusUnprocessableEntity},
		{
			`{"type":"FORWARD_DOCUMENT","payload":{"documentId":"1","contentType":"text/plain","body":"","endpoints":[%q]}}`,
			"INVALID_PAYLOAD", "payload.endpoints[0]", http.StatusUnprocessableEntity,
		},
	} {
		a := s.ask("paid", fmt.Sprintf(tc.body, r.URL))
		wants(t, a, tc.status, tc.code)
		if !strings.Contains(string(a.body), `"field":"`+tc.field+`"`) {
			t.Errorf("%s is not named: %s", tc.field, a.body)
		}
	}
	if n := c.rdb.ZCard(t.Context(), "{tierq:0}:main:queue").Val(); n != 0 || len(r.heard()) != 0 {
		t.Errorf("%d jobs, %d calls", n, len(r.heard()))
	}
}

const trace = "4bf92f3577b34da6a3ce929d0e0e4736"

// A webhook goes through the whole server: it is signed and belongs to its job's trace, and the receiver's answer
// decides the job's end.
func TestWebhook(t *testing.T) {
	t.Attr("proves", "S1-P4 S4-O2")
	t.Parallel()
	c := newCluster(t)
	r := newReceiver(t, func(w http.ResponseWriter, c call, before int) {
		switch {
		case c.path == "/gone":
			w.WriteHeader(http.StatusGone)
		case c.path == "/busy" && before == 0:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			_, _ = w.Write([]byte(`{"ok":true}`))
		}
	})
	s := c.start(outward...)
	s.tune("PAID", map[string]any{"backoff": backoff(60_000)}) // a retry that comes sooner follows a Retry-After
	ids := map[string]string{}
	for _, path := range []string{"/fine", "/gone", "/busy"} {
		body := fmt.Sprintf(`{"type":"SEND_WEBHOOK","payload":{"url":%q,"body":{"n":1},"headers":{"X-Shop":"7"}}}`,
			r.URL+path)
		a := s.ask("paid", body, "traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
		if a.status != http.StatusAccepted {
			t.Fatalf("%d %s", a.status, a.body)
		}
		ids[path] = accepted(t, a)
	}
	c.settled(20*time.Second, ids["/fine"], ids["/gone"], ids["/busy"])
	for path, want := range map[string]struct {
		status, cause, result string
		calls, retries        int
	}{
		"/fine": {"COMPLETED", "", `{"status":200,"body":{"ok":true}}`, 1, 0},
		"/gone": {"FAILED", "PERMANENT_ERROR", "", 1, 0},
		"/busy": {"COMPLETED", "", `{"status":200,"body":{"ok":true}}`, 2, 1},
	} {
		p, calls := s.poll(ids[path]), r.of(http.MethodPost, path)
		cause := ""
		if p.FailureCause != nil {
			cause = *p.FailureCause
		}
		if p.Status != want.status || cause != want.cause || p.RetryCount != want.retries ||
			want.result != "" && string(p.Result) != want.result {
			t.Errorf("%s: %+v %s, want %+v", path, p, cause, want)
		}
		if len(calls) != want.calls {
			t.Fatalf("%s was called %d times", path, len(calls))
		}
		for i, c := range calls {
			verify(t, c)
			h := c.header
			if h.Get("webhook-id") != ids[path] || h.Get("X-Shop") != "7" || h.Get("X-Job-Attempt") != strconv.Itoa(i+1) ||
				string(c.body) != `{"n":1}` ||
				!strings.HasPrefix(h.Get("traceparent"), "00-"+trace+"-") || h.Get("X-Trace-Id") != trace {
				t.Errorf("%s: %v %s", path, h, c.body)
			}
		}
	}
	busy := r.of(http.MethodPost, "/busy")
	if pause := busy[1].at.Sub(busy[0].at); pause < time.Second || pause > 8*time.Second {
		t.Errorf("Retry-After was 1 s, the second call came after %s", pause)
	}
	var attempts int
	c.row(`SELECT attempts FROM failed_jobs WHERE job_id = '`+ids["/gone"]+`' AND failure_cause = 'PERMANENT_ERROR'`,
		&attempts)
	if attempts != 1 {
		t.Errorf("410 was tried %d times", attempts)
	}
}
