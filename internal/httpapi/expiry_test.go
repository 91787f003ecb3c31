package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func TestSubmit_Expires(t *testing.T) {
	minute := aMoment.Add(time.Minute).UnixMilli()
	for body, want := range map[string]int64{
		`{}`:                                    0,
		`{"expiresIn":60}`:                      minute,
		`{"expiresIn":null}`:                    0,
		`{"expiresIn":0.0014,"expiresAt":null}`: aMoment.UnixMilli() + 1,
		`{"expiresIn":31536000}`:                aMoment.Add(maxAhead).UnixMilli(),
		`{"expiresAt":"2026-05-01T11:32:57.961931Z"}`:                                  minute,
		`{"expiresAt":"2026-05-01T13:32:57.961931+02:00"}`:                             minute,
		`{"expiresIn":60,"delaySeconds":59.9}`:                                         minute,
		`{"runAt":"2026-05-01T11:32:00Z","expiresIn":60,"unique":{"key":"one thing"}}`: minute,
	} {
		r := newRooms(t)
		if rec := r.post(body); rec.Code != 202 {
			t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
			continue
		}
		if got := r.submitted[0].ExpiresMs; got != want {
			t.Errorf("%s: expires at %d, want %d", body, got, want)
		}
	}
	for body, field := range map[string]string{
		`{"expiresIn":0}`:                             "expiresIn",
		`{"expiresIn":0.0004}`:                        "expiresIn",
		`{"expiresIn":-1}`:                            "expiresIn",
		`{"expiresIn":"60"}`:                          "expiresIn",
		`{"expiresIn":31536000.1}`:                    "expiresIn",
		`{"expiresIn":1e999}`:                         "expiresIn",
		`{"expiresAt":60}`:                            "expiresAt",
		`{"expiresAt":"soon"}`:                        "expiresAt",
		`{"expiresAt":"2026-05-01T11:31:57.961931Z"}`: "expiresAt", // now
		`{"expiresAt":"2020-01-01T00:00:00Z"}`:        "expiresAt",
		`{"expiresAt":"2027-05-01T11:31:57.962Z"}`:    "expiresAt",
		`{"expiresIn":60,"delaySeconds":60}`:          "expiresIn",
		`{"expiresAt":"2026-05-01T12:00:00Z","runAt":"2026-05-01T12:00:00Z"}`:             "expiresAt",
		`{"expiresAt":"2026-05-01T12:00:00.0004Z","runAt":"2026-05-01T12:00:00.0001Z"}`:   "expiresAt",
		`{"expiresAt":"2026-05-01T12:00:00Z","delaySeconds":3600,"unique":{"key":"one"}}`: "expiresAt",
	} {
		wantProblem(t, newRooms(t).post(body), 400, "INVALID_REQUEST", field)
	}
	both := `{"expiresIn":60,"expiresAt":"2026-05-01T12:00:00Z"}`
	wantProblem(t, newRooms(t).post(both), 400, "INVALID_REQUEST", "expiresIn", "expiresAt")
}

// A submit to a tier with a maxWait may ask for a shorter time, and not for a longer one.
func TestSubmit_ExpiresWithinMaxWait(t *testing.T) {
	plans := job.DefaultPlans()
	plans[0].MaxWait = time.Minute
	for body, field := range map[string]string{
		`{"expiresIn":60}`: "", `{"expiresIn":1}`: "", `{"expiresIn":60.001}`: "expiresIn",
		`{"expiresIn":70,"delaySeconds":10}`: "", `{"expiresIn":70.001,"delaySeconds":10}`: "expiresIn",
		`{"expiresAt":"2026-05-01T11:32:57.961931Z"}`: "", `{"expiresAt":"2026-05-01T11:33:00Z"}`: "expiresAt",
		`{"runAt":"2026-05-01T12:00:00Z","expiresAt":"2026-05-01T12:01:00Z"}`: "",
		`{"runAt":"2026-05-01T12:00:00Z","expiresAt":"2026-05-01T12:01:01Z"}`: "expiresAt",
	} {
		r := newRooms(t)
		r.plans.Set(plans)
		rec := r.post(body)
		if field != "" {
			wantProblem(t, rec, 400, "INVALID_REQUEST", field)
			continue
		}
		if rec.Code != 202 {
			t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
		}
	}
}

