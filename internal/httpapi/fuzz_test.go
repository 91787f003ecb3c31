package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/fuzz"
	"github.com/tierq/tierq/internal/job"
)

// fuzzedRooms returns rooms that answer every call, so that all code behind the parsers is reached.
func fuzzedRooms(f *testing.F) *rooms {
	r := newRooms(f)
	r.find = func(id job.ID) (job.Job, error) {
		return job.Job{ID: id, Status: job.Completed, Tier: job.Paid, Type: "PAIR", ArrivedAt: aMoment, EndedAt: aMoment,
			Attempt:    1,
			Generation: 1}, nil
	}
	r.await = func(_ context.Context, id job.ID, _ func(*job.Job) bool) (job.Job, error) { return r.find(id) }
	r.list = func(job.Filter, string, int) ([]job.Job, string, error) { return nil, "", nil }
	r.dead = func(job.Filter, string, int) ([]job.DeadLetter, string, error) { return nil, "", nil }
	r.cancel = func(job.ID) (job.Word, error) { return job.WasCancelled, nil }
	r.requeue = func(job.ID, string) error { return nil }
	r.requeueDead = func(_ job.Filter, limit int, _ bool) (int, int, error) { return limit, limit, nil }
	r.store = func(p job.Plan, _ int64) (job.Plan, error) { return p, nil }
	r.why = func() (Why, error) { return Why{}, nil }
	r.stats = func() (Stats, error) { return Stats{}, nil }
	return r
}

// ask sends one request, and checks what every answer promises. It returns nil if the target cannot be a request's.
func (r *rooms) ask(t *testing.T, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r.submitted = nil
	r.log.Reset()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+target, strings.NewReader(body))
	if err != nil || req.Host != "localhost" {
		return nil
	}
	req.RequestURI = target
	if req.URL, err = url.ParseRequestURI(target); err != nil { // as a server parses it: without a fragment
		return nil
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	r.ServeHTTP(rec, req)
	sent := method + target + body + strings.Join(headers, "\n")
	r.answersWell(t, rec, sent)
	return rec
}

// inside matches texts that no caller should see: type names of our packages and of the libraries, places in the
// code, and SQL.
var inside = regexp.MustCompile(`\b(httpapi|job|handlers|queue|archive|jsontext|strconv|time|url|gin|http)\.[A-Z]|\.go:\d|goroutine \d|runtime error|0x[0-9a-f]{9}|SELECT |/internal/`)

var answered = []int{200, 201, 202, 204, 304, 400, 404, 405, 409, 412, 413, 415, 422}

func (r *rooms) answersWell(t *testing.T, rec *httptest.ResponseRecorder, sent string) {
	t.Helper()
	h, text := rec.Header(), rec.Body.String()
	if !slices.Contains(answered, rec.Code) || strings.Contains(r.log.String(), `"ERROR"`) {
		t.Errorf("%d %.500s; the log has %.2000s", rec.Code, text, r.log.String())
	}
	for line := range strings.Lines(r.log.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("the log has the line %q", line)
		}
	}
	if !plain(h.Get("X-Trace-Id")) || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") == "" ||
		h.Get("Content-Security-Policy") == "" {
		t.Errorf("headers %v", h)
	}
	for name, values := range h {
		for _, v := range values {
			if !visible(strings.ReplaceAll(v, " ", "_")) || len(v) > 8<<10 {
				t.Errorf("%s: %.200q", name, v)
			}
		}
	}
	if rec.Code < 400 {
		return
	}
	var p map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil || !utf8.ValidString(text) || len(text) > 8<<10 ||
		h.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%d bytes of %s, %v: %.500q", len(text), h.Get("Content-Type"), err, text)
	}
	for _, name := range []string{"type", "title", "status", "detail", "errorCode", "message", "timestamp", "traceId"} {
		if p[name] == nil || p[name] == "" {
			t.Errorf("no %s in %s", name, text)
		}
	}
	if list, _ := p["errors"].([]any); p["status"] != float64(rec.Code) || len(list) > maxErrors || len(p) > 10 {
		t.Errorf("answered %s", text)
	}
	if m := inside.FindString(text); m != "" && !strings.Contains(sent, m) {
		t.Errorf("answered %s, which says %q", text, m)
	}
}

// fits checks that a submission is within the bounds for what a body may ask for.
func (r *rooms) fits(t *testing.T, body string, s *job.Submission) {
	t.Helper()
	if s.Payload != nil && (!json.Valid(s.Payload) || !strings.Contains(body, string(s.Payload)) ||
		len(s.Payload) > 1000) {
		t.Errorf("became %q", s.Payload)
	}
	plan, ok := r.plans.Plan(s.Tier)
	if !ok || s.MaxRetries < -1 || s.MaxRetries > plan.MaxRetries || s.Delay < 0 || s.Delay > maxAhead ||
		s.RunAt.After(aMoment.Add(maxAhead)) || s.Owner != "" || s.ID != "" {
		t.Errorf("submitted %+v", s)
	}
	if s.CallbackURL != "" && !strings.HasPrefix(s.CallbackURL, "https://") {
		t.Errorf("calls back %q", s.CallbackURL)
	}
}

