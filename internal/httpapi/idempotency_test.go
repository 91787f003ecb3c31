package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// keyed submits a body with an Idempotency-Key, and returns the Idempotency of the submission.
func keyed(t *testing.T, path, key, body string) job.Idempotency {
	t.Helper()
	r := newRooms(t)
	if rec := r.json("POST", path, body, "Idempotency-Key", key); rec.Code != 202 {
		t.Fatalf("%s %s: %d %s", path, body, rec.Code, rec.Body)
	}
	return r.submitted[0].Idempotency
}

// The same key and body are the same submit, however the body is formatted. Another key, or another value in the
// body, is another submit.
func TestIdempotency_WhatIsTheSame(t *testing.T) {
	t.Attr("proves", "S4-P1")
	const body = `{"type":"SIMULATION","payload":{"a":[1,2],"b":"x y"},"maxRetries":2,"delaySeconds":30,` +
		`"callbackUrl":"https://x/"}`
	first := keyed(t, "/paid/submit", "order-7", body)
	if len(first.Key) != 32 || len(first.Body) != 32 || !hexadecimal(first.Key+first.Body) {
		t.Fatalf("%+v", first)
	}
	for _, same := range []string{
		body, strings.ReplaceAll(body, ",", " ,\n\t"),
		`{"callbackUrl":"https:\/\/x/","delaySeconds":30.0,"maxRetries":2,"payload":{ "a":[1 ,2],"b":"x y" },` +
			`"type":"SIMULATION"}`,
	} {
		if got := keyed(t, "/paid/submit", "order-7", same); got != first {
			t.Errorf("%s: %+v, want %+v", same, got, first)
		}
	}
	other := map[string]bool{first.Body: true}
	for _, change := range [][2]string{
		{"SIMULATION", "OTHER"}, {"[1,2]", "[2,1]"}, {"x y", "xy"}, {`"maxRetries":2`, `"maxRetries":1`}, {"30", "31"},
		{"https://x/", "https://y/"},
		{`"delaySeconds":30`, `"runAt":"2026-06-01T00:00:00Z"`}, {`,"callbackUrl":"https://x/"`, ""}, {`"maxRetries":2,`, ""},
	} {
		changed := strings.Replace(body, change[0], change[1], 1)
		r := newRooms(t)
		handler.Register(r.types, "OTHER", func(context.Context, any) (any, error) { return nil, nil })
		if rec := r.json("POST", "/paid/submit", changed, "Idempotency-Key", "order-7"); rec.Code != 202 {
			t.Fatalf("%s: %d %s", changed, rec.Code, rec.Body)
		}
		if got := r.submitted[0].Idempotency; got.Key != first.Key || other[got.Body] {
			t.Errorf("%s is taken for the same: %+v", changed, got)
		} else {
			other[got.Body] = true
		}
	}
	if got := keyed(t, "/unpaid/submit", "order-7", body); got.Key != first.Key || other[got.Body] {
		t.Errorf("another tier: %+v", got)
	}
	if got := keyed(t, "/paid/submit", "order-8", body); got.Key == first.Key || got.Body != first.Body {
		t.Errorf("another key: %+v", got)
	}
	if got := keyed(t, "/paid/submit", "k", ""); got.Key == "" || got.Body == "" {
		t.Errorf("an empty body: %+v", got)
	}
	r := newRooms(t)
	r.post(body)
	if got := r.submitted[0].Idempotency; got != (job.Idempotency{}) {
		t.Errorf("without a key: %+v", got)
	}
}

// An Idempotency-Key belongs to its caller: the same key of another caller has another internal name.
func TestIdempotency_OfAnotherCaller(t *testing.T) {
	t.Attr("proves", "A59")
	if ownKey("a", "k") == ownKey("b", "k") || ownKey("", "a\x00k") == ownKey("a", "k\x00") {
		t.Error("two callers share a key")
	}
	keys := map[string]string{}
	for _, owner := range []string{"", mine, theirs} {
		for _, path := range []string{"/public/submit", "/public/submit/batch"} {
			r := newRooms(t)
			r.behind(job.Caller{Key: job.Key{ID: owner, Role: job.RoleSubmit}})
			if path == "/public/submit" {
				r.json("POST", path, "{}", "Idempotency-Key", "k")
			} else {
				r.json("POST", path, `[{"idempotencyKey":"k"}]`)
			}
			keys[r.submitted[0].Idempotency.Key] = owner
		}
	}
	for _, from := range []string{"192.0.2.1", "192.0.2.2"} { // without an API key
		r := newRooms(t)
		r.behind(job.Caller{Key: job.Key{Role: job.RoleSubmit}, Address: netip.MustParseAddr(from)})
		r.json("POST", "/public/submit", "{}", "Idempotency-Key", "k")
		keys[r.submitted[0].Idempotency.Key] = from
	}
	if len(keys) != 5 {
		t.Errorf("five callers' keys are kept as %v", keys)
	}
	if hexHash([]byte("ab"), []byte("c")) == hexHash([]byte("a"), []byte("bc")) {
		t.Error("two bodies read alike")
	}
}

