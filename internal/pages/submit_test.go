package pages

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/tierq/tierq/web"
)

// filled returns a form with a value in every field.
func filled() url.Values {
	return url.Values{
		"tier": {"EXPRESS"}, "type": {"SEND_EMAIL"}, "payload": {"{\"to\" : \"a@example.org\",\r\n \"n\":1.50}"},
		"maxRetries": {" 1 "}, "delaySeconds": {"2.5"},
		"callbackUrl": {"https://shop.example/hook?a=1&b=2"}, "idempotencyKey": {"order-7"},
	}
}

// typedIn returns the values in the form of a page.
func (s *sheet) typedIn() url.Values {
	s.t.Helper()
	all := url.Values{}
	for _, n := range s.all("input", "name", "") {
		name, _ := attribute(n, "name")
		value, _ := attribute(n, "value")
		kind, _ := attribute(n, "type")
		if _, checked := attribute(n, "checked"); kind != "radio" || checked {
			all.Set(name, value)
		}
	}
	for _, n := range s.all("option", "selected", "") {
		all.Set("type", textOf(n))
	}
	area := s.one("textarea", "name", "payload")
	if area.FirstChild != nil {
		all.Set("payload", area.FirstChild.Data)
	}
	return all
}

// keeps checks that a page's form still has the typed values. Browsers change line ends.
func (s *sheet) keeps(typed url.Values) {
	s.t.Helper()
	now := s.typedIn()
	for name := range typed {
		got, want := strings.ReplaceAll(now.Get(name), "\r\n", "\n"), strings.ReplaceAll(typed.Get(name), "\r\n", "\n")
		if strings.TrimSpace(got) != strings.TrimSpace(want) {
			s.t.Errorf("%s: %q stands there, %q was typed", name, got, want)
		}
	}
}

