package pages

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// plan3 returns the form of version 3 as it is stored, with changes.
func plan3(changes ...string) url.Values {
	form := url.Values{
		"version": {"3"}, "priority": {"1"}, "maxRetries": {"5"}, "heartbeatTimeout": {"15"}, "maxProcessingTime": {"50"},
		"share": {"100"}, "maxCrashes": {""}, "ownSlots": {"0"}, "maxWait": {"0"},
		"backoffBase": {"2"}, "backoffFactor": {"2"}, "backoffCap": {"300"}, "backoffJitter": {"0.2"},
	}
	for i := 0; i+1 < len(changes); i += 2 {
		form.Set(changes[i], changes[i+1])
	}
	return form
}

func newTiers() *ops {
	o := newOps()
	o.says("GET /admin/tiers/PAID", 200, opsPlan(3))
	return o
}

func TestTiers_AreShown(t *testing.T) {
	o := newTiers()
	holds(t, o.open(t, "/dashboard/tiers", nil), 200, "<h2>PAID</h2>", "version 3", "2 s × 2", "/dashboard/tiers/PAID",
		"Of single types")
	holds(t, o.open(t, "/dashboard/tiers/PAID", nil), 200, `name="heartbeatTimeout" value="15"`,
		`name="backoffJitter" value="0.2"`, `name="version" value="3"`)
	o.did(t, "GET /admin/tiers/PAID")
	for _, tier := range []string{"NONE", "..%2Fkeys", "a.b", "%3Cb%3E", strings.Repeat("A", 32)} {
		holds(t, o.open(t, "/dashboard/tiers/"+tier, nil), 404)
		if len(o.asked) > 0 && tier != "NONE" {
			t.Errorf("%s: asked %q", tier, o.asked)
		}
	}
	o.says("GET /api/me", 200, `{"open":false,"name":"eve","role":"read-only","operator":true}`)
	lacks(t, o.open(t, "/dashboard/tiers", nil), "/dashboard/tiers/PAID")
	holds(t, o.open(t, "/dashboard/tiers/PAID", nil), 403, "admin key")
}

// Nothing is stored before the difference was shown. Settings that the form does not have stay unchanged.
func TestTier_IsStoredAfterTheDifferenceWasShown(t *testing.T) {
	o := newTiers()
	form := plan3("maxRetries", " 7 ", "heartbeatTimeout", "1.5", "share", "90", "ownSlots", "4", "maxCrashes", "2",
		"maxWait", "120")
	w := o.open(t, "/dashboard/tiers/PAID", form)
	o.did(t, "GET /admin/tiers/PAID")
	holds(t, w, 200, "<del>5</del>", "<ins>7</ins>", "<del>15 s</del>", "<ins>1.5 s</ins>", "<del>100 %</del>",
		"<ins>90 %</ins>", "<ins>120 s</ins>", "keep their number", `name="confirmed" value="yes"`,
		`type="hidden" name="maxRetries" value="7"`, `type="hidden" name="version" value="3"`,
		`type="hidden" name="ownSlots" value="4"`, `type="hidden" name="maxCrashes" value="2"`)
	if n := strings.Count(w.Body.String(), "<del>"); n != 6 {
		t.Errorf("%d differences", n)
	}
	w = o.open(t, "/dashboard/tiers/PAID", plan3())
	holds(t, w, 200, "Nothing differs")
	lacks(t, w, `value="yes"`)
	w = o.open(t, "/dashboard/tiers/PAID", plan3("confirmed", "yes"))
	o.did(t, "GET /admin/tiers/PAID")
	holds(t, w, 200, "Nothing differs")

	o.says("PUT /admin/tiers/PAID", 200, opsPlan(4))
	form.Set("confirmed", "yes")
	w = o.open(t, "/dashboard/tiers/PAID", form)
	goes(t, w, "/dashboard/tiers", "done", "The plan is stored as version 4.")
	o.did(t, "GET /admin/tiers/PAID",
		`PUT /admin/tiers/PAID if "3" {"priority":1,"maxRetries":7,"heartbeatTimeoutMs":1500,`+
			`"maxProcessingTimeMs":50000,"share":90,"maxCrashes":2,"ownSlots":4,"maxWaitMs":120000,`+
			`"backoff":{"baseMs":2000,"factor":2,"capMs":300000,"jitter":0.2},"typeBackoff":{"SEND_EMAIL":{"baseMs":60000,`+
			`"factor":1,"capMs":60000,"jitter":0.1}}}`)
}

