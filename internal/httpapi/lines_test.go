package httpapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// The lines are listed with their keys, and those of one key with its limits.
func TestLines_Read(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	wantJSON(t, r.do("GET", "/admin/lines", ""), 200, `{"items":[],"lines":0,"running":0,"limits":null}`)
	r.lines.now = job.LinesNow{Lines: 5, Running: 50, Items: []job.LineNow{
		{Name: job.LineOf("a b"), Tier: job.Public, Queue: "films", Waiting: 9, Running: 40, Share: 0.8, Parked: true,
			Until: aMoment},
		{Name: job.LineOfOwner("k1"), Tier: job.Paid, Queue: "main", Waiting: 2, Running: 10, Share: 0.2},
		{Name: job.NoKey, Tier: job.Paid, Queue: "main", Waiting: 1},
	}}
	items := `"items":[` +
		`{"key":"a b","owner":null,"tier":"PUBLIC","queue":"films","waiting":9,"running":40,"share":0.8,"noisy":true,` +
		`"parked":true,"until":"2026-05-01T11:31:57.961931Z"},` +
		`{"key":null,"owner":"k1","tier":"PAID","queue":"main","waiting":2,"running":10,"share":0.2,"noisy":false,` +
		`"parked":false,"until":null},` +
		`{"key":null,"owner":null,"tier":"PAID","queue":"main","waiting":1,"running":0,"share":0,"noisy":false,` +
		`"parked":false,"until":null}],"lines":5,"running":50,`
	wantJSON(t, r.do("GET", "/admin/lines?sort=running&limit=3&tier=paid&queue=films", ""), 200,
		`{`+items+`"limits":null}`)
	wantJSON(t, r.do("GET", "/admin/lines?sort=share", ""), 200, `{`+items+`"limits":null}`)
	r.lines.limits = job.LineLimits{Name: job.LineOf("a b"), Running: 2, Rate: 0.5, Version: 4,
		Paused: &job.LinePause{Since: aMoment, By: "ada", Reason: "a fire"}}
	rec := r.do("GET", "/admin/lines?key=a+b", "")
	wantJSON(t, rec, 200, `{`+items+`"limits":{"key":"a b","owner":null,"running":2,"weight":1,"rate":0.5,"burst":0,`+
		`"waiting":0,"strict":false,"paused":{"since":"2026-05-01T11:31:57.961931Z","until":null,"by":"ada",`+
		`"reason":"a fire"},"version":4}}`)
	if rec.Header().Get("Etag") != `"4"` {
		t.Error(rec.Header())
	}
	want := []string{
		"lines {Name: Tier: Queue: Order:} at most 20",
		"lines {Name: Tier:PAID Queue:films Order:running} at most 3",
		"lines {Name: Tier: Queue: Order:share} at most 20",
		"lines {Name:a%20b Tier: Queue: Order:} at most 20",
	}
	if !slices.Equal(r.lines.asked, want) {
		t.Errorf("%q", r.lines.asked)
	}
	r.lines.limits.Paused.Until = aMoment // it has ended by itself
	if rec := r.do("GET", "/admin/lines?key=a+b", ""); !strings.Contains(rec.Body.String(), `"paused":null`) {
		t.Error(rec.Body)
	}
	for query, field := range map[string]string{
		"sort=name": "sort", "limit=0": "limit", "limit=101": "limit", "tier=..": "tier", "queue=%20": "queue",
		"owner=":                          "owner",
		"key=" + strings.Repeat("a", 129): "key", "key=a&owner=b": "owner", "key=%ff": "key", "nope=1": "nope",
	} {
		wantProblem(t, r.json("GET", "/admin/lines?"+query, ""), 400, "INVALID_REQUEST", field)
	}
}

