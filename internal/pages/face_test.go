package pages

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/tierq/tierq/web"
)

var (
	theSet = sync.OnceValue(web.NewSet)
	noon   = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
)

const (
	jobID = "019de340-01fe-7a58-be69-567cd7d6b7d4"
	aKey  = "tq_aaaabbbbccccdddd_0123456789abcdefghijklmnopqrstuvwxyz0123456789abcde"
	aTime = "2026-11-22T11:59:30.000000Z"

	openMe     = `{"open":true,"name":null,"role":null,"admin":true,"operator":true,"submits":true,"secure":false}`
	strangerMe = `{"open":false,"name":null,"role":null,"admin":false,"operator":false,"submits":false,"secure":false}`
	annMe      = `{"open":false,"name":"ann","role":"admin","admin":true,"operator":true,"submits":true,"secure":false}`
	readerMe   = `{"open":false,"name":"ron","role":"read-only","admin":false,"operator":true,"submits":false,` +
		`"secure":false}`
	submitMe = `{"open":false,"name":"shop","role":"submit","admin":false,"operator":false,"submits":true,"secure":false}`

	allUp = `{"status":"UP","components":{"redis":{"status":"UP"},"db":{"status":"UP"},"gate":{"status":"UP"},` +
		`"job":{"status":"UP","details":{"pendingJobs":3,"deadJobs":1204,"activeThreads":2,"poolSize":16}}}}`
	readyUp   = `{"status":"UP","checks":[{"name":"sql","status":"UP"},{"name":"gate","status":"UP"}]}`
	threeTier = `{"items":[{"tier":"PAID","priority":1,"maxRetries":5,"heartbeatTimeoutMs":15000,` +
		`"maxProcessingTimeMs":50000,"share":100,"backoff":{"baseMs":2000,"factor":2,"capMs":300000,"jitter":0.2},` +
		`"version":1},` +
		`{"tier":"EXPRESS","priority":2,"maxRetries":1,"heartbeatTimeoutMs":3000,"maxProcessingTimeMs":10000,"share":60,` +
		`"backoff":{"baseMs":0,"factor":1,"capMs":0,"jitter":0},"version":4}]}`
	someStats = `{"tiers":[{"tier":"PAID","depth":1204,"scheduled":0,"oldestAgeSeconds":1,"inFlight":2,` +
		`"submittedPerSecond":1,"finishedPerSecond":1,"waitSeconds":{"p50":0,"p95":0,"p99":0},` +
		`"runSeconds":{"p50":0,"p95":0,"p99":0},"submitted":9,"refused":0,"completed":5000,"failed":60,"cancelled":7,` +
		`"retried":2}],"capacity":{"used":1199,"limit":10000},` +
		`"gate":{"open":true,"failures":0,"reason":""},"outbox":{"jobs":0,"bytes":0},"watches":[],"workers":[{"name":"w",` +
		`"slots":16,"running":3,"stuck":0}],"drainPerSecond":2,"timestamp":"` + aTime + `"}`
)

// hostileText is a text that tries to be more than text.
const hostileText = `</script></pre></textarea><script>alert(1)</script><img src=x onerror=alert(2)>'"{{.}}`

// reply is the stub's answer to one address.
type reply struct {
	status int
	body   string
	header map[string]string
}

// stub is a fake API.
type stub struct {
	mu    sync.Mutex
	says  map[string]reply // "GET /api/me"
	serve http.Handler     // used in place of says; nil = says is used
	heard []*http.Request
	sent  []string // the bodies of the requests in heard
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.heard, s.sent = append(s.heard, r), append(s.sent, string(body))
	is, known := s.says[r.Method+" "+r.URL.Path]
	serve := s.serve
	s.mu.Unlock()
	if serve != nil && r.URL.Path != mePath {
		serve.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == mePath && known && len(r.Header["Cookie"])+len(r.Header["Authorization"]) > 0 {
		if with, ok := s.says["with a key"]; ok {
			is = with
		}
	}
	if !known {
		is = problem(http.StatusNotFound, "NOT_FOUND", "This address does not exist.")
	}
	w.Header().Set("Content-Type", "application/json")
	for name, value := range is.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(is.status)
	_, _ = io.WriteString(w, is.body)
}

// asked returns the requests to one address.
func (s *stub) asked(method, path string) (all []*http.Request, bodies []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.heard {
		if r.Method == method && r.URL.Path == path {
			all, bodies = append(all, r), append(bodies, s.sent[i])
		}
	}
	return all, bodies
}

// changes returns the requests that might have changed something.
func (s *stub) changes() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.heard {
		if r.Method != http.MethodGet {
			list = append(list, r.Method+" "+r.URL.Path)
		}
	}
	return list
}