// An empty field of crashes is a plan whose crashes count as retries.
func TestTier_Crashes(t *testing.T) {
	o := newTiers()
	holds(t, o.open(t, "/dashboard/tiers", nil), 200, "<dt>Crashes</dt><dd>count as retries</dd>")
	w := o.open(t, "/dashboard/tiers/PAID", nil)
	holds(t, w, 200, `name="maxCrashes" value="" inputmode="decimal" autocomplete="off"><p`, "a crash counts as a retry",
		`name="maxRetries" value="5" inputmode="decimal" autocomplete="off" required>`)
	holds(t, o.open(t, "/dashboard/tiers/PAID", plan3("maxCrashes", "0")), 200, "<del>none</del>", "<ins>0</ins>",
		`type="hidden" name="maxCrashes" value="0"`)

	stored := strings.Replace(opsPlan(3), `"priority"`, `"maxCrashes":2,"priority"`, 1)
	o.says("GET /admin/tiers", 200, `{"items":[`+stored+`]}`)
	o.says("GET /admin/tiers/PAID", 200, stored)
	o.says("PUT /admin/tiers/PAID", 200, opsPlan(4))
	holds(t, o.open(t, "/dashboard/tiers", nil), 200, "<dt>Crashes</dt><dd>2</dd>")
	holds(t, o.open(t, "/dashboard/tiers/PAID", nil), 200, `name="maxCrashes" value="2"`)
	holds(t, o.open(t, "/dashboard/tiers/PAID", plan3()), 200, "<del>2</del>", "<ins>none</ins>",
		`type="hidden" name="maxCrashes" value=""`)
	for _, typed := range []string{"x", "-1", "1.5"} {
		holds(t, o.open(t, "/dashboard/tiers/PAID", plan3("maxCrashes", typed)), 400,
			"maxCrashes: must be a whole number, 0 or more")
	}
	holds(t, o.open(t, "/dashboard/tiers/PAID", plan3("maxCrashes", "101")), 400, "maxCrashes: 101 is not in 0..100")
	for typed, want := range map[string]bool{"": false, "2": true} {
		o.open(t, "/dashboard/tiers/PAID", plan3("maxCrashes", typed, "maxRetries", "7", "confirmed", "yes"))
		put := o.asked[len(o.asked)-1]
		if !strings.HasPrefix(put, "PUT") || strings.Contains(put, `"maxCrashes":2`) != want {
			t.Errorf("%q: %s", typed, put)
		}
	}
}

// The form has which jobs wait in lines. A form that does not have it leaves it as it is.
func TestTier_Lines(t *testing.T) {
	o := newTiers()
	stored := strings.Replace(opsPlan(3), `"priority"`, `"lines":"key","priority"`, 1)
	o.says("GET /admin/tiers/PAID", 200, stored)
	o.says("PUT /admin/tiers/PAID", 200, stored)
	holds(t, o.open(t, "/dashboard/tiers/PAID", nil), 200, "<option selected>key</option>")
	holds(t, o.open(t, "/dashboard/tiers/PAID", plan3("lines", "owner")), 200, "<del>key</del>", "<ins>owner</ins>",
		"submits from now on", `type="hidden" name="lines" value="owner"`)
	holds(t, o.open(t, "/dashboard/tiers/PAID", plan3("lines", "some", "confirmed", "yes")), 400,
		"lines: must be off, key or owner")
	for lines, want := range map[string]string{"owner": "owner", "off": "off", "": "key", "key": "key"} {
		o.open(t, "/dashboard/tiers/PAID", plan3("lines", lines, "maxRetries", "7", "confirmed", "yes"))
		if put := o.asked[len(o.asked)-1]; !strings.HasPrefix(put, "PUT") || !strings.Contains(put, `"lines":"`+want+`"`) {
			t.Errorf("%q: %s", lines, put)
		}
	}
}

