package httpapi

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const goldPlan = `{"priority":4,"maxRetries":3,"heartbeatTimeoutMs":6000,"maxProcessingTimeMs":20000,` +
	`"share":50,"maxCrashes":0,"ownSlots":2,"lines":"off","maxWaitMs":90000,` +
	`"backoff":{"baseMs":2000,"factor":2.5,"capMs":300000,"jitter":0.2},"typeBackoff":{"SEND_EMAIL":{"baseMs":0,` +
	`"factor":1,"capMs":0,"jitter":0}}}`

func gold() job.Plan {
	return job.Plan{
		Tier: "GOLD", Priority: 4, MaxRetries: 3, HeartbeatTimeout: 6 * time.Second, MaxProcessingTime: 20 * time.Second,
		MaxCrashes: new(0), OwnSlots: 2, Lines: job.LinesOff, MaxWait: 90 * time.Second, Share: 50,
		Backoff:     job.Backoff{Base: 2 * time.Second, Factor: 2.5, Cap: 300 * time.Second, Jitter: 0.2},
		TypeBackoff: map[string]job.Backoff{"SEND_EMAIL": {Factor: 1}},
	}
}

func TestTiers_Read(t *testing.T) {
	r := newRooms(t)
	const paid = `{"tier":"PAID","priority":1,"maxRetries":5,"heartbeatTimeoutMs":15000,` +
		`"maxProcessingTimeMs":50000,"share":100,"maxCrashes":null,"ownSlots":0,"lines":"off","maxWaitMs":0,` +
		`"backoff":{"baseMs":2000,"factor":2,"capMs":300000,"jitter":0.2},"typeBackoff":{},"version":1}`
	rec := r.do("GET", "/admin/tiers", "")
	if s := rec.Body.String(); rec.Code != 200 || !strings.HasPrefix(s, `{"items":[`+paid+`,{"tier":"UNPAID"`) ||
		strings.Count(s, `"tier":`) != 3 {
		t.Errorf("%d %s", rec.Code, s)
	}
	for _, path := range []string{"/admin/tiers/PAID", "/admin/tiers/paid"} {
		rec := r.do("GET", path, "")
		wantJSON(t, rec, 200, paid)
		wantHeader(t, rec, "ETag", `"1"`)
	}
	if rec := r.do("GET", "/admin/tiers/PAID", "", "If-None-Match", `"1"`); rec.Code != 304 || rec.Body.Len() != 0 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	for _, path := range []string{"/admin/tiers/GOLD", "/admin/tiers/Paid", "/admin/tiers/PAID%20",
		"/admin/tiers/" + strings.Repeat("A", 500)} {
		wantProblem(t, r.do("GET", path, ""), 404, "UNKNOWN_TIER")
	}
}

func TestTiers_Write(t *testing.T) {
	for name, c := range map[string]struct {
		headers []string
		version int64
	}{
		"whatever is there": {nil, -1}, "that version": {[]string{"If-Match", `"7"`}, 7},
		"any": {[]string{"If-Match", "*"}, -1}, "new": {[]string{"If-None-Match", "*"}, 0},
	} {
		r := newRooms(t)
		if name == "any" {
			// there is no tier to match
			wantProblem(t, r.json("PUT", "/admin/tiers/GOLD", goldPlan, c.headers...), 412, "PRECONDITION_FAILED")
			r.plans.Set(append(job.DefaultPlans(), gold()))
		}
		r.store = func(p job.Plan, ifVersion int64) (job.Plan, error) {
			if !reflect.DeepEqual(p, gold()) || ifVersion != c.version {
				t.Errorf("%s: %+v, if %d", name, p, ifVersion)
			}
			p.Version = 8
			return p, nil
		}
		rec := r.json("PUT", "/admin/tiers/GOLD", goldPlan, c.headers...)
		wantJSON(t, rec, 200, `{"tier":"GOLD","version":8,`+goldPlan[1:])
		wantHeader(t, rec, "ETag", `"8"`)
	}
}