func TestSubmit_TheForm(t *testing.T) {
	f := newFace(t, openMe)
	s := f.get("/submit").status(200)
	s.shows(s.main(), "PAID", "5 retries · 50 s at most", "EXPRESS", "1 retry · 10 s at most")
	if got := s.typedIn(); got.Get("tier") != "PAID" || s.alert() != "" {
		t.Errorf("%v %q", got, s.alert())
	}
	var types []string
	for _, n := range s.all("option", "data-schema", "") {
		types = append(types, textOf(n))
	}
	if !slices.Contains(types, "SIMULATION") || !slices.Contains(types, "FORWARD_DOCUMENT") {
		t.Error(types)
	}
	// A link may select the tier and the type, even a type that only this server has.
	if got := f.get("/submit?tier=EXPRESS&type=RESIZE").typedIn(); got.Get("tier") != "EXPRESS" ||
		got.Get("type") != "RESIZE" {
		t.Error(got)
	}
	// A caller who does not see the tiers can still type one.
	s = newFace(t, submitMe).say("GET /admin/tiers", problem(403, "FORBIDDEN", "no")).get("/submit").status(200)
	if kind, _ := attribute(s.one("input", "name", "tier"), "type"); kind == "radio" || s.alert() != "" {
		t.Errorf("%q %q", kind, s.alert())
	}
	f = newFace(t, submitMe)
	f.get("/submit")
	if asked, _ := f.api.asked("GET", "/admin/tiers"); len(asked) > 0 {
		t.Error("what would be refused was asked")
	}
	// A key that submits sees what it may: its tiers, as cards, and its types, including those that only this server
	// has. No name occurs twice.
	f = newFace(t, strings.TrimSuffix(submitMe, "}")+
		`,"tiers":[{"tier":"EXPRESS","maxRetries":1,"maxProcessingTimeMs":10000},{"tier":"PUBLIC","maxRetries":0,`+
		`"maxProcessingTimeMs":3000}],`+
		`"types":["EMAIL","RESIZE","SEND_EMAIL"]}`)
	s = f.get("/submit").status(200)
	s.shows(s.main(), "EXPRESS", "1 retry · 10 s at most", "PUBLIC", "0 retries · 3 s at most")
	if cards := s.all("input", "name", "tier"); len(cards) != 2 || s.typedIn().Get("tier") != "EXPRESS" {
		t.Errorf("%d cards, %v", len(cards), s.typedIn())
	}
	types = nil
	for _, n := range s.all("option", "data-schema", "") {
		types = append(types, textOf(n))
	}
	if !slices.Equal(types, []string{"SEND_EMAIL", "RESIZE"}) {
		t.Error(types)
	}
	if asked, _ := f.api.asked("GET", "/admin/tiers"); len(asked) > 0 {
		t.Error("what would be refused was asked")
	}
	for me, want := range map[string]string{strangerMe: "You need an API key to submit: log in first.",
		readerMe: "The key that you logged in with may not submit jobs."} {
		if got := newFace(t, me).get("/submit").alert(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A submit leads to its job, and the payload reaches the API byte for byte.
func TestSubmit(t *testing.T) {
	f := newFace(t, openMe).say("POST /express/submit",
		reply{202, `{"apiResponseData":{"jobId":"` + jobID + `","currentJobStatus":"PENDING"}}`, nil})
	f.do("POST", "/submit", filled()).leads("/poll?jobId=" + jobID)
	asked, bodies := f.api.asked("POST", "/express/submit")
	if len(asked) != 1 || asked[0].Header.Get("Idempotency-Key") != "order-7" {
		t.Fatal(asked)
	}
	want := `{"type":"SEND_EMAIL","payload":` + filled().Get("payload") +
		`,"maxRetries":1,"delaySeconds":2.5,"callbackUrl":"https://shop.example/hook?a=1\u0026b=2"}`
	if bodies[0] != want {
		t.Errorf("%s\nwant\n%s", bodies[0], want)
	}
	// Empty fields are not sent.
	f.do("POST", "/submit", url.Values{"tier": {"express"}, "payload": {" \r\n"}}).leads("/poll?jobId=" + jobID)
	if asked, bodies := f.api.asked("POST", "/express/submit"); bodies[1] != "{}" ||
		len(asked[1].Header["Idempotency-Key"]) > 0 {
		t.Error(bodies[1], asked[1].Header)
	}
}

// An invalid number, JSON or tier is reported beside its field, and the API is not called.
func TestSubmit_WhatCannotBeSent(t *testing.T) {
	for name, c := range map[string]struct{ field, value, want string }{
		"no tier":     {"tier", "", "tier: there is no such tier"},
		"a path":      {"tier", "../admin", "tier: there is no such tier"},
		"a long tier": {"tier", strings.Repeat("A", 32), "tier: there is no such tier"},
		"no JSON":     {"payload", "{", "payload: is not JSON: unexpected end of JSON input"},
		"more than a value": {"payload", `1,"type":"REPORT"`,
			"payload: is not JSON: invalid character ',' after top-level value"},
		"a value and a brace": {"payload", `1}{"type":"REPORT"`,
			"payload: is not JSON: invalid character '}' after top-level value"},
		"half a retry":         {"maxRetries", "1.5", "maxRetries: must be a whole number, 0 or more"},
		"members for a number": {"maxRetries", `1,"type":"REPORT"`, "maxRetries: must be a whole number, 0 or more"},
		"fewer than none":      {"maxRetries", "-1", "maxRetries: must be a whole number, 0 or more"},
		"no delay":             {"delaySeconds", "soon", "delaySeconds: must be a number of seconds, 0 or more"},
		"an endless delay":     {"delaySeconds", "Inf", "delaySeconds: must be a number of seconds, 0 or more"},
		"no number":            {"delaySeconds", "NaN", "delaySeconds: must be a number of seconds, 0 or more"},
	} {
		f := newFace(t, openMe)
		typed := filled()
		typed.Set(c.field, c.value)
		s := f.do("POST", "/submit", typed).status(400)
		if got := s.wrongs(); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: %q", name, got)
		}
		if c.field != "tier" {
			s.keeps(typed)
		}
		if got := f.api.changes(); len(got) > 0 {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// After any refusal of the API the form keeps the typed values. An error about a field is beside the field, other
// errors are above the form.
func TestSubmit_Refused(t *testing.T) {
	late := problem(503, "QUEUE_FULL", "Request cannot be accepted at the moment.")
	late.header["Retry-After"] = "9"
	for name, c := range map[string]struct {
		api    reply
		status int
		wrong  []string
		alert  string
	}{
		"400": {problem(400, "INVALID_REQUEST", "x", "maxRetries", "may lower the tier's 1, not raise it",
			"Idempotency-Key", "is bad"), 400,
			[]string{"maxRetries: may lower the tier's 1, not raise it", "idempotencyKey: is bad"}, ""},
		"400, all": {problem(400, "INVALID_REQUEST", "the JSON is nested deeper than 32 levels"), 400, nil,
			"the JSON is nested deeper than 32 levels"},
		"400, another": {problem(400, "INVALID_REQUEST", "runAt: is odd", "runAt", "is odd"), 400, nil, "runAt: is odd"},
		"401": {problem(401, "UNAUTHORIZED", "no"), 401, nil,
			"You need an API key. Your input stays on this page: log in in another tab, and submit again."},
		"403": {problem(403, "FORBIDDEN", "the key does not open the tier"), 403, nil,
			"the key does not open the tier"},
		"404": {problem(404, "UNKNOWN_TIER", "known tiers: paid"), 404,
			[]string{"tier: there is no such tier; known tiers: paid"}, ""},
		"404, no path": {problem(404, "NOT_FOUND", "This address does not exist."), 404,
			[]string{"tier: there is no such tier"}, ""},
		"409": {problem(409, "INVALID_STATE_TRANSITION", "not now"), 409, nil, "not now"},
		"413": {problem(413, "PAYLOAD_TOO_LARGE", "the payload has 70000 bytes"), 413, nil,
			"the payload has 70000 bytes"},
		"422": {problem(422, "INVALID_PAYLOAD", "x", "payload.steps[0].type", "is no step", "payload.to",
			"is missing"), 422, []string{"payload.steps[0].type: is no step", "payload.to: is missing"}, ""},
		"422, type": {problem(422, "UNKNOWN_JOB_TYPE", "x", "type", "known types: ECHO"), 422,
			[]string{"type: known types: ECHO"}, ""},
		"422, key": {problem(422, "IDEMPOTENCY_MISMATCH", "x"), 422,
			[]string{"idempotencyKey: was used with another job"}, ""},
		"429": {problem(429, "RATE_LIMITED", "Too many requests."), 429, nil, "Too many requests."},
		"503": {late, 503, nil, "Request cannot be accepted at the moment. Try again in 9 s."},
		"504": {problem(504, "OUTCOME_UNKNOWN", "x"), 504, nil,
			"The job may or may not have been accepted. Poll " + jobID + " before you submit it again."},
		"no sense": {reply{202, "7", nil}, 500, nil, "The server's log has the cause under this trace id."},
	} {
		f := newFace(t, openMe).say("POST /express/submit", c.api)
		s := f.do("POST", "/submit", filled()).status(c.status)
		if got := s.wrongs(); !slices.Equal(got, c.wrong) {
			t.Errorf("%s: beside the fields: %q", name, got)
		}
		if s.alert() != c.alert || s.Header().Get("Retry-After") != c.api.header["Retry-After"] {
			t.Errorf("%s: %q, %v", name, s.alert(), s.Header())
		}
		if len(s.all("", "data-heal", "")) > 0 {
			t.Errorf("%s: a form that somebody fills in is not taken from him", name)
		}
		s.keeps(filled())
	}
}

// The typed values, and the API's texts about them, are only text, everywhere on the page.
func TestSubmit_Hostile(t *testing.T) {
	t.Attr("proves", "A46")
	typed := url.Values{}
	for name := range filled() {
		typed.Set(name, hostileText)
	}
	s := newFace(t, openMe).do("POST", "/submit", typed).status(400)
	s.harmless()
	typed.Del("tier")
	s.keeps(typed)

	typed = filled()
	typed.Set("payload", `"`+strings.ReplaceAll(hostileText, `"`, `\"`)+`"`)
	f := newFace(t, openMe).say("POST /express/submit",
		problem(422, "INVALID_PAYLOAD", hostileText, "payload."+hostileText, hostileText))
	s = f.do("POST", "/submit", typed).status(422)
	s.harmless()
	s.keeps(typed)
	if got := s.wrongs(); len(got) != 1 || !strings.Contains(got[0], hostileText) {
		t.Errorf("%q", got)
	}
	if n := s.one("textarea", "name", "payload"); n.FirstChild == nil || n.FirstChild.Type != html.TextNode ||
		n.FirstChild.NextSibling != nil {
		t.Error("the payload is more than text")
	}
}

// The body is always one JSON object with the typed members.
func TestSubmission(t *testing.T) {
	for _, v := range []web.SubmitValues{
		{}, {Type: hostileText}, {Payload: hostileText, CallbackURL: "\x00\u2028"},
		{Type: "A", Payload: " null ", MaxRetries: "007", DelaySeconds: "1e3"}, {DelaySeconds: "-1", MaxRetries: "x"},
		{MaxRetries: "99999999999999999999", DelaySeconds: "1e400"},
	} {
		body, wrong := submission(&v)
		var members map[string]json.RawMessage
		if err := json.Unmarshal(body, &members); err != nil && len(wrong) == 0 {
			t.Errorf("%+v: %s: %v", v, body, err)
		}
		for name := range members {
			if !slices.Contains([]string{"type", "payload", "maxRetries", "delaySeconds", "callbackUrl"}, name) {
				t.Errorf("%+v: %s", v, body)
			}
		}
	}
}
