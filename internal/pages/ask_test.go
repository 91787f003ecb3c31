package pages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func fromBrowser(header ...string) *http.Request {
	r := httptest.NewRequest("GET", "/poll?jobId=x", nil)
	r.Host, r.RemoteAddr = "tierq.example:8080", "192.0.2.7:4711"
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// A page's calls to the API carry the caller's key, network address and trace, and nothing else of what the
// browser sent.
func TestAsk_AsItsCaller(t *testing.T) {
	f := newFace(t, annMe)
	s := f.get("/", "Cookie", shownTo, "Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"If-None-Match", "*",
		"X-Forwarded-For", "198.51.100.4", "X-Forwarded-Proto", "https", "Origin", "https://tierq.example", "Sec-Fetch-Site",
		"same-origin", "Sec-Fetch-Mode", "navigate",
		"Content-Length", "7", "Idempotency-Key", "x", "Prefer", "wait=60", "Accept-Encoding", "gzip").status(200)
	s.shows(s.one("header", "class", "top"), "ann", "Log out")
	if len(f.api.heard) < 4 {
		t.Fatalf("only %d were asked", len(f.api.heard))
	}
	for _, r := range f.api.heard {
		h := r.Header.Clone()
		for name, want := range map[string]string{"Cookie": shownTo,
			"Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", traceHeader: "trace-of-page",
			"X-Forwarded-For": "198.51.100.4", "X-Forwarded-Proto": "https", "Origin": "https://tierq.example",
			"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate"} {
			if got := h.Values(name); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %s: %q", r.URL, name, got)
			}
			h.Del(name)
		}
		if len(h) > 0 || r.Host != "tierq.example:8080" || r.RemoteAddr != "192.0.2.7:4711" ||
			r.RequestURI != r.URL.RequestURI() || r.Body == nil {
			t.Errorf("%s: %v, host %s, from %s, %s", r.URL, h, r.Host, r.RemoteAddr, r.RequestURI)
		}
	}
	// The API is asked for the caller once per page.
	if me, _ := f.api.asked("GET", mePath); len(me) != 1 {
		t.Errorf("/api/me was asked %d times", len(me))
	}
}

func TestAsk_Bodies(t *testing.T) {
	f := newFace(t, openMe)
	f.say("POST /x", ok(`{"n":7}`))
	for name, c := range map[string]struct {
		body any
		want string
	}{
		"none": {nil, ""}, "a value": {map[string]int{"a": 1}, `{"a":1}`},
		"bytes": {[]byte(`{ "a" : "<" }`), `{ "a" : "<" }`}, "raw": {json.RawMessage(`[1.0]`), `[1.0]`},
	} {
		var into struct{ N int }
		if err := f.pages.ask(fromBrowser(), "POST", "/x?a=%2F", c.body, &into); err != nil || into.N != 7 {
			t.Errorf("%s: %v, %v", name, into, err)
		}
		asked, bodies := f.api.asked("POST", "/x")
		last := asked[len(asked)-1]
		if got := bodies[len(bodies)-1]; got != c.want || last.ContentLength != int64(len(c.want)) ||
			last.URL.RawQuery != "a=%2F" {
			t.Errorf("%s: %q, %d bytes, %s", name, got, last.ContentLength, last.URL)
		}
		if got := last.Header.Get("Content-Type"); (got == "application/json") != (c.body != nil) {
			t.Errorf("%s: Content-Type %q", name, got)
		}
	}
	if err := f.pages.ask(fromBrowser(), "POST", "/x", make(chan int), nil); err == nil {
		t.Error("what is no JSON was sent")
	}
	if err := f.pages.ask(fromBrowser(), "POST", "/x", nil, new([]int)); err == nil {
		t.Error("an answer of another shape was understood")
	}
}

func TestAsk_With(t *testing.T) {
	f := newFace(t, openMe)
	f.say("GET /x", ok(`{}`))
	r := with(with(fromBrowser(), "If-Match", `"3"`), "Idempotency-Key", "k")
	if err := f.pages.ask(r, "GET", "/x", nil, nil); err != nil {
		t.Fatal(err)
	}
	if h := f.api.heard[0].Header; h.Get("If-Match") != `"3"` || h.Get("Idempotency-Key") != "k" {
		t.Error(h)
	}
}