// If another version was stored meanwhile, the user sees it beside the typed values, and nothing is stored.
func TestTier_AStaleVersionShowsBoth(t *testing.T) {
	o := newTiers()
	now := strings.Replace(opsPlan(4), `"maxRetries":5`, `"maxRetries":9`, 1)
	o.says("GET /admin/tiers/PAID", 200, now)
	for _, version := range []string{"3", "", "x", "5"} {
		w := o.open(t, "/dashboard/tiers/PAID", plan3("maxRetries", "7", "version", version, "confirmed", "yes"))
		o.did(t, "GET /admin/tiers/PAID")
		holds(t, w, 412, "it is version 4 now", "<del>9</del>", "<ins>7</ins>", `name="version" value="4"`)
		lacks(t, w, `name="version" value="3"`)
	}
	// Another user stores a version between the read and the change.
	looks := 0
	o.replies["GET /admin/tiers/PAID"] = func(*http.Request, string) (int, any) {
		if looks++; looks == 1 {
			return 200, json.RawMessage(opsPlan(3))
		}
		return 200, json.RawMessage(now)
	}
	o.refuses("PUT /admin/tiers/PAID", 412, "PRECONDITION_FAILED", "Another caller changed it in the meantime.")
	w := o.open(t, "/dashboard/tiers/PAID", plan3("maxRetries", "7", "confirmed", "yes"))
	holds(t, w, 412, "it is version 4 now", "<del>9</del>", "<ins>7</ins>", `name="version" value="4"`)
	lacks(t, w, `name="version" value="3"`)
}

func TestTier_WhatIsWrongStandsBesideItsField(t *testing.T) {
	o := newTiers()
	for _, tc := range []struct{ field, typed, want string }{
		{"priority", "x", "priority: must be a whole number, 0 or more"},
		{"priority", "-1", "priority: must be a whole number, 0 or more"},
		{"priority", "1000", "priority: 1000 is not in 1..899"},
		{"maxRetries", "1.5", "maxRetries: must be a whole number"},
		{"maxRetries", "101", "maxRetries: 101 is not in 0..100"},
		{"heartbeatTimeout", "0.01", "heartbeatTimeout: 10ms is not in 100ms..1h"},
		{"heartbeatTimeout", "0.1005", "heartbeatTimeout: is finer than a millisecond"},
		{"heartbeatTimeout", "NaN", "heartbeatTimeout: must be a number"},
		{"maxProcessingTime", "1e300", "maxProcessingTime: must be a number"},
		{"maxProcessingTime", "100000", "maxProcessingTime: 27h46m40s is not in 100ms..24h"},
		{"share", "", "share: must be a whole number"},
		{"share", evilText, "share: must be a whole number"},
		{"backoffFactor", "0.5", "backoffBase: wants base"},
		{"backoffJitter", "2", "backoffBase: wants base"},
		{"backoffCap", "1", "backoffBase: wants base"},
	} {
		w := o.open(t, "/dashboard/tiers/PAID", plan3(tc.field, tc.typed, "confirmed", "yes"))
		o.did(t, "GET /admin/tiers/PAID")
		holds(t, w, 400, `<p class="wrong">`+tc.want)
		lacks(t, w, "<script>alert", `value="yes"`)
	}
	for detail, want := range map[string]string{
		`bad plan "PAID": priority 5 is taken`: "priority: 5 is taken",
		`something else`:                       ">something else<",
	} {
		o.refuses("PUT /admin/tiers/PAID", 400, "INVALID_REQUEST", detail)
		holds(t, o.open(t, "/dashboard/tiers/PAID", plan3("priority", "5", "confirmed", "yes")), 400, want,
			`name="priority" value="5"`)
	}
	o.says("PUT /admin/tiers/PAID", 400,
		`{"status":400,"errorCode":"INVALID_REQUEST","detail":"x","errors":[{"field":"heartbeatTimeoutMs","reason":"must `+
			`be more"}]}`)
	holds(t, o.open(t, "/dashboard/tiers/PAID", plan3("heartbeatTimeout", "5", "confirmed", "yes")), 400,
		"heartbeatTimeout: must be more")
	for status, detail := range map[int]string{403: "the role read-only may not do this", 503: "a store is away",
		504: "The plan may or may not have been stored"} {
		o.refuses("PUT /admin/tiers/PAID", status, "X", detail)
		holds(t, o.open(t, "/dashboard/tiers/PAID", plan3("maxRetries", "7", "confirmed", "yes")), status, detail,
			"<ins>7</ins>", `name="maxRetries" value="7"`)
	}
	o.refuses("PUT /admin/tiers/PAID", 401, "UNAUTHORIZED", "This needs an API key")
	o.says("GET /api/me", 200, `{"open":false,"name":null}`)
	goes(t, o.open(t, "/dashboard/tiers/PAID", plan3("maxRetries", "7", "confirmed", "yes")), "/login", "next",
		"/dashboard/tiers")
}