// The time belongs to what an Idempotency-Key stands for: the same time is a repeat, another one is not.
func TestSubmit_ExpiresAndIdempotency(t *testing.T) {
	r := newRooms(t)
	for _, body := range []string{`{}`, `{"expiresIn":60}`, `{"expiresIn":60}`, `{"expiresIn":61}`,
		`{"expiresAt":"2026-05-01T12:00:00Z"}`} {
		if rec := r.json("POST", "/paid/submit", body, "Idempotency-Key", "k"); rec.Code != 202 {
			t.Fatal(rec.Code, rec.Body)
		}
	}
	bodies := map[string]bool{}
	for _, s := range r.submitted {
		bodies[s.Idempotency.Body] = true
	}
	if len(bodies) != 4 || r.submitted[1].Idempotency.Body != r.submitted[2].Idempotency.Body {
		t.Errorf("%d different requests of 4", len(bodies))
	}
}

// Only a job that waits for its first claim says when it expires. Why names the time too.
func TestExpiresAtIsShown(t *testing.T) {
	at := aMoment.Add(time.Hour)
	waits := job.Job{ID: knownID, Generation: 1, Tier: job.Paid, Type: "SIMULATION", Status: job.Pending,
		ArrivedAt: aMoment}
	waits.ExpiresMs = at.UnixMilli()
	retried, ended, requeued := waits, waits, waits
	retried.FirstTriedAt, retried.Attempt = aMoment, 1
	ended.Status, ended.EndedAt = job.Expired, at
	requeued.Generation = 2
	for name, c := range map[string]struct {
		job  job.Job
		want *string
	}{"waits": {waits, when(time.UnixMilli(at.UnixMilli()))}, "claimed once": {retried, nil}, "ended": {ended, nil},
		"requeued": {requeued, nil}} {
		row, polled := rowOf(&c.job), (&api{Deps: newRooms(t).deps.withDefaults()}).view(t.Context(), &c.job)
		if got := fmt.Sprint(text1(row.ExpiresAt), text1(polled.ExpiresAt)); got != fmt.Sprint(text1(c.want), text1(c.want)) {
			t.Errorf("%s: %s, want twice %s", name, got, text1(c.want))
		}
	}
	w := Why{Job: waits, Workers: 1, FreeSlots: 1}
	w.Gate.Open = true
	want := "[it is next it expires at 2026-05-01T12:31:57Z, unless a worker claims it]"
	if got := fmt.Sprint(w.reasons()); got != want {
		t.Errorf("why: %s", got)
	}
}

// text1 is the text, or a word for none.
func text1(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// An entry of a batch and POST /api/jobs say when their jobs expire, and are refused with the member that is wrong.
func TestExpiresInABatch(t *testing.T) {
	r := newRooms(t)
	rec := r.json("POST", "/paid/submit/batch", `[{"expiresIn":60},{"expiresIn":0},{}]`)
	refused := strings.Contains(rec.Body.String(), `"errors":[{"field":"expiresIn"`)
	if rec.Code != 202 || !refused || len(r.submitted) != 2 ||
		r.submitted[0].ExpiresMs != aMoment.Add(time.Minute).UnixMilli() || r.submitted[1].ExpiresMs != 0 {
		t.Errorf("%d %s, submitted %+v", rec.Code, rec.Body, r.submitted)
	}
	body := `{"jobType":"SIMULATION","tier":"PAID","expiresAt":"2026-05-01T12:00:00Z"}`
	rec = r.json("POST", "/api/jobs", body)
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	if last := r.submitted[len(r.submitted)-1]; last.ExpiresMs != noon.UnixMilli() {
		t.Errorf("%d %s, submitted %+v", rec.Code, rec.Body, last)
	}
}