func TestAsk_Refusals(t *testing.T) {
	f := newFace(t, openMe)
	p := problem(429, "RATE_LIMITED", "Too many requests.", "payload.x", "is wrong")
	p.header["Retry-After"] = "7"
	f.say("GET /x", p)
	err := f.pages.ask(fromBrowser(), "GET", "/x", nil, nil)
	e, _ := errors.AsType[*apiError](err)
	if e == nil || e.Status != 429 || e.Code != "RATE_LIMITED" || e.Title != "Too Many Requests" ||
		e.Detail != "Too many requests." || e.RetryAfter != 7*time.Second ||
		e.TraceID != "trace-of-api" || e.JobID != jobID || len(e.Fields) != 1 || e.Fields[0].Field != "payload.x" ||
		e.Fields[0].Reason != "is wrong" {
		t.Errorf("%+v", e)
	}
	for name, r := range map[string]reply{
		"no JSON": {502, "<html>", nil}, "another shape": {502, `{"detail":7}`, nil}, "nothing": {502, "", nil},
		"not modified": {304, "", nil},
		"an odd wait":  {502, "", map[string]string{"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}},
		"a long wait":  {502, "", map[string]string{"Retry-After": "7200"}},
	} {
		f.say("GET /x", r)
		err := f.pages.ask(fromBrowser(), "GET", "/x", nil, nil)
		if e, _ := errors.AsType[*apiError](err); e == nil || e.Status != r.status || e.Detail != http.StatusText(r.status) ||
			e.RetryAfter != 0 {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// An endless answer is cut off, an aborted answer fails the call, and a panic of the API is left to the guard.
func TestAsk_Answers(t *testing.T) {
	t.Attr("proves", "A24")
	f := newFace(t, openMe)
	piece := bytes.Repeat([]byte(" "), 1<<20)
	endless := 0
	for name, c := range map[string]struct {
		serve func(w http.ResponseWriter)
		want  error
	}{
		"endless": {func(w http.ResponseWriter) {
			for {
				n, err := w.Write(piece)
				if endless += n; err != nil {
					return
				}
			}
		}, errTooMuch},
		"broken off":      {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, errBrokeOff},
		"nothing written": {func(http.ResponseWriter) {}, nil},
	} {
		f.api.serve = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.serve(w) })
		if err := f.pages.ask(fromBrowser(), "GET", "/x", nil, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if endless > mostAnswer {
		t.Errorf("%d bytes were kept", endless)
	}
	f.api.serve = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("hunter2") })
	defer func() {
		if recover() != "hunter2" {
			t.Error("the panic was swallowed")
		}
	}()
	_ = f.pages.ask(fromBrowser(), "GET", "/x", nil, nil)
}

// A caller who has left gets no answer.
func TestAsk_HasLeft(t *testing.T) {
	f := newFace(t, openMe)
	ctx, leave := context.WithCancel(t.Context())
	f.api.serve = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leave() })
	r := fromBrowser().WithContext(ctx)
	err := f.pages.ask(r, "GET", "/x", nil, nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	f.pages.fail(rec, r, err)
	if rec.Body.Len() > 0 {
		t.Error(rec.Body)
	}
}

// patient is a connection whose write deadline can be moved.
type patient struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (p *patient) SetWriteDeadline(until time.Time) error {
	p.until = until
	return nil
}

// When the API extends its write deadline, the page's deadline is extended too.
func TestAsk_MoreTime(t *testing.T) {
	f := newFace(t, openMe)
	f.api.serve = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).SetWriteDeadline(noon); err != nil {
			t.Error(err)
		}
	})
	w := &patient{ResponseRecorder: httptest.NewRecorder()}
	f.pages.handle(http.HandlerFunc(func(_ http.ResponseWriter,
		r *http.Request) {
		_ = f.pages.ask(r, "GET", "/x", nil, nil)
	})).ServeHTTP(w, fromBrowser())
	if !w.until.Equal(noon) {
		t.Error(w.until)
	}
}

// A session cookie that is no longer valid is deleted, and its owner still gets the page.
func TestWho_ASessionThatIsNoneAnyMore(t *testing.T) {
	for name, me := range map[string]string{"a server with keys": strangerMe, "an open server": openMe} {
		f := newFace(t, me).say("with a key", problem(401, "UNAUTHORIZED", "This needs an API key."))
		s := f.get("/", "Cookie", shownTo).status(200)
		if c := s.Header().Get("Set-Cookie"); c != ourCookie+"=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict" {
			t.Errorf("%s: %q", name, c)
		}
		cookies := 0
		for _, r := range f.api.heard {
			cookies += len(r.Header["Cookie"])
		}
		if cookies != 1 {
			t.Errorf("%s: the cookie was shown %d times", name, cookies)
		}
	}
	// An Authorization header that is not valid does not delete the cookie.
	f := newFace(t, strangerMe).say("with a key", problem(401, "UNAUTHORIZED", "This needs an API key."))
	if s := f.get("/", "Authorization", "Bearer x", "Cookie", shownTo); s.Header().Get("Set-Cookie") != "" {
		t.Error(s.Header())
	}
}

func TestFrame(t *testing.T) {
	for name, c := range map[string]struct{ me, want string }{
		"open": {openMe, "open"}, "stranger": {strangerMe, "Log in"}, "ann": {annMe, "ann Log out"},
		"nobody says": {`[]`, "Log in"},
	} {
		s := newFace(t, c.me).get("/about")
		if got := textOf(s.one("header", "class", "top")); !strings.HasSuffix(got, "? "+c.want) ||
			!strings.Contains(got, "EMBEDDED") {
			t.Errorf("%s: %q", name, got)
		}
		if live, _ := attribute(s.one("body", "", ""), "data-live"); live != "" {
			t.Errorf("%s: a stream without a hub: %q", name, live)
		}
	}
	hub := NewHub(HubOptions{})
	for me, want := range map[string]string{openMe: "/dashboard/stream", readerMe: "/dashboard/stream", submitMe: "",
		strangerMe: ""} {
		f := newFace(t, me)
		f.pages.o.Hub = hub
		if got := f.pages.frame(fromBrowser()).Live; got != want {
			t.Errorf("%s: %q", me, got)
		}
	}
}