// A replay gets the present state of the first job, and nothing is run again.
func TestIdempotency_Replay(t *testing.T) {
	t.Attr("proves", "S4-P2 T-9")
	for name, c := range map[string]struct {
		find   error
		status string
	}{
		"as it stands":         {nil, "COMPLETED"},
		"that cannot be known": {job.ErrUnavailable, "PENDING"},
	} {
		for _, path := range []string{"/paid/submit", "/paid/submit/batch", "/jobs"} {
			r := newRooms(t)
			first := job.ID("019de340-01fe-7a58-be69-567cd7d6b700")
			r.submit = func(context.Context, job.Submission) (job.Accepted, error) {
				return job.Accepted{ID: first, Replayed: true}, nil
			}
			r.submitBatch = func([]job.Submission) ([]job.Accepted, []error) {
				return []job.Accepted{{ID: first, Replayed: true}}, []error{nil}
			}
			r.find = func(id job.ID) (job.Job, error) {
				j := done()
				j.ID = id
				return j, c.find
			}
			body, headers := `{"type":"PAIR","payload":{"A":1}}`, []string{"Idempotency-Key", "order-7"}
			if strings.HasSuffix(path, "batch") {
				body, headers = `[{"idempotencyKey":"order-7"}]`, nil
			}
			rec := r.json("POST", path, body, headers...)
			if rec.Code != 202 || !strings.Contains(rec.Body.String(), string(first)) ||
				!strings.Contains(rec.Body.String(), `"`+c.status+`"`) {
				t.Errorf("%s, %s: %d %s", name, path, rec.Code, rec.Body)
			}
			if path == "/paid/submit/batch" {
				if !strings.Contains(rec.Body.String(), `"idempotencyReplayed":true`) {
					t.Errorf("%s: %s", name, rec.Body)
				}
				continue
			}
			wantHeader(t, rec, "Idempotency-Replayed", "true")
			if !strings.Contains(rec.Header().Get("Location"), string(first)) {
				t.Errorf("%s, %s: %v", name, path, rec.Header())
			}
		}
	}
}

func TestIdempotency_OtherBody(t *testing.T) {
	rec := refusing(t, fmt.Errorf("submit: %w", job.ErrMismatch)).json("POST", "/paid/submit", `{}`, "Idempotency-Key",
		"k")
	wantProblem(t, rec, 422, "IDEMPOTENCY_MISMATCH")
}

// Each error of the other seeds has its code here, shown at the endpoints that return it.
func TestErrors_OneShape(t *testing.T) {
	t.Attr("proves", "S0-E6 S4-E4 S4-E3 S4-E5")
	failing := func(err error) *rooms {
		r := refusing(t, err)
		r.find = func(job.ID) (job.Job, error) { return job.Job{}, err }
		r.cancel = func(job.ID) (job.Word, error) { return "", err }
		r.requeue = func(job.ID, string) error { return err }
		return r
	}
	for name, c := range map[string]struct {
		err          error
		method, path string
		status       int
		code         string
	}{
		"JobNotFound":                   {job.ErrNotFound, "GET", "/api" + jobKnown, 404, "JOB_NOT_FOUND"},
		"JobNotFound, cancel":           {job.ErrNotFound, "DELETE", "/api" + jobKnown, 404, "JOB_NOT_FOUND"},
		"JobNotFound, retry":            {job.ErrNotFound, "POST", jobKnown + "/retry", 404, "JOB_NOT_FOUND"},
		"InvalidJobRequest":             {nil, "POST", "/api/jobs", 400, "INVALID_REQUEST"},
		"DuplicateJob, of another body": {job.ErrMismatch, "POST", "/paid/submit", 422, "IDEMPOTENCY_MISMATCH"},
		"InvalidStateTransition": {job.ErrWrongState, "POST", jobKnown + "/retry", 409,
			"INVALID_STATE_TRANSITION"},
		"InvalidStateTransition, resubmit": {job.ErrWrongState, "POST", "/admin" + jobKnown + "/resubmit", 409,
			"INVALID_STATE_TRANSITION"},
		"InvalidStateTransition, cancel": {job.ErrWrongState, "POST", "/api" + jobKnown + "/cancel", 409,
			"INVALID_STATE_TRANSITION"},
		"EventPublish: the store is away":    {job.ErrUnhealthy, "POST", "/paid/submit", 503, "SYSTEM_UNHEALTHY"},
		"EventPublish: the answer was lost":  {job.ErrFateUnknown, "POST", "/paid/submit", 504, "OUTCOME_UNKNOWN"},
		"anything else":                      {errors.New("hunter2"), "GET", jobKnown, 500, "INTERNAL"},
		"MalformedRecord: an id that is not": {nil, "GET", "/jobs/x", 400, "INVALID_REQUEST"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := failing(fmt.Errorf("hunter2: %w", c.err)).do(c.method, c.path, "")
			var fields []string
			switch c.path {
			case "/api/jobs":
				fields = []string{"jobType"}
			case "/jobs/x":
				fields = []string{"id"}
			}
			body := wantProblem(t, rec, c.status, c.code, fields...)
			if s := rec.Body.String(); strings.Contains(s, "hunter2") {
				t.Errorf("the inside is shown: %s", s)
			}
			if strings.Contains(c.path, string(knownID)) && c.status < 500 && body["jobId"] != string(knownID) {
				t.Errorf("jobId: %v", body)
			}
		})
	}
}