var asJSON = []string{"Content-Type", "application/json"}

// For any body there is no panic and no 500, an accepted submission is what was sent, and a repeat with the same
// key is the same.
func FuzzSubmitBody(f *testing.F) {
	f.Attr("proves", "A09 A13 A61")
	r := fuzzedRooms(f)
	fuzz.Text(f, func(t *testing.T, body string) {
		for _, path := range []string{"/paid/submit", "/jobs", "/api/jobs"} {
			rec := r.ask(t, "POST", path, body, append(asJSON, "Idempotency-Key", "k")...)
			if accepted := rec.Code == http.StatusAccepted; accepted != (len(r.submitted) == 1) || len(r.submitted) > 1 {
				t.Fatalf("%d, submitted %+v", rec.Code, r.submitted)
			} else if !accepted {
				continue
			}
			first := r.submitted[0]
			r.fits(t, body, &first)
			r.ask(t, "POST", path, " \n"+body+"\t", append(asJSON, "Idempotency-Key", "k")...)
			if len(r.submitted) != 1 || r.submitted[0].Idempotency != first.Idempotency || len(first.Idempotency.Body) != 32 {
				t.Errorf("%+v, and again %+v", first.Idempotency, r.submitted)
			}
		}
	}, ``, `{}`, `{"type":"PAIR","payload":{"A":1}}`, `{"payload":null,"maxRetries":0}`, `{"maxRetries":1e9}`,
		`{"type":"PAIR","type":"PAIR"}`, "{\"payload\":\"\xff\"}",
		`{"payload":"\ud800"}`, `{} x`, `[[[[`, `{"payload":{"a":[1,2,{"b":"c"}]}}`, "\ufeff{}", `{"payload" :  [ 1 ] }`,
		`{"a":`, `"`,
		`{"payload":-0.0e-0}`,
		`{"jobType":"PAIR","payload":{"A":1},"maxRetryCount":1,"tier":"PUBLIC"}`, `{"delaySeconds":1.5}`,
		`{"runAt":"2026-05-02T08:00:00+14:00"}`, `{"callbackUrl":"https://x/y"}`, `{"tier":"paid"}`,
		`{"tier":"PAID","priority":1,"status":"COMPLETED","attempts":0,"jobId":"x","owner":"me"}`, `{"delaySeconds":1e18}`,
		`{"delaySeconds":0.0004,"runAt":null}`)
}

// For any batch, every entry gets its answer in its place, and an accepted entry is what was sent.
func FuzzBatchBody(f *testing.F) {
	f.Attr("proves", "A09 A13")
	r := fuzzedRooms(f)
	fuzz.Text(f, func(t *testing.T, body string) {
		for _, kind := range []string{"application/json", "application/x-ndjson"} {
			rec := r.ask(t, "POST", "/paid/submit/batch", body, "Content-Type", kind)
			var answer struct {
				Data []struct{ JobID, ErrorCode, CurrentJobStatus string } `json:"apiResponseData"`
			}
			if rec.Code != http.StatusAccepted {
				if len(r.submitted) != 0 {
					t.Errorf("refused and submitted %+v", r.submitted)
				}
				continue
			}
			if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil || len(answer.Data) > maxEntries ||
				rec.Body.Len() > 4<<10*(len(answer.Data)+1) {
				t.Fatalf("%d bytes for %d entries, %v", rec.Body.Len(), len(answer.Data), err)
			}
			accepted := 0
			for i, a := range answer.Data {
				if (a.JobID == "") == (a.ErrorCode == "") || (a.JobID == "") != (a.CurrentJobStatus == "") {
					t.Errorf("entry %d: %+v", i, a)
				}
				if a.JobID != "" {
					accepted++
				}
			}
			if accepted != len(r.submitted) {
				t.Errorf("%d accepted, %d submitted", accepted, len(r.submitted))
			}
			for i := range r.submitted {
				r.fits(t, body, &r.submitted[i])
			}
		}
	}, `[{},{"type":"PAIR","payload":{"A":1}},{"nope":1}]`, "{}\n{\"maxRetries\":1}\n\n{}", `[]`,
		`[{"idempotencyKey":"a"},{"idempotencyKey":"a"}]`, `[[],null,1,"x"]`, `{}`, `[{}`, `[{}] x`, "\n\n",
		`[{"a":1}{"b":2}]`,
		"["+strings.Repeat("{},", 1000)+"{}]", "{\"payload\":\"\xff\"}\r\n{}")
}