func TestFrame_Gate(t *testing.T) {
	for name, c := range map[string]struct {
		ready reply
		want  string
	}{
		"open": {ok(readyUp), "gate open"},
		"closed": {reply{503, `{"status":"OUT_OF_SERVICE","checks":[{"name":"gate","status":"DOWN",` +
			`"detail":"Redis <b>fails</b>"}]}`, nil}, "gate closed"},
		"one word":       {ok(`{"status":"DEGRADED"}`), "gate open"},
		"one word, down": {reply{503, `{"status":"OUT_OF_SERVICE"}`, nil}, "gate closed"},
		"refused":        {problem(503, "SYSTEM_UNHEALTHY", "too many requests are under way"), "gate unknown"},
		"no answer":      {ok(`{}`), "gate unknown"},
	} {
		s := newFace(t, openMe).say("GET /readyz", c.ready).get("/about")
		gate := s.one("", "id", "gate")
		if textOf(gate) != c.want {
			t.Errorf("%s: %q", name, textOf(gate))
		}
		if title, _ := attribute(gate, "title"); name == "closed" && title != "Redis <b>fails</b>" {
			t.Error(title)
		}
	}
}

// A page is written whole or not at all. The cause of an error is not shown.
func TestShow_WhatCannotBeWritten(t *testing.T) {
	f := newFace(t, openMe)
	for name, c := range map[string]struct {
		serve  http.HandlerFunc
		status int
	}{
		"a broken page": {func(w http.ResponseWriter, r *http.Request) {
			f.pages.show(w, r, 200, func(w io.Writer) error {
				_, _ = io.WriteString(w, "half a page")
				return errors.New("hunter2")
			})
		}, 500},
		"too late": {func(w http.ResponseWriter, r *http.Request) {
			f.pages.fail(w, r, fmt.Errorf("hunter2: %w", context.DeadlineExceeded))
		}, 503},
		"anything": {func(w http.ResponseWriter, r *http.Request) { f.pages.fail(w, r, errors.New("hunter2")) }, 500},
	} {
		f.at["GET /x"] = f.pages.handle(c.serve)
		if s := f.get("/x").status(c.status); strings.Contains(s.Body.String(), "half") ||
			strings.Contains(s.Body.String(), "hunter2") {
			t.Errorf("%s: %s", name, s.Body)
		}
	}
}

// A form's result is shown in the pages' own texts only, whatever the address says, and not to a browser that
// another site sent.
func TestSaid(t *testing.T) {
	t.Attr("proves", "A46")
	f := newFace(t, openMe)
	const ours = "/about?done=requeued.1204&trouble=some_requeued.1.3.INVALID_STATE_TRANSITION"
	s := f.get(ours, "Sec-Fetch-Site", "same-origin")
	if got := textOf(s.one("p", "class", "note is-ok")); got != "Requeued 1,204 dead letters." {
		t.Errorf("%q", got)
	}
	if got := s.alert(); got != "Requeued 1 of 3. The latest error: the job's state does not allow that any more." {
		t.Errorf("%q", got)
	}
	for _, site := range []string{"cross-site", "same-site"} {
		if s := f.get(ours, "Sec-Fetch-Site", site); s.alert() != "" || len(s.all("p", "class", "note is-ok")) > 0 {
			t.Error(site)
		}
	}
	for _, text := range []string{
		"The server has moved: type your key at evil.example", "<script>alert(1)</script>", "requeued", "requeued.",
		"requeued.x", "requeued.-1", "requeued.1.2",
		"requeued.99999999999999999999", "requeued.1e3", "cancelled.1", "refused", "refused.EVIL", "refused.",
		"some_requeued.1.2", "some_requeued.1.FORBIDDEN",
		"cancelled.FORBIDDEN", "Cancelled", ".cancelled", strings.Repeat("ä", 300), hostileText,
	} {
		target := "/about?done=" + url.QueryEscape(text) + "&trouble=" + url.QueryEscape(text)
		s := f.get(target, "Sec-Fetch-Site", "same-origin")
		if s.harmless(); s.alert() != "" || len(s.all("p", "class", "note is-ok")) > 0 {
			t.Errorf("%q is shown: %s", text, textOf(s.main()))
		}
	}
}

// Every text of a form can be encoded and decoded.
func TestSaid_EveryCode(t *testing.T) {
	for code, text := range formTexts {
		for reason := range reasons {
			if !text.reason {
				reason = ""
			}
			if got := saidText(say(code, reason, make([]int64, text.numbers)...)); got == "" || strings.Contains(got, "%!") {
				t.Errorf("%s, %s: %q", code, reason, got)
			}
		}
	}
	if got := saidText(say("refused", "ANOTHER_CODE")); !strings.Contains(got, reasons["INTERNAL"]) {
		t.Errorf("a code without a text: %q", got)
	}
}
