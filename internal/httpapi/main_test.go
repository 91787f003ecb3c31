package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const knownID = job.ID("019de340-01fe-7a58-be69-567cd7d6b7d4")

// aMoment is the seed's own.
var aMoment = time.Date(2026, 5, 1, 11, 31, 57, 961931000, time.UTC)

// rooms are the rooms behind the edge, and what they were asked.
type rooms struct {
	submit    func(ctx context.Context, s job.Submission) (job.ID, error)
	find      func(id job.ID) (job.Job, error)
	ready     Report
	types     *job.Registry
	plans     job.PlanBook
	submitted []job.Submission
	found     []job.ID
	log       bytes.Buffer
	http.Handler
}

func (r *rooms) Submit(ctx context.Context, s job.Submission) (job.ID, error) {
	r.submitted = append(r.submitted, s)
	if r.submit == nil {
		return knownID, nil
	}
	return r.submit(ctx, s)
}

func (r *rooms) Find(_ context.Context, id job.ID) (job.Job, error) {
	r.found = append(r.found, id)
	if r.find == nil {
		return job.Job{}, job.ErrNotFound
	}
	return r.find(id)
}

func (r *rooms) Ready(context.Context) Report { return r.ready }

// pair is a payload that checks itself and finds two things wrong.
type pair struct{ A, B int }

func (p *pair) Validate() error {
	if p.A == p.B {
		return errors.Join(&job.PayloadError{Field: "payload.A", Reason: "is B"}, &job.PayloadError{Field: "payload.B", Reason: "is A"})
	}
	return nil
}

func newRooms(t testing.TB) *rooms {
	t.Helper()
	r := &rooms{types: job.NewRegistry(), ready: Report{Ready: true, Status: "UP"}}
	job.Handle(r.types, "SIMULATION", func(context.Context, any) (any, error) { return nil, nil })
	job.Handle(r.types, "PAIR", func(context.Context, pair) (any, error) { return nil, nil })
	r.plans.Set(job.DefaultPlans())
	r.Handler = NewHandler(Deps{
		Submit: r, Find: r, Ready: r, Types: r.types, Plans: &r.plans, PayloadLimit: 1000,
		Log: slog.New(slog.NewJSONHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Now: func() time.Time { return aMoment },
	})
	return r
}

// do sends one request; headers are name, value, name, value.
func (r *rooms) do(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req := httptest.NewRequest(method, "/", reader)
	u, err := url.Parse("http://tierq" + target)
	if err != nil {
		panic(err)
	}
	req.URL = u
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	r.ServeHTTP(rec, req)
	return rec
}

// post submits a JSON body to /paid/submit.
func (r *rooms) post(body string, headers ...string) *httptest.ResponseRecorder {
	return r.do("POST", "/paid/submit", body, append([]string{"Content-Type", "application/json"}, headers...)...)
}

// wantProblem holds an answer to the one error shape: every member, the headers, and nothing else. It returns the errors' fields.
func wantProblem(t *testing.T, rec *httptest.ResponseRecorder, status int, code string, fields ...string) map[string]any {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
		t.Fatalf("status %d, body %q: %v", rec.Code, rec.Body, err)
	}
	if rec.Code != status || body["errorCode"] != code {
		t.Fatalf("status %d, want %d %s; body %s", rec.Code, status, code, rec.Body)
	}
	h := rec.Header()
	if h.Get("Content-Type") != "application/problem+json" || h.Get("X-Trace-Id") == "" || h.Get("X-Trace-Id") != body["traceId"] {
		t.Errorf("headers %v, body %s", h, rec.Body)
	}
	for name, want := range map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": float64(status), "timestamp": "2026-05-01T11:31:57.961931Z"} {
		if body[name] != want {
			t.Errorf("%s = %v, want %v", name, body[name], want)
		}
	}
	for _, name := range []string{"message", "detail"} {
		if s, _ := body[name].(string); s == "" {
			t.Errorf("%s = %v", name, body[name])
		}
	}
	var named []string
	list, _ := body["errors"].([]any)
	for _, e := range list {
		one := e.(map[string]any)
		if one["reason"] == "" || len(one) != 2 {
			t.Errorf("error %v", one)
		}
		named = append(named, one["field"].(string))
	}
	if strings.Join(named, ",") != strings.Join(fields, ",") {
		t.Errorf("fields %q, want %q; body %s", named, fields, rec.Body)
	}
	known := map[string]bool{"type": true, "title": true, "status": true, "detail": true, "errorCode": true, "message": true, "timestamp": true, "traceId": true, "jobId": true, "errors": true}
	for name := range body {
		if !known[name] {
			t.Errorf("member %q is not in the contract", name)
		}
	}
	return body
}

func wantHeader(t *testing.T, rec *httptest.ResponseRecorder, name, want string) {
	t.Helper()
	if got := rec.Header().Get(name); got != want {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}
