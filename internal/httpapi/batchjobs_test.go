package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// A batch is made with its first members in one call, each checked as a submit, with a tier of its own or the batch's.
func TestBatches_CreateWithJobs(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	rec := r.json("POST", "/api/batches", `{"name":"import","tier":"paid","sealed":true,"jobs":[
		{"type":"PAIR","payload":{"A":1},"maxRetries":1,"delaySeconds":5,"traceId":"row-0"},
		{"tier":"PUBLIC","expiresIn":60}]}`, "Idempotency-Key", "k")
	if rec.Code != http.StatusCreated {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	for i := range 2 {
		if !strings.Contains(rec.Body.String(), string(job.BatchJobID(knownID, i, 0))) {
			t.Errorf("the id of job %d is not in %s", i, rec.Body)
		}
	}
	if len(r.batches.jobs) != 2 || !r.batches.made.Sealed || r.batches.key.Key == "" {
		t.Fatalf("%+v, %+v, %+v", r.batches.jobs, r.batches.made, r.batches.key)
	}
	one, two := r.batches.jobs[0], r.batches.jobs[1]
	if one.Tier != job.Paid || one.Type != "PAIR" || string(one.Payload) != `{"A":1}` || one.MaxRetries != 1 ||
		one.Delay != 5*time.Second || one.TraceID != "row-0" {
		t.Errorf("%+v", one)
	}
	if two.Tier != job.Public || two.Type != "SIMULATION" || two.ExpiresMs == 0 || two.TraceID == "" ||
		two.TraceID == "row-0" {
		t.Errorf("%+v", two)
	}
	r = newRooms(t)
	if rec := r.json("POST", "/api/batches", `{"name":"a","sealed":true}`); rec.Code != 201 || !r.batches.made.Sealed ||
		!r.batches.whole { // only Submit ends the round of a sealed batch without jobs
		t.Errorf("a sealed batch without jobs: %d %s", rec.Code, rec.Body)
	}
	if rec := r.json("POST", "/api/batches", `{"name":"a","jobs":[]}`); rec.Code != 201 || r.batches.made.Sealed {
		t.Errorf("an open batch without jobs: %d %s", rec.Code, rec.Body)
	}
}

// One bad job refuses the whole batch, and the refusal names the job.
func TestBatches_OneBadJob(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	post := func(jobs string) string { return `{"name":"a","jobs":` + jobs + `}` }
	for jobs, field := range map[string]string{
		`{}`: "jobs", `[7]`: "jobs", `[{},{"nope":1}]`: "jobs.1.nope", `[{},{},{"delaySeconds":-1}]`: "jobs.2.delaySeconds",
		`[{"unique":{"key":"a"}}]`:                "jobs.0.unique",
		`[{"batch":"` + string(knownID) + `"}]`:   "jobs.0.batch",
		`[{"idempotencyKey":"a"}]`:                "jobs.0.idempotencyKey",
		`[{},{"maxRetries":99}]`:                  "jobs.1.maxRetries",
		`[{"delaySeconds":9,"expiresIn":3}]`:      "jobs.0.expiresIn",
		`[{"key":"a line"}]`:                      "jobs.0.key",
		`[` + strings.Repeat(`{},`, 1000) + `{}]`: "jobs",
		`[{},{"callbackUrl":"http://a"}]`:         "jobs.1.callbackUrl",
	} {
		wantProblem(t, r.json("POST", "/api/batches", post(jobs)), 400, "INVALID_REQUEST", field)
	}
	wantProblem(t, r.json("POST", "/api/batches", `{"name":"a","sealed":"yes"}`), 400, "INVALID_REQUEST", "sealed")
	wantProblem(t, r.json("POST", "/api/batches", post(`[{},{"tier":"gold"}]`)), 404, "UNKNOWN_TIER", "jobs.1.tier")
	wantProblem(t, r.json("POST", "/api/batches", post(`[{"type":"NOPE"}]`)), 422, "UNKNOWN_JOB_TYPE", "jobs.0.type")
	rec := r.json("POST", "/api/batches", post(`[{},{"type":"PAIR","payload":{"C":1}}]`))
	wantProblem(t, rec, 422, "INVALID_PAYLOAD", "jobs.1.payload")
	if !strings.Contains(rec.Body.String(), "jobs.1: ") {
		t.Errorf("the detail does not name the job: %s", rec.Body)
	}
	large := fmt.Sprintf(`[{"payload":{"steps":[],"x":%q}}]`, strings.Repeat("x", 1<<20))
	wantProblem(t, r.json("POST", "/api/batches", post(large)), 413, "PAYLOAD_TOO_LARGE")
	if r.batches.made.Name != "" {
		t.Errorf("a refused batch was made: %+v", r.batches.made)
	}
}

// The errors of a whole batch are those of a submit. An outcome in doubt says how to repeat the call.
func TestBatches_JobsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		code int
		kind string
	}{
		{job.ErrQueueFull, 503, "QUEUE_FULL"}, {job.ErrUnhealthy, 503, "SYSTEM_UNHEALTHY"},
		{job.ErrQuota, 429, "RATE_LIMITED"},
		{job.ErrMismatch, 422, "IDEMPOTENCY_MISMATCH"}, {job.ErrAmbiguous, 504, "OUTCOME_UNKNOWN"},
	} {
		r := newRooms(t)
		r.batches.err = errors.Join(c.err)
		wantProblem(t, r.json("POST", "/api/batches", `{"name":"a","jobs":[{}]}`), c.code, c.kind)
	}
}
