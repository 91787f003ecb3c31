package pages

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// opsLines is the API's answer about lines, with the limits of a key in their version 7.
const opsLines = `{"items":[{"key":"a&b","owner":null,"tier":"PUBLIC","queue":"main","waiting":90210,"running":40,` +
	`"share":0.8,"noisy":true,"parked":false,"until":null},{"key":null,"owner":"k1","tier":"PAID","queue":"films",` +
	`"waiting":12,"running":2,"share":0.04,"noisy":false,"parked":true,"until":"2026-11-22T20:30:00Z"},{"key":null,` +
	`"owner":null,"tier":"PUBLIC","queue":"main","waiting":1,"running":0,"share":0,"noisy":false,"parked":true,` +
	`"until":null}],"lines":4321,"running":50,"limits":{"key":"a&b","owner":null,"running":5,"weight":2,"rate":0.5,` +
	`"burst":4,"waiting":0,"strict":true,"paused":{"since":"2026-11-22T19:00:00Z","until":null,"by":"ada",` +
	`"reason":"a fire"},"version":7}}`

func newLines() *ops {
	o := newOps()
	o.says("GET /admin/lines", 200, opsLines)
	o.says("PUT /admin/lines", 200, `{"key":"a&b","owner":null,"version":8}`)
	return o
}

// limits7 is the form of version 7 as it is stored, with changes.
func limits7(changes ...string) url.Values {
	form := url.Values{"key": {"a&b"}, "version": {"7"}, "do": {"store"}, "running": {"5"}, "weight": {"2"},
		"rate": {"0.5"}, "burst": {"4"}, "waiting": {""}, "strict": {"yes"}}
	for i := 0; i+1 < len(changes); i += 2 {
		form.Set(changes[i], changes[i+1])
	}
	return form
}

const paused7 = `,"paused":{"reason":"a fire"}}`

func TestLines_AreShown(t *testing.T) {
	o := newLines()
	w := o.open(t, "/dashboard/lines", nil)
	o.did(t, "GET /admin/lines?limit=20&sort=waiting")
	holds(t, w, 200, "4,321", "50 running attempts", "90,210", "80 %", "noisy", "parked", "20:30:00",
		"an operator allows it", `href="/dashboard/lines/key?key=a%26b">a&amp;b<`,
		`href="/dashboard/lines/key?owner=k1"`, `href="/dashboard/lines/key?key="`, "no key", "/dashboard/lines?sort=running")
	o.open(t, "/dashboard/lines?sort=running", nil)
	o.did(t, "GET /admin/lines?limit=20&sort=running")
	holds(t, o.open(t, "/dashboard/lines?sort=share", nil), 200, `sort=share" aria-current="true">Most worker time<`)
	o.did(t, "GET /admin/lines?limit=20&sort=share")
	holds(t, o.open(t, "/dashboard/tiers", nil), 200, `href="/dashboard/lines"`)
	o.refuses("GET /admin/lines", 403, "FORBIDDEN", "the role submit may not do this")
	holds(t, o.open(t, "/dashboard/lines", nil), 403, "the role submit may not do this")
}

func TestLine_IsShown(t *testing.T) {
	o := newLines()
	w := o.open(t, "/dashboard/lines/key?key=a%26b", nil)
	o.did(t, "GET /admin/lines?key=a%26b")
	holds(t, w, 200, "limits, version 7", "by ada", "until it is resumed: a fire", `name="running" value="5"`,
		`name="rate" value="0.5"`, `name="waiting" value=""`, `name="strict" value="yes" checked`,
		`type="hidden" name="key" value="a&amp;b"`, `type="hidden" name="version" value="7"`, `value="resume"`)
	holds(t, o.open(t, "/dashboard/lines/key?owner=k1", nil), 200, `type="hidden" name="owner" value="k1"`)
	o.did(t, "GET /admin/lines?owner=k1")
	o.says("GET /api/me", 200, `{"open":false,"name":"eve","role":"read-only","operator":true}`)
	w = o.open(t, "/dashboard/lines/key?key=a%26b", nil)
	holds(t, w, 200, "limits, version 7", "<dt>Running at once</dt><dd>5</dd>", "no limit")
	lacks(t, w, "<button class=\"btn main\" type=\"submit\" name=\"do\"", `value="pause"`)
}