// problem returns a refusal in the API's format, with fields and reasons alternating.
func problem(status int, code, detail string, fields ...string) reply {
	type field struct {
		Field  string `json:"field"`
		Reason string `json:"reason"`
	}
	var errors []field
	for i := 0; i+1 < len(fields); i += 2 {
		errors = append(errors, field{fields[i], fields[i+1]})
	}
	body, _ := json.Marshal(map[string]any{
		"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail, "errorCode": code,
		"message": code, "timestamp": aTime,
		"traceId": "trace-of-api", "jobId": jobID, "errors": errors,
	})
	return reply{status, string(body), map[string]string{"Content-Type": "application/problem+json"}}
}

func ok(body string) reply { return reply{status: http.StatusOK, body: body} }

// face is the pages with a stub as their API.
type face struct {
	t      *testing.T
	api    *stub
	pages  *Pages
	logins *logins
	played walkthrough
	at     map[string]http.Handler
}

func newFace(t *testing.T, me string) *face {
	t.Helper()
	f := &face{t: t, at: map[string]http.Handler{}, api: &stub{says: map[string]reply{
		"GET /api/me": ok(me), "GET /readyz": ok(readyUp), "GET /actuator/health": ok(allUp),
		"GET /admin/tiers": ok(threeTier), "GET /api/stats": ok(someStats),
	}}}
	f.logins = &logins{}
	f.pages = New(Options{API: f.api, Sessions: f.logins, Set: theSet(), Mode: "EMBEDDED", Version: "0.7.0",
		Demo: &f.played, Now: func() time.Time { return noon }})
	for _, page := range f.pages.All() {
		f.at[page.Method+" "+page.Path] = page.Handler
	}
	return f
}

// logins are fake sessions.
type logins struct {
	mu     sync.Mutex
	begun  []string // the keys
	ended  []string
	err    error
	endErr error
}

const (
	aSession  = "aaaabbbbccccdddd.0123456789abcdefghijklmnopqrstuvwxyz0123456"
	ourCookie = "tierq_session_ours"
	shownTo   = ourCookie + "=" + aSession
)

func (l *logins) Begin(_ context.Context, key string) (string, time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return "", 0, l.err
	}
	l.begun = append(l.begun, key)
	return aSession, 12 * time.Hour, nil
}

func (l *logins) End(_ context.Context, text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = append(l.ended, text)
	return l.endErr
}

func (l *logins) CookieName(secure bool) string {
	if secure {
		return "__Host-" + ourCookie
	}
	return ourCookie
}

func (f *face) say(address string, r reply) *face {
	f.api.mu.Lock()
	defer f.api.mu.Unlock()
	f.api.says[address] = r
	return f
}

// do sends a request; more are headers, names and values alternating.
func (f *face) do(method, target string, form url.Values, more ...string) *sheet {
	f.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := httptest.NewRequest(method, target, body)
	r.Host, r.RemoteAddr = "tierq.example:8080", "192.0.2.7:4711"
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(more); i += 2 {
		r.Header.Set(more[i], more[i+1])
	}
	h := f.at[method+" "+r.URL.Path]
	if h == nil && method == http.MethodHead {
		h = f.at["GET "+r.URL.Path]
	}
	if h == nil {
		f.t.Fatalf("nobody serves %s %s", method, r.URL.Path)
	}
	rec := httptest.NewRecorder()
	rec.Header().Set(traceHeader, "trace-of-page") // as the guard does
	h.ServeHTTP(rec, r)
	s := &sheet{ResponseRecorder: rec, t: f.t}
	if strings.HasPrefix(rec.Header().Get("Content-Type"), "text/html") {
		doc, err := html.Parse(strings.NewReader(rec.Body.String()))
		if err != nil {
			f.t.Fatal(err)
		}
		s.doc = doc
	}
	return s
}

func (f *face) get(target string, more ...string) *sheet {
	f.t.Helper()
	return f.do(http.MethodGet, target, nil, more...)
}

// sheet is an answer, and its page as a browser parses it.
type sheet struct {
	*httptest.ResponseRecorder
	t   *testing.T
	doc *html.Node
}

// all returns the elements with a tag ("" = any) that have an attribute with this value ("" = any value).
func (s *sheet) all(tag, name, value string) (list []*html.Node) {
	s.t.Helper()
	if s.doc == nil {
		s.t.Fatalf("%d is no page: %s", s.Code, s.Body)
	}
	for n := range s.doc.Descendants() {
		if n.Type != html.ElementNode || tag != "" && n.Data != tag {
			continue
		}
		if is, there := attribute(n, name); name == "" || there && (value == "" || is == value) {
			list = append(list, n)
		}
	}
	return list
}