// A PUT replaces the limits of a key, in place of the version that it names.
func TestLines_Write(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ query, body, asked string }{
		{"key=a+b", `{"running":5}`, "a%20b: 5 run, weight 0, 0 a second, 0 at once, 0 wait, strict false, over 3"},
		{"owner=k1", `{"weight":3,"rate":0.5,"burst":2,"waiting":9,"strict":true}`,
			"@k1: 0 run, weight 3, 0.5 a second, 2 at once, 9 wait, strict true, over 3"},
		{"key=", "", "@: 0 run, weight 0, 0 a second, 0 at once, 0 wait, strict false, over 3"},
		{"key=a", `{"paused":{"forSeconds":60,"reason":"a fire"}}`, "a: 0 run, weight 0, 0 a second, 0 at once, 0 wait, " +
			`strict false paused since 11:31:57 until 11:32:57 by "" because "a fire", over 3`},
	} {
		r := newRooms(t)
		rec := r.json("PUT", "/admin/lines?"+c.query, c.body, "If-Match", `"3"`)
		if rec.Code != 200 || rec.Header().Get("Etag") != `"7"` || !slices.Equal(r.lines.asked, []string{c.asked}) {
			t.Errorf("%s %s: %d, %q: %s", c.query, c.body, rec.Code, r.lines.asked, rec.Body)
		}
		if len(r.told.changes) != 1 || r.told.changes[0].Action != "line.put" {
			t.Errorf("%s: %+v", c.query, r.told.changes)
		}
	}
	r := newRooms(t)
	for body, field := range map[string]string{
		`{"running":-1}`: "running", `{"weight":1.5}`: "weight", `{"rate":-1}`: "rate", `{"strict":1}`: "strict",
		`{"paused":true}`: "paused", `{"paused":{"refuse":true}}`: "paused.refuse", `{"nope":1}`: "nope",
		`{"paused":{"until":"2026-05-01T11:00:00Z"}}`: "until",
	} {
		wantProblem(t, r.json("PUT", "/admin/lines?key=a", body), 400, "INVALID_REQUEST", field)
	}
	for _, body := range []string{`{"weight":1001}`, `{"burst":2}`, `{"rate":100000}`, `{"running":1000001}`} {
		rec := r.json("PUT", "/admin/lines?key=a", body)
		if rec.Code != 400 || !strings.Contains(rec.Body.String(), "INVALID_REQUEST") {
			t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
		}
	}
	wantProblem(t, r.json("PUT", "/admin/lines", "{}"), 400, "INVALID_REQUEST", "key")
	wantProblem(t, r.json("PUT", "/admin/lines?tier=paid", "{}"), 400, "INVALID_REQUEST", "tier")
	if r.lines.asked != nil {
		t.Errorf("%q", r.lines.asked)
	}
	for err, code := range map[error]string{
		job.ErrChanged: "PRECONDITION_FAILED", fmt.Errorf("%w: too many", job.ErrBadLimits): "INVALID_REQUEST",
		job.ErrAmbiguous: "OUTCOME_UNKNOWN",
	} {
		r.lines.err = err
		status := map[string]int{"PRECONDITION_FAILED": 412, "INVALID_REQUEST": 400, "OUTCOME_UNKNOWN": 504}[code]
		wantProblem(t, r.json("PUT", "/admin/lines?key=a", "{}"), status, code)
	}
}

// A pause of a key goes on when its limits are set again: it is paused since the same time, unless it ended meanwhile.
func TestLines_PauseGoesOn(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	began := aMoment.Add(-time.Hour)
	for until, since := range map[time.Time]string{
		{}: "paused since 10:31:57", aMoment.Add(-time.Second): "paused since 11:31:57",
	} {
		r.lines.limits = job.LineLimits{Name: "a", Paused: &job.LinePause{Since: began, Until: until}}
		r.json("PUT", "/admin/lines?key=a", `{"running":3,"paused":{}}`)
		if n := len(r.lines.asked); n == 0 || !strings.Contains(r.lines.asked[n-1], since) {
			t.Errorf("a pause until %s: %q", until, r.lines.asked)
		}
	}
}

// Where the tiers overlap no key has limits. With several partitions the jobs without a key are in all of them, so that
// their line has no limit that counts.
func TestLines_Where(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.deps.Partitions = 2
	r.Handler = NewHandler(r.deps)
	wantProblem(t, r.json("PUT", "/admin/lines?owner=k1", `{"running":1}`), 400, "INVALID_REQUEST", "key")
	for _, query := range []string{"owner=k1", "key="} {
		if rec := r.json("PUT", "/admin/lines?"+query, `{"weight":2,"paused":{}}`); rec.Code != 200 {
			t.Errorf("%s: %d %s", query, rec.Code, rec.Body)
		}
	}
	r.deps.Strict = false
	r.Handler = NewHandler(r.deps)
	wantProblem(t, r.json("PUT", "/admin/lines?key=a", `{}`), 400, "INVALID_REQUEST", "key")
}

// A submit names its key in a tier that has lines. The key is a part of what an Idempotency-Key stands for.
func TestSubmit_Key(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	wantProblem(t, r.json("POST", "/paid/submit", `{"key":"a"}`), 400, "INVALID_REQUEST", "key")
	plans := job.DefaultPlans()
	plans[0].Lines = job.LinesKey
	r.plans.Set(plans)
	for _, body := range []string{`{"key":"a b"}`, `{"key":"b"}`, `{}`, `{"key":null}`} {
		if rec := r.json("POST", "/paid/submit", body, "Idempotency-Key", "once"); rec.Code != 202 {
			t.Fatalf("%s: %d %s", body, rec.Code, rec.Body)
		}
	}
	got := r.submitted
	if got[0].Line != "a%20b" || got[1].Line != "b" || got[2].Line != "" || got[0].Idempotency == got[1].Idempotency ||
		got[2].Idempotency != got[3].Idempotency || got[0].Idempotency.Key[:4] != got[0].Home()[:4] {
		t.Errorf("%+v", got)
	}
	for _, body := range []string{`{"key":""}`, `{"key":1}`, `{"key":"` + strings.Repeat("a", 129) + `"}`} {
		wantProblem(t, r.json("POST", "/paid/submit", body), 400, "INVALID_REQUEST", "key")
	}
	r.deps.Partitions = 2
	r.Handler = NewHandler(r.deps)
	wantProblem(t, r.json("POST", "/paid/submit", `{"key":"a","unique":{"key":"b"}}`), 400, "INVALID_REQUEST", "key")
	r.submit = func(context.Context, job.Submission) (job.Accepted, error) { return job.Accepted{}, job.ErrLineFull }
	rec := r.json("POST", "/paid/submit", `{"key":"a"}`)
	wantProblem(t, rec, 429, "RATE_LIMITED")
	if !errors.Is(job.ErrLineFull, job.ErrQueueFull) || !strings.Contains(rec.Body.String(), "as its limit allows") {
		t.Error(rec.Body)
	}
}

