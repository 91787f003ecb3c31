package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// What is paused is listed, with the processes that know it: it is in force once all do.
func TestPaused_IsListed(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	wantJSON(t, r.do("GET", "/admin/paused", ""), 200, `{"version":0,"inForce":true,"items":[],"processes":[]}`)
	r.pauses.Set(job.Pauses{Version: 3, List: []job.Pause{
		{Scope: "all", Since: aMoment},
		{Scope: "tier:PAID", Since: aMoment, Until: aMoment.Add(time.Hour), By: "ada", Reason: "a migration", Refuse: true},
	}})
	r.pauses.readers = []PauseReader{{"host-1", 3}, {"host-2", 2}}
	items := `"items":[{"scope":"all","since":"2026-05-01T11:31:57.961931Z","until":null,"by":null,"reason":null,` +
		`"refuse":false},{"scope":"tier:PAID","since":"2026-05-01T11:31:57.961931Z",` +
		`"until":"2026-05-01T12:31:57.961931Z","by":"ada","reason":"a migration","refuse":true}],`
	wantJSON(t, r.do("GET", "/admin/paused", ""), 200, `{"version":3,"inForce":false,`+items+
		`"processes":[{"name":"host-1","version":3,"current":true},{"name":"host-2","version":2,"current":false}]}`)
	r.pauses.readers[1].Version = 4 // it has read a change that this process has not
	wantJSON(t, r.do("GET", "/admin/paused", ""), 200, `{"version":3,"inForce":true,`+items+
		`"processes":[{"name":"host-1","version":3,"current":true},{"name":"host-2","version":4,"current":true}]}`)
}

func TestPaused_Change(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path, body string
		asked              string
		status             int
	}{
		{"PUT", "/admin/paused/all", "", `pause all until 00:00:00 by "" because "", refuse false`, 200},
		{"PUT", "/admin/paused/tier:public", `{"forSeconds":60,"reason":" a migration ","refuse":true}`,
			`pause tier:public until 11:32:57 by "" because "a migration", refuse true`, 200},
		{"PUT", "/admin/paused/queue:a:b", `{"until":"2026-05-01T13:00:00+01:00"}`,
			`pause queue:a:b until 12:00:00 by "" because "", refuse false`, 200},
		{"DELETE", "/admin/paused/all", "", "resume all", 204},
		{"POST", "/admin/queues/paid/pause", "", `pause queue:paid until 00:00:00 by "" because "", refuse false`, 200},
		{"POST", "/admin/queues/main/resume", "", "resume queue:main", 200},
	} {
		r := newRooms(t)
		rec := r.json(c.method, c.path, c.body)
		if rec.Code != c.status || !slices.Equal(r.pauses.asked, []string{c.asked}) {
			t.Errorf("%s %s: %d, %q: %s", c.method, c.path, rec.Code, r.pauses.asked, rec.Body)
		}
		if c.path == "/admin/paused/all" && (len(r.told.changes) != 1 || r.told.changes[0].Target != "all") {
			t.Errorf("%s %s: the log of changes has %+v", c.method, c.path, r.told.changes)
		}
	}
	admin := newRooms(t)
	admin.behind(callers["admin"])
	rec := admin.json("PUT", "/admin/paused/all", "")
	by := cmp.Or(callers["admin"].Key.Name, callers["admin"].Key.ID)
	want := fmt.Sprintf("pause all until 00:00:00 by %q because \"\", refuse false", by)
	if rec.Code != 200 || !slices.Equal(admin.pauses.asked, []string{want}) {
		t.Errorf("%d, %q, want %q", rec.Code, admin.pauses.asked, want)
	}
}

func TestPaused_Refused(t *testing.T) {
	t.Parallel()
	for body, field := range map[string]string{
		`{"until":"yesterday"}`:                           "until",
		`{"until":"2026-05-01T11:00:00Z"}`:                "until", // it has passed
		`{"until":"2027-06-01T11:00:00Z"}`:                "until",
		`{"forSeconds":0}`:                                "forSeconds",
		`{"forSeconds":1.5}`:                              "forSeconds",
		`{"forSeconds":31536001}`:                         "forSeconds",
		`{"forSeconds":1,"until":"2026-05-01T12:00:00Z"}`: "until forSeconds",
		`{"reason":7}`:                                    "reason",
		`{"reason":"two\nlines"}`:                         "reason",
		`{"refuse":"yes"}`:                                "refuse",
		`{"nobody":1}`:                                    "nobody",
	} {
		r := newRooms(t)
		wantProblem(t, r.json("PUT", "/admin/paused/all", body), 400, "INVALID_REQUEST", strings.Split(field, " ")...)
		if r.pauses.asked != nil {
			t.Errorf("%s: %q", body, r.pauses.asked)
		}
	}
	for _, c := range []struct {
		err    error
		status int
		code   string
		fields []string
	}{
		{fmt.Errorf("%w: a scope is all", job.ErrBadScope), 422, "NOT_PAUSABLE", []string{"scope"}},
		{job.ErrUnknownTier, 404, "UNKNOWN_TIER", nil}, {job.ErrUnknownQueue, 404, "UNKNOWN_QUEUE", nil},
		{fmt.Errorf("call: %w", job.ErrAmbiguous), 504, "OUTCOME_UNKNOWN", nil},
		{job.ErrUnavailable, 503, "SYSTEM_UNHEALTHY", nil},
	} {
		for _, method := range []string{"PUT", "DELETE"} {
			r := newRooms(t)
			r.pauses.err = c.err
			wantProblem(t, r.json(method, "/admin/paused/type:RESIZE", ""), c.status, c.code, c.fields...)
		}
	}
	strict := newRooms(t)
	strict.deps.Strict = false
	strict.Handler = NewHandler(strict.deps)
	wantProblem(t, strict.json("PUT", "/admin/tiers/PAID", `{"priority":1,"maxRetries":5,"heartbeatTimeoutMs":15000,`+
		`"maxProcessingTimeMs":50000,"share":100,"ownSlots":1,"backoff":{"baseMs":0,"factor":1,"capMs":0,"jitter":0}}`),
		400, "INVALID_REQUEST", "ownSlots")
}

// A submit that a pause refuses says so, and when to try again.
func TestPaused_Submit(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.submit = func(context.Context, job.Submission) (job.Accepted, error) { return job.Accepted{}, pausedUntil{} }
	rec := r.post("")
	wantProblem(t, rec, 503, "PAUSED")
	if rec.Header().Get("Retry-After") != "7" {
		t.Errorf("Retry-After: %q", rec.Header().Get("Retry-After"))
	}
}

// pausedUntil is admission's refusal of what is paused for 7 s more.
type pausedUntil struct{}

func (pausedUntil) Error() string          { return job.ErrPaused.Error() + ": PUBLIC is paused" }
func (pausedUntil) Unwrap() error          { return job.ErrPaused }
func (pausedUntil) RetryIn() time.Duration { return 7 * time.Second }
