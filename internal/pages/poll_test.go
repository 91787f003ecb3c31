package pages

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tierq/tierq/client"
)

// aJob returns a job as GET /api/jobs/{id} shows it, with additional members.
func aJob(status, more string) string {
	if !strings.Contains(more, `"history"`) {
		more += `,"history":[{"attempt":1,"worker":"node-1","startedAt":"2026-11-22T11:59:01.000000Z",` +
			`"finishedAt":"2026-11-22T11:59:03.500000Z","outcome":"FAILURE","cause":"HANDLER_ERROR",` +
			`"error":"connection refused"}]`
	}
	return `{"jobId":"` + jobID + `","id":"` + jobID + `","type":"SEND_EMAIL","tier":"PAID","status":"` + status +
		`","retryCount":1,"attempts":2,"maxRetries":5,"runAt":null,"expiresAt":null,"lastError":null,` +
		`"createdAt":"2026-11-22T11:59:00.000000Z","firstTriedAt":"2026-11-22T11:59:01.000000Z","generation":1,` +
		`"traceId":"a-trace","cancelRequested":false,"result":null` + more + `}`
}

const pollJob = "/poll?jobId=" + jobID

func TestPoll_TheForm(t *testing.T) {
	f := newFace(t, strangerMe)
	s := f.get("/poll").status(200)
	s.shows(s.main(), "Follow a job", "Submit a job")
	if asked, _ := f.api.asked("GET", "/api/jobs/"); len(asked) > 0 {
		t.Error("a job was looked up")
	}
}

func TestPoll_AJobThatHasEnded(t *testing.T) {
	f := newFace(t, openMe).say("GET /api/jobs/"+jobID,
		ok(aJob("COMPLETED", `,"completedAt":"2026-11-22T11:59:30.000000Z","result":{"sent":12345678901234567890},`+
			`"payload":{"to":"ann"},"callbackUrl":"https://shop.example/"`)))
	page := f.get(pollJob).status(200)
	page.shows(page.main(), "PAID SEND_EMAIL", jobID, "COMPLETED ended 30 s ago", "2 attempts · 1 of 5 retries spent",
		"Attempt 1 FAILURE HANDLER_ERROR ran 2.50 s", "connection refused", "node-1",
		"Result 29 B", "sent 12345678901234567890", "to ann", "https://shop.example/", "a-trace")
	if follow, _ := attribute(page.one("div", "id", "job"), "data-follow"); follow != "" {
		t.Errorf("it is followed at %q", follow)
	}
	for _, action := range []string{"/poll/cancel", "/poll/requeue"} {
		if len(page.all("form", "action", action)) > 0 {
			t.Error(action)
		}
	}
	if asked, _ := f.api.asked("GET", "/api/jobs/"+jobID+"/why"); len(asked) > 0 {
		t.Error("it was asked why an ended job has not ended")
	}
}

// If a payload is not shown, the page says the true reason.
func TestPoll_Payload(t *testing.T) {
	for name, c := range map[string]struct{ status, more, shows string }{
		"there":        {"FAILED", `,"payload":{"to":"ann"},"payloadKept":true`, "Payload 12 B"},
		"redacted":     {"FAILED", `,"payload":"***","payloadKept":true`, "***"},
		"none":         {"FAILED", `,"payload":null,"payloadKept":true`, "None: it was submitted without one."},
		"none, living": {"PENDING", `,"payload":null,"payloadKept":true`, "None: it was submitted without one."},
		"completed": {"COMPLETED", `,"payload":null,"payloadKept":false`,
			"Not kept: a job that is completed, cancelled or expired lets its payload go."},
		"cancelled": {"CANCELLED", `,"payload":null,"payloadKept":false`,
			"Not kept: a job that is completed, cancelled or expired lets its payload go."},
		"expired": {"EXPIRED", `,"payload":null,"payloadKept":false`,
			"Not kept: a job that is completed, cancelled or expired lets its payload go."},
		"letter is gone": {"FAILED", `,"payload":null,"payloadKept":false`, "Not kept any more: its dead letter is gone."},
	} {
		s := newFace(t, openMe).say("GET /api/jobs/"+jobID,
			ok(aJob(c.status, c.more+`,"owner":"k7aaaaaaaaaaaaaa"`))).get(pollJob).status(200)
		t.Log(name)
		s.shows(s.main(), c.shows, "Owner k7aaaaaaaaaaaaaa")
	}
}

