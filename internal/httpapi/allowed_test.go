package httpapi

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// publicPair is a key for jobs of type PAIR in PUBLIC, five at a time.
var publicPair = job.Caller{Key: job.Key{ID: mine, Role: job.RoleSubmit, Tiers: []job.Tier{job.Public},
	Types: []string{"PAIR"}, InFlight: 5}}

// A key for PUBLIC gets a 403 at /paid/submit, whatever else is wrong. The body is not read, no Idempotency-Key is
// claimed, and nothing is submitted.
func TestAllowed_AnotherTier(t *testing.T) {
	t.Attr("proves", "A26")
	for _, c := range [][2]string{
		{"/paid/submit", `{"type":"PAIR","payload":{"A":1}}`}, {"/paid/submit", ""}, {"/paid/submit", "{nonsense"},
		{"/unpaid/submit", `{"type":"PAIR","payload":{"A":1}}`},
		{"/paid/submit/batch", `[{"type":"PAIR","payload":{"A":1}}]`}, {"/paid/submit/batch", "x"},
		{"/jobs", `{"type":"PAIR","payload":{"A":1},"tier":"PAID"}`}, {"/jobs", `{"type":"PAIR","payload":{"A":1}}`},
		{"/jobs", `{"type":"PAIR","payload":{"A":1},"tier":"paid"}`},
		{"/api/jobs", `{"jobType":"PAIR","payload":{"A":1},"tier":"PAID"}`},
	} {
		r := newRooms(t)
		r.behind(publicPair)
		var header []string
		if !strings.HasSuffix(c[0], "batch") {
			header = []string{"Idempotency-Key", "k"}
		}
		body := wantProblem(t, r.json("POST", c[0], c[1], header...), 403, "FORBIDDEN")
		if body["detail"] != "this key may submit to PUBLIC only" || r.submitted != nil {
			t.Errorf("%s %s: %v, submitted %v", c[0], c[1], body, r.submitted)
		}
	}
	r := newRooms(t)
	r.behind(publicPair)
	for _, path := range []string{"/paid/submit", "/paid/submit/batch"} {
		req := httptest.NewRequest("POST", path, unreadable{t})
		req.Header.Set("Content-Type", "application/json")
		wantProblem(t, r.hold(req, "{}"), 403, "FORBIDDEN")
	}
	wantProblem(t, r.json("POST", "/gold/submit", "{}"), 404, "UNKNOWN_TIER")
}

// A key for some types gets a refusal for another type, before the payload is checked.
func TestAllowed_AnotherType(t *testing.T) {
	t.Attr("proves", "A26")
	for _, c := range [][2]string{
		{"/public/submit", ""}, {"/public/submit", `{"type":"REPORT","payload":7}`},
		{"/public/submit", `{"type":"SIMULATION"}`},
		{"/public/submit", `{"type":"NO_SUCH_TYPE"}`}, {"/jobs", `{"type":"SIMULATION","tier":"PUBLIC"}`},
		{"/api/jobs", `{"jobType":"SIMULATION","tier":"PUBLIC"}`},
	} {
		r := newRooms(t)
		r.behind(publicPair)
		if body := wantProblem(t, r.json("POST", c[0], c[1]), 403,
			"FORBIDDEN"); body["detail"] != "this key may submit jobs of type PAIR only" || r.submitted != nil {
			t.Errorf("%s %s: %v, submitted %v", c[0], c[1], body, r.submitted)
		}
	}
	r := newRooms(t)
	r.behind(publicPair)
	rec := r.json("POST", "/public/submit/batch", `[{"type":"PAIR","payload":{"A":1}},{"type":"SIMULATION"}]`)
	if rec.Code != 202 || len(r.submitted) != 1 || !strings.Contains(rec.Body.String(), `"errorCode":"FORBIDDEN"`) ||
		!strings.Contains(rec.Body.String(), `"jobId"`) {
		t.Errorf("%d %s, submitted %v", rec.Code, rec.Body, r.submitted)
	}
}

// A submitted job has the id and the quota of the caller's key. Members of the body cannot set them.
func TestAllowed_OwnerAndQuota(t *testing.T) {
	t.Attr("proves", "A09")
	const pair = `{"type":"PAIR","payload":{"A":1}}`
	for _, c := range [][2]string{
		{"/public/submit", pair}, {"/public/submit/batch", "[" + pair + "]"},
		{"/jobs", `{"type":"PAIR","payload":{"A":1},"tier":"PUBLIC"}`},
		{"/api/jobs", `{"jobType":"PAIR","payload":{"A":1},"tier":"PUBLIC"}`},
	} {
		r := newRooms(t)
		r.behind(publicPair)
		if rec := r.json("POST", c[0], c[1]); rec.Code != 202 || len(r.submitted) != 1 {
			t.Fatalf("%s: %d %s", c[0], rec.Code, rec.Body)
		}
		if s := r.submitted[0]; s.Owner != mine || s.Quota != 5 || s.Everybody {
			t.Errorf("%s: %+v", c[0], s)
		}
		wantProblem(t, r.json("POST", "/public/submit", `{"owner":"`+theirs+`","quota":0,"everybody":true}`), 400,
			"INVALID_REQUEST", "owner", "quota", "everybody")
	}
}