// A plan says whether its tier has lines.
func TestTiers_Lines(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.store = func(p job.Plan, _ int64) (job.Plan, error) { return p, nil }
	for _, lines := range []string{"key", "owner", "off"} {
		rec := r.json("PUT", "/admin/tiers/GOLD", strings.Replace(goldPlan, `"off"`, `"`+lines+`"`, 1))
		if rec.Code != 200 || !strings.Contains(rec.Body.String(), `"lines":"`+lines+`"`) {
			t.Errorf("%s: %d %s", lines, rec.Code, rec.Body)
		}
	}
	wantProblem(t, r.json("PUT", "/admin/tiers/GOLD", strings.Replace(goldPlan, `"off"`, `"no"`, 1)), 400,
		"INVALID_REQUEST")
	r.deps.Strict = false
	r.Handler = NewHandler(r.deps)
	plan := strings.NewReplacer(`"off"`, `"key"`, `"ownSlots":2`, `"ownSlots":0`).Replace(goldPlan)
	wantProblem(t, r.json("PUT", "/admin/tiers/GOLD", plan), 400, "INVALID_REQUEST", "lines")
}

// A line is noisy if it has more than a tenth of the worker time, and its key thirty running attempts.
func TestLines_Noisy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line job.LineNow
		want bool
	}{
		{job.LineNow{Running: 30, Share: 0.11}, true}, {job.LineNow{Running: 29, Share: 0.9}, false},
		{job.LineNow{Running: 300, Share: 0.1}, false},
	} {
		if got := c.line.Noisy(); got != c.want {
			t.Errorf("%+v: %v", c.line, got)
		}
	}
}

// A poll and why tell of a job in a line when it will have ended, by the rate of the line.
func TestLines_ETA(t *testing.T) {
	t.Parallel()
	for want, place := range map[string]*job.LinePlace{
		`"position":9,"etaSeconds":5,`:       {Name: "a", Ahead: 9, Rate: 2},
		`"position":8,"etaSeconds":null,`:    {Name: "a", Ahead: 8},
		`"position":7,"etaSeconds":null,`:    {Name: "a", Ahead: 7, Rate: 2, Parked: true},
		`"position":7,"etaSeconds":4,`:       {Name: "a", Ahead: 7, Rate: 2, Parked: true, Running: 1},
		`"position":null,"etaSeconds":null,`: nil,
	} {
		j := at(job.Pending, 0)
		j.Line = "a"
		r := keep(t, j)
		r.position = func(*job.Job) (int64, error) { return 77, nil }
		r.rate, r.linePlace = 77, place
		if rec := r.do("GET", pollKnown, ""); !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%+v: %s has no %s", place, rec.Body, want)
		}
		if place == nil {
			continue
		}
		r.why = func() (Why, error) { return Why{Job: j, Line: place, Rate: 77}, nil }
		eta := `"etaSeconds"` + strings.Split(strings.TrimSuffix(want, ","), `"etaSeconds"`)[1]
		if rec := r.do("GET", "/api/jobs/"+string(j.ID)+"/why", ""); !strings.Contains(rec.Body.String(), eta) {
			t.Errorf("%+v: %s has no %s", place, rec.Body, eta)
		}
	}
}

// why says where in its line a job is, and what keeps the line.
func TestWhy_Line(t *testing.T) {
	t.Parallel()
	for words, place := range map[string]job.LinePlace{
		"its key may run no more at the same time: 2 of its attempts run": {Name: "a", Parked: true, Running: 2, Rate: 1},
		"its key may start no attempt before 2026-05-01T11:31:57Z":        {Name: "a", Parked: true, Until: aMoment, Rate: 1},
		"its key may start no attempt now":                                {Name: "a", Parked: true, Rate: 1},
		"3 jobs are ahead in its line":                                    {Name: "a", Ahead: 3, Rate: 1},
		"no attempt of its line has ended in the last five minutes, " +
			"so when it ends is not known": {Name: "a"},
	} {
		w := Why{Job: job.Job{Status: job.Pending}, Workers: 1, FreeSlots: 1, Gate: Gate{Open: true}, Line: &place}
		w.Ahead.Position = place.Ahead
		if got := w.reasons(); !slices.Equal(got, []string{words}) {
			t.Errorf("%+v: %q", place, got)
		}
	}
}