func TestPoll_AJobThatLives(t *testing.T) {
	for name, c := range map[string]struct {
		status, more string
		why          reply
		shows        []string
		cancel       int
	}{
		"waits": {"PENDING", "", ok(`{"jobId":"x","status":"PENDING","position":3,"etaSeconds":42,"reasons":["3 PAID jobs ` +
			`are ahead","every slot is busy"]}`),
			[]string{"PENDING", "3 ahead of it. 3 PAID jobs are ahead. every slot is busy. About 42.0 s to go."}, 1},
		"is next": {"PENDING", "", ok(`{"status":"PENDING","position":0,"etaSeconds":null,"reasons":[]}`),
			[]string{"It is next."}, 1},
		"runs": {"PROCESSING", `,"history":[{"attempt":2,"worker":"node-2","startedAt":"2026-11-22T11:59:58.000000Z",` +
			`"finishedAt":null,"outcome":"RUNNING","cause":null,"error":null}]`,
			ok(`{"status":"PROCESSING","position":null,"reasons":["it is running: attempt 2"]}`),
			[]string{"PROCESSING", "Attempt 2 RUNNING running for 2.00 s", "it is running: attempt 2."}, 1},
		"is told to stop": {"PROCESSING", `,"cancelRequested":true`,
			ok(`{"status":"PROCESSING","reasons":["it is running, and was asked to stop"]}`), []string{"asked to stop"}, 0},
		"is due later": {"SCHEDULED", `,"runAt":"2026-11-22T12:00:50.000000Z"`,
			ok(`{"status":"SCHEDULED","reasons":["it is not due before"]}`), []string{"SCHEDULED due in 50 s"}, 1},
		"is held": {"HELD", "", ok(`{"status":"HELD","holder":"` + opsID + `","position":null,"reasons":["it waits for job ` +
			opsID + `, which has its unique key"]}`),
			[]string{"HELD waits for the job with its unique key", "it waits for job " + opsID + ", which has its unique key."},
			1},
		"expires": {"PENDING", `,"expiresAt":"2026-11-22T12:00:50.000000Z"`,
			ok(`{"status":"PENDING","reasons":["it expires at"]}`), []string{"Expires 2026-11-22 12:00:50"}, 1},
		"nobody says why": {"PENDING", "", problem(503, "SYSTEM_UNHEALTHY", "away"), []string{"PENDING arrived 1 min ago"},
			1},
		"has moved on": {"PENDING", "",
			ok(`{"status":"PROCESSING","position":null,"reasons":["it is running: attempt 2"]}`), []string{"PENDING"}, 1},
	} {
		f := newFace(t, openMe).say("GET /api/jobs/"+jobID, ok(aJob(c.status, c.more))).say("GET /api/jobs/"+jobID+"/why",
			c.why)
		s := f.get(pollJob).status(200)
		s.shows(s.main(), c.shows...)
		follow, _ := attribute(s.one("div", "id", "job"), "data-follow")
		if follow != "/api/jobs/"+jobID+"/events?logs=true" {
			t.Errorf("%s: followed at %q", name, follow)
		}
		if got := len(s.all("form", "action", "/poll/cancel")); got != c.cancel {
			t.Errorf("%s: %d buttons to cancel", name, got)
		}
		if links := s.all("a", "href", "/poll?jobId="+opsID); len(links) != map[bool]int{true: 1}[name == "is held"] {
			t.Errorf("%s: %d links to the holder", name, len(links))
		}
		if text := textOf(s.main()); name == "has moved on" && strings.Contains(text, "it is running") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// A caller who may only read has no buttons; a dead letter has the requeue button.
func TestPoll_WhatMayBeDone(t *testing.T) {
	dead := aJob("FAILED", `,"completedAt":"2026-11-22T11:59:30.000000Z","failureCause":"HANDLER_ERROR",`+
		`"lastError":"connection refused"`)
	for me, want := range map[string]int{openMe: 1, annMe: 1, submitMe: 1, readerMe: 0} {
		s := newFace(t, me).say("GET /api/jobs/"+jobID, ok(dead)).get(pollJob).status(200)
		if got := len(s.all("form", "action", "/poll/requeue")); got != want ||
			len(s.all("form", "action", "/poll/cancel")) > 0 {
			t.Errorf("%s: %d", me, got)
		}
		living := newFace(t, me).say("GET /api/jobs/"+jobID, ok(aJob("PENDING", ""))).get(pollJob)
		if got := len(living.all("form", "action", "/poll/cancel")); got != want {
			t.Errorf("%s: living: %d", me, got)
		}
	}
}

// Only an admin may kill, hasten and dismiss, and only where that can do something.
func TestPoll_WhatOperatorsMayDo(t *testing.T) {
	for status, want := range map[string][]string{
		"PENDING": {"kill"}, "HELD": {"kill"}, "SCHEDULED": {"kill", "hasten"}, "PROCESSING": nil, "COMPLETED": nil,
		"CANCELLED": nil, "EXPIRED": nil,
		"FAILED": {"dismiss"},
	} {
		for me, may := range map[string]bool{openMe: true, submitMe: false, readerMe: false} {
			s := newFace(t, me).say("GET /api/jobs/"+jobID, ok(aJob(status, ""))).get(pollJob).status(200)
			for _, action := range []string{"kill", "hasten", "dismiss"} {
				shown := len(s.all("form", "action", "/poll/"+action)) > 0
				if shown != (may && slices.Contains(want, action)) {
					t.Errorf("%s, %s: the button to %s is shown: %v", me, status, action, shown)
				}
			}
		}
	}
}

// A kill and a dismissal ask first, and hand on the reason. A hasten does not ask.
func TestPoll_Operate(t *testing.T) {
	for action, c := range map[string]struct {
		address, done string
		asks          bool
	}{
		"kill":    {"POST /admin/jobs/" + jobID + "/kill", "killed", true},
		"dismiss": {"POST /admin/dead/" + jobID + "/dismiss", "dismissed", true},
		"hasten":  {"POST /admin/jobs/" + jobID + "/hasten", "hastened", false},
	} {
		form := url.Values{"jobId": {jobID}, "reason": {"no use"}}
		f := newFace(t, openMe).say(c.address, ok(`{"jobId":"x","status":"FAILED"}`))
		if c.asks {
			s := f.do("POST", "/poll/"+action, form, "Sec-Fetch-Site", "same-origin").status(200)
			if len(s.all("form", "action", "/poll/"+action)) != 1 || len(s.all("input", "value", "no use")) != 1 ||
				len(f.api.changes()) > 0 {
				t.Errorf("%s: %s, %q", action, textOf(s.main()), f.api.changes())
			}
			form.Set("confirmed", "yes")
		}
		leads := url.Values{"jobId": {jobID}, "done": {c.done}}
		f.do("POST", "/poll/"+action, form, "Sec-Fetch-Site", "same-origin").leads("/poll?" + leads.Encode())
		if got := f.api.changes(); len(got) != 1 || got[0] != c.address {
			t.Errorf("%s: %q", action, got)
		}
		f.say(c.address, problem(409, "INVALID_STATE_TRANSITION", "the job is PROCESSING"))
		leads = url.Values{"jobId": {jobID}, "trouble": {"refused.INVALID_STATE_TRANSITION"}}
		f.do("POST", "/poll/"+action, form, "Sec-Fetch-Site", "same-origin").leads("/poll?" + leads.Encode())
		f.do("POST", "/poll/"+action, url.Values{"jobId": {"../7"}}).leads("/poll?jobId=..%2F7")
	}
}

// Only the job's own file is offered, whatever the result says.
func TestPoll_TheFile(t *testing.T) {
	for url, want := range map[string]int{
		"/jobs/" + jobID + "/artifact": 1, "/jobs/019de340-01fe-7a58-be69-567cd7d6ffff/artifact": 0, "javascript:alert(1)": 0,
		"https://evil.example/": 0, "": 0,
	} {
		s := newFace(t, openMe).say("GET /api/jobs/"+jobID,
			ok(aJob("COMPLETED", `,"result":{"artifact":{"name":"x.pdf","url":"`+url+`"}}`))).get(pollJob).status(200)
		if got := strings.Count(textOf(s.main()), "Get the file"); got != want {
			t.Errorf("%q: %d", url, got)
		}
		s.harmless()
	}
}

func TestPoll_Refused(t *testing.T) {
	notThere := problem(404, "JOB_NOT_FOUND", "There is no job with this id.")
	for name, c := range map[string]struct {
		api    reply
		status int
		shows  string
		heals  bool
	}{
		"400": {problem(400, "INVALID_REQUEST", "id: is odd"), 400, "id: is odd", false},
		"403": {problem(403, "FORBIDDEN", "a key with the role worker may not do this"), 403,
			"a key with the role worker may not do this", false},
		"404": {notThere, 404, "There is no such job", false},
		"429": {problem(429, "RATE_LIMITED", "Too many requests."), 429, "429 Too many requests Too many requests.",
			false},
		"500": {problem(500, "INTERNAL", "Its cause is in the log."), 500, "Trace trace-of-api", false},
		"503": {problem(503, "SYSTEM_UNHEALTHY", "a store is away"), 503, "The job cannot be read now", true},
		"504": {problem(504, "OUTCOME_UNKNOWN", "who knows"), 504, "who knows", false},
		"nonsense": {ok("["), 500, "Internal error The server's log has the cause under this trace id. " +
			"Trace trace-of-page", false},
	} {
		s := newFace(t, openMe).say("GET /api/jobs/"+jobID, c.api).get(pollJob).status(c.status)
		s.shows(s.main(), c.shows)
		if got := len(s.all("", "data-heal", "")) > 0; got != c.heals {
			t.Errorf("%s: heals %v", name, got)
		}
		s.harmless()
	}
	newFace(t, strangerMe).say("GET /api/jobs/"+jobID,
		problem(401, "UNAUTHORIZED", "no")).get(pollJob).leads("/login?next=" + url.QueryEscape(pollJob))
}

// An unknown id, another caller's job and an invalid id get the same answer.
func TestPoll_NobodysJob(t *testing.T) {
	t.Attr("proves", "A04")
	f := newFace(t, submitMe).say("GET /api/jobs/"+jobID, problem(404, "JOB_NOT_FOUND", "There is no job with this id."))
	theirs := f.get(pollJob).status(404)
	none := f.get("/poll?jobId=7").status(404)
	if a, b := textOf(theirs.main()), textOf(none.main()); a != b {
		t.Errorf("%q\n%q", a, b)
	}
	if asked, _ := f.api.asked("GET", "/api/jobs/7"); len(asked) > 0 {
		t.Error("what is no id became part of a path")
	}
	for _, id := range []string{"../../admin/keys", hostileText, jobID + "/why", "%2e%2e"} {
		f := newFace(t, submitMe)
		s := f.get("/poll?jobId=" + url.QueryEscape(id)).status(404)
		s.harmless()
		if got, _ := attribute(s.one("input", "id", "jobId"), "value"); got != id {
			t.Errorf("%q stands there", got)
		}
		for _, r := range f.api.heard {
			if r.URL.Path != mePath && r.URL.Path != "/readyz" {
				t.Errorf("%q: %s was asked", id, r.URL)
			}
		}
	}
}

// What others sent is only text, everywhere on the page.
func TestPoll_Hostile(t *testing.T) {
	t.Attr("proves", "A46")
	j := client.Job{
		JobID: jobID, Status: client.Failed, Tier: hostileText, Type: hostileText, TraceID: hostileText,
		CallbackURL: hostileText, LastError: hostileText, FailureCause: hostileText,
		History: []client.Attempt{{Attempt: 1, Worker: hostileText, Outcome: hostileText, Cause: hostileText,
			Error: hostileText, StartedAt: noon, FinishedAt: noon}}, CreatedAt: noon, CompletedAt: noon,
	}
	quoted, _ := json.Marshal(map[string]string{hostileText: hostileText})
	j.Payload, j.Result = quoted, quoted
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	s := newFace(t, openMe).say("GET /api/jobs/"+jobID, ok(string(text))).get(pollJob).status(200)
	s.harmless()
	if got := strings.Count(textOf(s.main()), hostileText); got < 12 {
		t.Errorf("it stands there %d times: %s", got, textOf(s.main()))
	}
}

func TestChange(t *testing.T) {
	cancel, retry := "POST /api/jobs/"+jobID+"/cancel", "POST /jobs/"+jobID+"/retry"
	told := func(name, text string) string {
		q := url.Values{"jobId": {jobID}}
		q.Set(name, text)
		return "/poll?" + q.Encode()
	}
	for name, c := range map[string]struct {
		path, address string
		api           reply
		leads         string
	}{
		"cancelled": {"/poll/cancel", cancel, ok(`{"jobId":"x","status":"CANCELLED"}`), told("done", "cancelled")},
		"told to stop": {
			"/poll/cancel", cancel, reply{202, `{"status":"PROCESSING","cancelRequested":true}`, nil},
			told("done", "cancel_asked"),
		},
		"ended already": {
			"/poll/cancel", cancel, problem(409, "INVALID_STATE_TRANSITION", "the job is COMPLETED"),
			told("trouble", "refused.INVALID_STATE_TRANSITION"),
		},
		"in doubt": {
			"/poll/cancel", cancel, problem(504, "OUTCOME_UNKNOWN", "Poll it."),
			told("trouble", "refused.OUTCOME_UNKNOWN"),
		},
		"away": {
			"/poll/cancel", cancel, problem(503, "SYSTEM_UNHEALTHY", "a store is away"),
			told("trouble", "refused.SYSTEM_UNHEALTHY"),
		},
		"not his": {
			"/poll/cancel", cancel, problem(404, "JOB_NOT_FOUND", "There is no job with this id."),
			told("trouble", "refused.JOB_NOT_FOUND"),
		},
		"may not": {"/poll/cancel", cancel, problem(403, "FORBIDDEN", "no"), told("trouble", "refused.FORBIDDEN")},
		"too often": {
			"/poll/requeue", retry, problem(429, "RATE_LIMITED", "Too many requests."),
			told("trouble", "refused.RATE_LIMITED"),
		},
		"no key": {"/poll/requeue", retry, problem(401, "UNAUTHORIZED", "no"), "/login?next=" + url.QueryEscape(pollJob)},
		"requeued": {
			"/poll/requeue", retry, reply{202, `{"jobId":"x","status":"PENDING"}`, nil}, told("done", "job_requeued"),
		},
		"lives": {
			"/poll/requeue", retry, problem(409, "INVALID_STATE_TRANSITION", "the job is PENDING"),
			told("trouble", "refused.INVALID_STATE_TRANSITION"),
		},
	} {
		me := openMe
		if name == "no key" {
			me = strangerMe
		}
		f := newFace(t, me).say(c.address, c.api)
		s := f.do("POST", c.path, url.Values{"jobId": {jobID}}, "Sec-Fetch-Site", "same-origin").leads(c.leads)
		if s.Header().Get("Cache-Control") != "private, no-store" {
			t.Errorf("%s: %v", name, s.Header())
		}
		if got := f.api.changes(); len(got) != 1 || got[0] != c.address {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, path := range []string{"/poll/cancel", "/poll/requeue"} {
		f := newFace(t, openMe)
		f.do("POST", path, url.Values{"jobId": {"../7"}}).leads("/poll?jobId=..%2F7")
		f.do("POST", path, url.Values{}).leads("/poll?jobId=")
		if got := f.api.changes(); len(got) > 0 {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// The form of a change may give a reason; an empty reason is not sent.
func TestChange_SaysWhy(t *testing.T) {
	for path, address := range map[string]string{"/poll/cancel": "/api/jobs/" + jobID + "/cancel",
		"/poll/requeue": "/jobs/" + jobID + "/retry"} {
		for typed, want := range map[string]string{` the "bank" <is> back `: `{"reason":"the \"bank\" \u003cis\u003e back"}`,
			"  ": "", "": ""} {
			f := newFace(t, openMe).say("POST "+address, ok(`{}`))
			f.do("POST", path, url.Values{"jobId": {jobID}, "reason": {typed}}, "Sec-Fetch-Site", "same-origin").status(303)
			if _, bodies := f.api.asked("POST", address); len(bodies) != 1 || strings.TrimSpace(bodies[0]) != want {
				t.Errorf("%s, %q: sent %q, want %q", path, typed, bodies, want)
			}
		}
	}
}

// A requeue is shown in the operators' feed.
func TestChange_IsTold(t *testing.T) {
	f := newFace(t, annMe).say("POST /jobs/"+jobID+"/retry", reply{202, `{}`, nil})
	f.pages.o.Hub = NewHub(HubOptions{})
	f.do("POST", "/poll/requeue", url.Values{"jobId": {jobID}}).status(303)
	items, _ := f.pages.o.Hub.Recent(10)
	if len(items) != 1 || !strings.Contains(string(items[0].Data), jobID) ||
		!strings.Contains(string(items[0].Data), "ann") {
		t.Errorf("%v", items)
	}
}

// Another site's page can change nothing with any form.
func TestForms_OfOtherSites(t *testing.T) {
	t.Attr("proves", "A45")
	for _, path := range []string{"/submit", "/poll/cancel", "/poll/requeue", "/login", "/logout"} {
		for name, header := range map[string][2]string{"cross-site": {"Sec-Fetch-Site", "cross-site"},
			"same-site": {"Sec-Fetch-Site", "same-site"}, "origin": {"Origin", "https://evil.example"},
			"null": {"Origin", "null"}} {
			f := newFace(t, annMe)
			s := f.do(
				"POST", path, url.Values{"jobId": {jobID}, "tier": {"paid"}, "key": {aKey}}, header[0], header[1],
				"Cookie", shownTo,
			).status(http.StatusForbidden)
			if got := f.api.changes(); len(got) > 0 || s.Header().Get("Set-Cookie") != "" {
				t.Errorf("%s %s: %q %v", path, name, got, s.Header())
			}
			s.shows(s.main(), "You may not do this")
		}
	}
}