// A plan that does not say them, or says null, has no limit of crashes, no slots of its own, no longest wait, and no
// backoff of single types.
func TestTiers_WhatMayBeLeftOut(t *testing.T) {
	r := newRooms(t)
	r.store = func(p job.Plan, _ int64) (job.Plan, error) {
		if p.MaxCrashes != nil || p.OwnSlots != 0 || p.MaxWait != 0 || p.TypeBackoff != nil {
			t.Errorf("stored %+v", p)
		}
		return p, nil
	}
	for _, said := range []string{"", `"maxCrashes":null,"typeBackoff":null,`} {
		rec := r.json("PUT", "/admin/tiers/GOLD", `{`+said+`"priority":4,"maxRetries":3,"heartbeatTimeoutMs":6000,`+
			`"maxProcessingTimeMs":20000,"share":50,"backoff":{"baseMs":0,"factor":1,"capMs":0,"jitter":0}}`)
		if rec.Code != 200 || !strings.Contains(rec.Body.String(), `"maxCrashes":null,`) {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	}
}

func TestTiers_ChangedMeanwhile(t *testing.T) {
	r := newRooms(t)
	r.store = func(job.Plan, int64) (job.Plan, error) {
		return job.Plan{}, fmt.Errorf("store plan: %w", job.ErrChanged)
	}
	wantProblem(t, r.json("PUT", "/admin/tiers/GOLD", goldPlan, "If-Match", `"7"`), 412, "PRECONDITION_FAILED")
	r.store = nil // no call to the store: a weak tag never matches
	wantProblem(t, r.json("PUT", "/admin/tiers/GOLD", goldPlan, "If-Match", `W/"7"`), 412, "PRECONDITION_FAILED")
}

func TestTiers_BadInput(t *testing.T) {
	replace := func(from, to string) string { return strings.Replace(goldPlan, from, to, 1) }
	for name, c := range map[string]struct {
		path, body string
		headers    []string
		fields     []string
	}{
		"nothing":     {"/admin/tiers/GOLD", ``, nil, nil},
		"an array":    {"/admin/tiers/GOLD", `[]`, nil, nil},
		"all missing": {"/admin/tiers/GOLD", `{}`, nil, planFields},
		"its name":    {"/admin/tiers/GOLD", replace("{", `{"tier":"GOLD",`), nil, []string{"tier"}},
		"its version": {"/admin/tiers/GOLD", replace("{", `{"version":7,`), nil, []string{"version"}},
		"a fraction":  {"/admin/tiers/GOLD", replace("6000", "6000.5"), nil, []string{"heartbeatTimeoutMs"}},
		"crashes, a text": {"/admin/tiers/GOLD", replace(`"maxCrashes":0`, `"maxCrashes":"0"`), nil,
			[]string{"maxCrashes"}},
		"a text":         {"/admin/tiers/GOLD", replace("50,", `"50",`), nil, []string{"share"}},
		"negative":       {"/admin/tiers/GOLD", replace(":3,", ":-3,"), nil, []string{"maxRetries"}},
		"beyond 32 bits": {"/admin/tiers/GOLD", replace("20000", "99999999999"), nil, []string{"maxProcessingTimeMs"}},
		"backoff, a number": {"/admin/tiers/GOLD", replace(`{"baseMs":2000,"factor":2.5,"capMs":300000,"jitter":0.2}`, "5"),
			nil, []string{"backoff"}},
		"backoff, unknown": {"/admin/tiers/GOLD", replace(`"factor"`, `"nope":1,"factor"`), nil, []string{"backoff.nope"}},
		"backoff, missing": {"/admin/tiers/GOLD", replace(`"factor":2.5,`, ``), nil, []string{"backoff.factor"}},
		"type's, missing": {"/admin/tiers/GOLD", replace(`"capMs":0,`, ``), nil,
			[]string{"typeBackoff.SEND_EMAIL.capMs"}},
		"type's, a number": {"/admin/tiers/GOLD", replace(`{"baseMs":0,"factor":1,"capMs":0,"jitter":0}`, `5`), nil,
			[]string{"typeBackoff.SEND_EMAIL"}},
		"types, an array": {"/admin/tiers/GOLD",
			replace(`{"SEND_EMAIL":{"baseMs":0,"factor":1,"capMs":0,"jitter":0}}`, `[]`), nil, []string{"typeBackoff"}},
		"cannot be served":    {"/admin/tiers/GOLD", replace(":4,", ":900,"), nil, nil},
		"not a type's name":   {"/admin/tiers/GOLD", replace("SEND_EMAIL", "send"), nil, nil},
		"a reserved name":     {"/admin/tiers/ADMIN", goldPlan, nil, nil},
		"a name in mixed":     {"/admin/tiers/Gold", goldPlan, nil, []string{"tier"}},
		"a name with a slash": {"/admin/tiers/GO%2FLD", goldPlan, nil, []string{"tier"}},
		"two tags":            {"/admin/tiers/GOLD", goldPlan, []string{"If-Match", `"1", "2"`}, []string{"If-Match"}},
		"a bare number":       {"/admin/tiers/GOLD", goldPlan, []string{"If-Match", `7`}, []string{"If-Match"}},
		"version 0":           {"/admin/tiers/GOLD", goldPlan, []string{"If-Match", `"0"`}, []string{"If-Match"}},
		"none of a version":   {"/admin/tiers/GOLD", goldPlan, []string{"If-None-Match", `"7"`}, []string{"If-None-Match"}},
		"both": {"/admin/tiers/GOLD", goldPlan, []string{"If-Match", `"7"`, "If-None-Match", "*"},
			[]string{"If-Match"}},
		"a parameter": {"/admin/tiers/GOLD?force=1", goldPlan, nil, []string{"force"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRooms(t)
			r.store = func(p job.Plan, _ int64) (job.Plan, error) {
				t.Errorf("stored %+v", p)
				return p, nil
			}
			wantProblem(t, r.json("PUT", c.path, c.body, c.headers...), 400, "INVALID_REQUEST", c.fields...)
		})
	}
	r := newRooms(t)
	r.store = func(p job.Plan, _ int64) (job.Plan, error) {
		return p, fmt.Errorf("store plan on 10.0.0.7: %w \"GOLD\": no room", job.ErrBadPlan)
	}
	if body := wantProblem(t, r.json("PUT", "/admin/tiers/GOLD", goldPlan), 400,
		"INVALID_REQUEST"); body["detail"] != `bad plan "GOLD": no room` {
		t.Errorf("%v", body)
	}
}