// A REPORT counts everybody's jobs only for an operator. A caller without a key cannot submit one.
func TestAllowed_Report(t *testing.T) {
	t.Attr("proves", "A01")
	for name, want := range map[string]struct{ status, everybody int }{
		"stranger": {401, 0}, "anonymous": {403, 0}, "submit": {202, 0}, "read-only": {403, 0}, "admin": {202, 1},
		"worker": {403, 0}, "open": {202, 1},
	} {
		r := newRooms(t)
		handler.Register(r.types, "REPORT", func(context.Context, any) (any, error) { return nil, nil })
		r.behind(callers[name])
		if rec := r.json("POST", "/public/submit", `{"type":"REPORT"}`); rec.Code != want.status {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
		for _, s := range r.submitted {
			if s.Everybody != (want.everybody == 1) {
				t.Errorf("%s: everybody's: %v", name, s.Everybody)
			}
		}
	}
	r := newRooms(t)
	r.behind(callers["admin"])
	if r.post(""); r.submitted[0].Everybody {
		t.Error("a SIMULATION counts nobody's jobs")
	}
}

// Strangers may submit to PUBLIC only, if at all. Elsewhere they get a 401.
func TestAllowed_Strangers(t *testing.T) {
	t.Attr("proves", "A26")
	r := newRooms(t)
	r.behind(callers["anonymous"])
	if rec := r.json("POST", "/public/submit", "{}"); rec.Code != 202 || r.submitted[0].Owner != "" ||
		r.submitted[0].Quota != 0 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if rec := r.json("POST", "/public/submit/batch", "[{}]"); rec.Code != 202 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	r.submitted = nil
	wantProblem(t, r.json("POST", "/paid/submit", "{}"), 401, "UNAUTHORIZED")
	wantProblem(t, r.json("POST", "/paid/submit/batch", "[{}]"), 401, "UNAUTHORIZED")
	wantProblem(t, r.json("POST", "/jobs", `{"type":"PAIR","tier":"PUBLIC"}`), 401, "UNAUTHORIZED")
	bound := callers["anonymous"]
	bound.Key.Types = []string{"SIMULATION"}
	r.behind(bound)
	for _, body := range []string{`{"type":"PAIR","payload":{"A":1}}`, `{"type":"SEND_EMAIL"}`, `{"type":"CALLBACK"}`} {
		says := wantProblem(t, r.json("POST", "/public/submit", body), 403, "FORBIDDEN")
		if says["detail"] != "a caller without a key may submit jobs of type SIMULATION only" {
			t.Errorf("%s: %v", body, says)
		}
	}
	if r.submitted != nil {
		t.Errorf("%v", r.submitted)
	}
	if rec := r.json("POST", "/public/submit", "{}"); rec.Code != 202 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// Above its quota a caller gets a 429 with the quota, and a Retry-After with the time in which a job is likely to
// end.
func TestAllowed_Quota(t *testing.T) {
	r := newRooms(t)
	r.hint = 2500 * time.Millisecond
	r.submit = func(context.Context, job.Submission) (job.Accepted, error) {
		return job.Accepted{}, fmt.Errorf("submit: %w", job.ErrQuota)
	}
	r.behind(publicPair)
	rec := r.json("POST", "/public/submit", `{"type":"PAIR","payload":{"A":1}}`)
	if body := wantProblem(t, rec, 429,
		"RATE_LIMITED"); body["detail"] != "this key has reached its quota of 5 jobs that have not ended" {
		t.Errorf("%v", body)
	}
	wantHeader(t, rec, "Retry-After", "3")
	stranger := job.Caller{
		From: "~0123456789abcdef",
		Key:  job.Key{Role: job.RoleSubmit, Tiers: []job.Tier{job.Public}, Types: []string{"PAIR"}, InFlight: 2},
	}
	r.behind(stranger)
	rec = r.json("POST", "/public/submit", `{"type":"PAIR","payload":{"A":1}}`)
	body := wantProblem(t, rec, 429, "RATE_LIMITED")
	if body["detail"] != "this address without a key has reached its quota of 2 jobs that have not ended" {
		t.Errorf("%v", body)
	}
	r.behind(publicPair)
	r.submitBatch = func([]job.Submission) ([]job.Accepted, []error) {
		return []job.Accepted{{ID: knownID}, {}}, []error{nil, job.ErrQuota}
	}
	rec = r.json("POST", "/public/submit/batch", `[{"type":"PAIR","payload":{"A":1}},{"type":"PAIR","payload":{"A":1}}]`)
	if rec.Code != 202 || strings.Count(rec.Body.String(), `"errorCode":"RATE_LIMITED"`) != 1 ||
		!strings.Contains(rec.Body.String(), "its quota of 5 jobs") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	wantHeader(t, rec, "Retry-After", "3")
}

// A submit gets QUEUE_FULL if too many jobs of the tier have not ended. A stranger's submission says whom it counts
// for.
func TestAllowed_LivingFull(t *testing.T) {
	r := newRooms(t)
	var got job.Submission
	r.submit = func(_ context.Context, s job.Submission) (job.Accepted, error) {
		got = s
		return job.Accepted{}, fmt.Errorf("submit: %w", job.ErrLivingFull)
	}
	r.behind(
		job.Caller{From: "~0123456789abcdef", Key: job.Key{Role: job.RoleSubmit, Types: []string{"PAIR"}, InFlight: 2}},
	)
	body := wantProblem(t, r.json("POST", "/public/submit", `{"type":"PAIR","payload":{"A":1}}`), 503, "QUEUE_FULL")
	if detail, _ := body["detail"].(string); !strings.Contains(detail, "have not ended") {
		t.Errorf("%v", body)
	}
	if got.From != "~0123456789abcdef" || got.Owner != "" || got.Quota != 2 {
		t.Errorf("submitted %+v", got)
	}
}