// Each button sends one PUT, which is based on the version that was shown and keeps all that the button does not name.
func TestLine_IsChanged(t *testing.T) {
	const put = `PUT /admin/lines?key=a%26b if "7" `
	for name, tc := range map[string]struct {
		form       url.Values
		done, sent string
	}{
		"store": {limits7("running", " 9 ", "rate", "", "burst", "", "waiting", "1000"), "are stored",
			`{"running":9,"weight":2,"rate":0,"burst":0,"waiting":1000,"strict":true` + paused7},
		"not strict": {limits7("strict", ""), "are stored",
			`{"running":5,"weight":2,"rate":0.5,"burst":4,"waiting":0,"strict":false` + paused7},
		"pause": {limits7("do", "pause", "running", "77", "minutes", "1.5", "reason", " why "), "is paused",
			`{"running":5,"weight":2,"rate":0.5,"burst":4,"waiting":0,"strict":true,"paused":{"forSeconds":90,"reason":"why"}}`},
		"pause for good": {limits7("do", "pause"), "is paused",
			`{"running":5,"weight":2,"rate":0.5,"burst":4,"waiting":0,"strict":true,"paused":{}}`},
		"resume": {limits7("do", "resume", "running", "77"), "is resumed",
			`{"running":5,"weight":2,"rate":0.5,"burst":4,"waiting":0,"strict":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			o := newLines()
			w := o.open(t, "/dashboard/lines/key", tc.form)
			goes(t, w, "/dashboard/lines/key", "done", tc.done)
			goes(t, w, "/dashboard/lines/key", "key", "a&b")
			o.did(t, "GET /admin/lines?key=a%26b", put+tc.sent)
		})
	}
	o := newLines() // a key without limits: the first ones replace none
	o.says("GET /admin/lines", 200, `{"items":[],"limits":{"key":null,"owner":"k1","weight":1,"version":0}}`)
	var fresh string
	o.replies["PUT /admin/lines"] = func(r *http.Request, _ string) (int, any) {
		fresh = r.Header.Get("If-None-Match")
		return 200, json.RawMessage(`{"version":1}`)
	}
	w := o.open(t, "/dashboard/lines/key", url.Values{"owner": {"k1"}, "version": {"0"}, "running": {"3"}})
	goes(t, w, "/dashboard/lines/key", "owner", "k1")
	o.did(t, "GET /admin/lines?owner=k1",
		`PUT /admin/lines?owner=k1 {"running":3,"weight":0,"rate":0,"burst":0,"waiting":0,"strict":false}`)
	if fresh != "*" {
		t.Errorf("If-None-Match is %q", fresh)
	}
}

func TestLine_WhatIsWrongStandsBesideItsField(t *testing.T) {
	o := newLines()
	for _, tc := range []struct{ field, typed, want string }{
		{"running", "x", "running: must be a whole number, 0 or more"},
		{"weight", "1.5", "weight: must be a whole number, 0 or more"},
		{"rate", "-1", "rate: must be a number, 0 or more"},
		{"burst", evilText, "burst: must be a whole number"},
	} {
		w := o.open(t, "/dashboard/lines/key", limits7(tc.field, tc.typed))
		o.did(t, "GET /admin/lines?key=a%26b")
		holds(t, w, 400, `<p class="wrong">`+tc.want)
		lacks(t, w, "<script>alert")
	}
	for _, minutes := range []string{"x", "0", "0.001", "-1"} {
		w := o.open(t, "/dashboard/lines/key", limits7("do", "pause", "minutes", minutes, "reason", "a flood"))
		o.did(t, "GET /admin/lines?key=a%26b")
		holds(t, w, 400, `<p class="wrong">minutes: must be a`, `name="reason" value="a flood"`)
	}
	o.says("PUT /admin/lines", 400, `{"status":400,"errorCode":"INVALID_REQUEST","detail":"not valid","errors":[{"field":`+
		`"running","reason":"must be less"},{"field":"paused.reason","reason":"is too long"}]}`)
	holds(t, o.open(t, "/dashboard/lines/key", limits7("running", "9")), 400, "not valid", "running: must be less",
		"paused.reason is too long", `name="running" value="9"`)
	for status, detail := range map[int]string{403: "the role read-only may not do this", 503: "a store is away",
		504: "The limits may or may not be stored"} {
		o.refuses("PUT /admin/lines", status, "X", detail)
		holds(t, o.open(t, "/dashboard/lines/key", limits7("running", "9")), status, detail, `name="running" value="9"`)
	}
	o.refuses("PUT /admin/lines", 401, "UNAUTHORIZED", "This needs an API key")
	o.says("GET /api/me", 200, `{"open":false,"name":null}`)
	goes(t, o.open(t, "/dashboard/lines/key", limits7()), "/login", "next", "/dashboard/lines")
}

// If another version was stored meanwhile, nothing is stored, and the typed values stay in the form.
func TestLine_AStaleVersion(t *testing.T) {
	o := newLines()
	for _, version := range []string{"6", "", "x"} {
		w := o.open(t, "/dashboard/lines/key", limits7("running", "9", "version", version))
		o.did(t, "GET /admin/lines?key=a%26b")
		holds(t, w, 412, "Another caller changed these limits", `name="running" value="9"`, `name="version" value="7"`,
			"What is stored now", "<dt>Running at once</dt><dd>5</dd>")
	}
	looks := 0
	o.replies["GET /admin/lines"] = func(*http.Request, string) (int, any) {
		if looks++; looks == 1 {
			return 200, json.RawMessage(opsLines)
		}
		return 200, json.RawMessage(strings.NewReplacer(`"version":7`, `"version":8`, `"running":5,`, `"running":6,`).
			Replace(opsLines))
	}
	o.refuses("PUT /admin/lines", 412, "PRECONDITION_FAILED", "Another caller changed it in the meantime.")
	holds(t, o.open(t, "/dashboard/lines/key", limits7("running", "9")), 412, "Another caller changed these limits",
		`name="running" value="9"`, `name="version" value="8"`, "What is stored now", "<dt>Running at once</dt><dd>6</dd>")
}

// A job's page shows the key of its line, with a link for operators, and says in which line the job waits.
func TestPoll_Line(t *testing.T) {
	for name, c := range map[string]struct {
		key, line, want string
	}{
		"key": {`"a&b"`, `{"key":"a&b","owner":null,"ahead":3,"running":2,"parked":true,"until":null}`,
			"3 ahead of it in its line. It waits in the line of the key a&b, of which 2 attempts run. its key may run no more."},
		"owner": {"null", `{"key":null,"owner":"k1","ahead":3,"running":1,"parked":true,"until":null}`,
			"It waits in the line of the API key k1, of which 1 attempt runs."},
		"none": {"null", `{"key":null,"owner":null,"ahead":3,"running":0,"parked":true,"until":null}`,
			"It waits in the line of the jobs without a key. its key"},
	} {
		for who, links := range map[string]int{readerMe: 1, submitMe: 0} {
			f := newFace(t, who).say("GET /api/jobs/"+jobID, ok(aJob("PENDING", `,"key":`+c.key))).
				say("GET /api/jobs/"+jobID+"/why", ok(`{"status":"PENDING","position":3,"line":`+c.line+
					`,"reasons":["its key may run no more"]}`))
			page := f.get(pollJob).status(200)
			page.shows(page.main(), c.want)
			if c.key == "null" {
				links = 0
			} else {
				page.shows(page.main(), "Key a&b")
			}
			if got := len(page.all("a", "href", "/dashboard/lines/key?key=a%26b")); got != links {
				t.Errorf("%s: %d links", name, got)
			}
		}
	}
}