func (s *sheet) one(tag, name, value string) *html.Node {
	s.t.Helper()
	list := s.all(tag, name, value)
	if len(list) != 1 {
		s.t.Fatalf("%d of <%s %s=%q>: %s", len(list), tag, name, value, s.Body)
	}
	return list[0]
}

func attribute(n *html.Node, name string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

// textOf returns the text of an element, with single spaces.
func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// shows checks that the element contains the texts.
func (s *sheet) shows(n *html.Node, wants ...string) {
	s.t.Helper()
	text := textOf(n)
	for _, want := range wants {
		if !strings.Contains(text, want) {
			s.t.Errorf("%q is not in %q", want, text)
		}
	}
}

func (s *sheet) main() *html.Node {
	s.t.Helper()
	return s.one("main", "id", "main")
}

// wrongs returns the errors beside fields.
func (s *sheet) wrongs() (list []string) {
	for _, n := range s.all("p", "class", "wrong") {
		if _, hidden := attribute(n, "hidden"); !hidden {
			list = append(list, textOf(n))
		}
	}
	return list
}

// alert returns the trouble that is shown above the page's content; "" = none.
func (s *sheet) alert() string {
	if list := s.all("p", "class", "note is-bad"); len(list) > 0 {
		return textOf(list[0])
	}
	return ""
}

// status checks the status of the answer.
func (s *sheet) status(want int) *sheet {
	s.t.Helper()
	if s.Code != want {
		s.t.Fatalf("status %d, want %d: %s", s.Code, want, s.Body)
	}
	return s
}

// leads checks that the answer is a redirect to want.
func (s *sheet) leads(want string) *sheet {
	s.t.Helper()
	s.status(http.StatusSeeOther)
	if got := s.Header().Get("Location"); got != want {
		s.t.Errorf("Location %q, want %q", got, want)
	}
	return s
}

// harmless checks that no element and no attribute of the page came from what a user sent.
func (s *sheet) harmless() {
	s.t.Helper()
	for _, n := range s.all("", "", "") {
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
				s.t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			}
		}
		src, has := attribute(n, "src")
		if n.Data == "img" || n.Data == "script" && (!has || !strings.HasPrefix(src, "/static/") || n.FirstChild != nil) {
			s.t.Errorf("<%s src=%q>", n.Data, src)
		}
	}
}

// Every page answers with the policy that allows only this server's files, is not cached, and may be requested
// with HEAD.
func TestEveryPage(t *testing.T) {
	t.Attr("proves", "A44")
	f := newFace(t, openMe)
	f.say("GET /api/jobs/"+jobID, ok(aJob("COMPLETED", "")))
	for _, path := range []string{"/", "/submit", "/poll", "/poll?jobId=" + jobID, "/poll?jobId=7", "/about"} {
		s := f.get(path)
		want := map[string]string{"Content-Security-Policy": web.Policy, "Cache-Control": "private, no-store",
			"Content-Type": "text/html; charset=utf-8", "Referrer-Policy": "same-origin"}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if got := s.Header().Get(name); got != want[name] {
				t.Errorf("%s: %s: %q", path, name, got)
			}
		}
		s.harmless()
		s.shows(s.one("footer", "", ""), "tierq 0.7.0")
		if head := f.do("HEAD", path, nil); head.Code != s.Code || head.Body.Len() != 0 ||
			!maps.EqualFunc(head.Header(), s.Header(), slices.Equal) {
			t.Errorf("HEAD %s: %d %v %d bytes", path, head.Code, head.Header(), head.Body.Len())
		}
	}
	newFace(t, strangerMe).get("/login").harmless()
}

// The static files are among the pages, for GET and HEAD.
func TestStaticFiles(t *testing.T) {
	f := newFace(t, openMe)
	s := f.get("/")
	sheetOf, _ := attribute(s.one("link", "rel", "stylesheet"), "href")
	for _, method := range []string{"GET", "HEAD"} {
		if got := f.do(method, sheetOf, nil).status(200); !strings.Contains(got.Header().Get("Cache-Control"), "immutable") {
			t.Error(method, got.Header())
		}
	}
}

// No address occurs twice, and every address has a handler.
func TestAll(t *testing.T) {
	seen := map[string]bool{}
	for _, page := range newFace(t, openMe).pages.All() {
		address := page.Method + " " + page.Path
		if seen[address] || page.Handler == nil {
			t.Error(address)
		}
		seen[address] = true
	}
	for _, want := range []string{"GET /", "GET /submit", "POST /submit", "GET /poll", "POST /poll/cancel",
		"POST /poll/requeue", "POST /poll/kill", "POST /poll/hasten", "POST /poll/dismiss", "GET /about", "GET /login", "POST /login", "POST /logout"} {
		if !seen[want] {
			t.Errorf("%s is missing", want)
		}
	}
}
