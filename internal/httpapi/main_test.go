package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const knownID = job.ID("019de340-01fe-7a58-be69-567cd7d6b7d4")

// aMoment is the time in the seed's sample.
var aMoment = time.Date(2026, 5, 1, 11, 31, 57, 961931000, time.UTC)

// pair is a payload whose own check finds two faults.
type pair struct{ A, B int }

func (p *pair) Validate() error {
	if p.A == p.B {
		return errors.Join(&job.PayloadError{Field: "payload.A", Reason: "is B"},
			&job.PayloadError{Field: "payload.B", Reason: "is A"})
	}
	return nil
}

func newRooms(t testing.TB) *rooms {
	t.Helper()
	up := Component{Status: "UP"}
	r := &rooms{
		tb: t, types: handler.NewRegistry(), ready: Report{Ready: true, Status: "UP"},
		health: Health{"UP", Components{up, up, up, JobHealth{Status: "UP"}}},
	}
	handler.Register(r.types, "SIMULATION", func(context.Context, any) (any, error) { return nil, nil })
	handler.Register(r.types, "PAIR", func(context.Context, pair) (any, error) { return nil, nil })
	r.plans.Set(job.DefaultPlans())
	r.queues.Set([]job.Queue{{Name: paidQueue, Limit: 7, Version: 3}})
	r.workers.all = []job.WorkerInfo{{
		Name: paidQueue, Kind: job.HTTPWorker, State: job.WorkerRuns, Language: "go", Queues: []string{paidQueue},
		StartedAt: aMoment, SeenAt: aMoment,
	}}
	r.deps = Deps{
		Submit: r, Jobs: r, Dead: r, Requeue: r, Wait: r, Events: r, Line: r, Ready: r, Types: r.types, Plans: r,
		Queues: &r.queues, Pauses: &r.pauses, Strict: true, Leases: &r.leases, Lines: &r.lines, Flows: &r.flows,
		Schedules: &r.times, Batches: &r.batches,
		Schemas: &schema.Checker{}, Workers: &r.workers, Artifacts: r, Overview: r, Charts: r, Audit: r,
		Keys: &r.ring, Changes: &r.told, Gateways: &r.gateways,
		CheckURL: func(url string) error {
			if !strings.HasPrefix(url, "https://") {
				return errors.New("must begin with https://")
			}
			return nil
		},
		PayloadLimit: 1000, Insecure: true,
		Log: slog.New(slog.NewJSONHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Now: func() time.Time { return aMoment },
	}
	r.Handler = NewHandler(r.deps)
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
	return r.hold(req, body)
}

// json sends a JSON body.
func (r *rooms) json(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	return r.do(method, target, body, append([]string{"Content-Type", "application/json"}, headers...)...)
}

// post submits a JSON body to /paid/submit.
func (r *rooms) post(body string, headers ...string) *httptest.ResponseRecorder {
	return r.json("POST", "/paid/submit", body, headers...)
}

// wantProblem checks that an answer has the error shape: every member, the headers, and nothing else. It returns
// the answer's members.
func wantProblem(t *testing.T, rec *httptest.ResponseRecorder, status int, code string,
	fields ...string) map[string]any {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
		t.Fatalf("status %d, body %q: %v", rec.Code, rec.Body, err)
	}
	if rec.Code != status || body["errorCode"] != code {
		t.Fatalf("status %d, want %d %s; body %s", rec.Code, status, code, rec.Body)
	}
	h := rec.Header()
	if h.Get("Content-Type") != "application/problem+json" || h.Get("X-Trace-Id") == "" ||
		h.Get("X-Trace-Id") != body["traceId"] {
		t.Errorf("headers %v, body %s", h, rec.Body)
	}
	for name, want := range map[string]any{"type": "about:blank", "title": http.StatusText(status),
		"status": float64(status), "timestamp": "2026-05-01T11:31:57.961931Z"} {
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
	known := map[string]bool{"type": true, "title": true, "status": true, "detail": true, "errorCode": true,
		"message": true, "timestamp": true, "traceId": true, "jobId": true, "errors": true}
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

// wantJSON compares an answer with a body, whatever the order of its members.
func wantJSON(t *testing.T, rec *httptest.ResponseRecorder, status int, want string) {
	t.Helper()
	var got, wanted any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != status || !reflect.DeepEqual(got, wanted) {
		t.Errorf("%d %s\nwant %d %s", rec.Code, rec.Body, status, want)
	}
	wantHeader(t, rec, "Content-Type", "application/json")
}
