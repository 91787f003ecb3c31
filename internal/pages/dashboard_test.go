package pages

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/web"
)

// ops is a fake of the API for the dashboard's pages: unknown addresses are 404.
type ops struct {
	replies map[string]func(r *http.Request, body string) (int, any) // by method and path
	// method, address and body of each call, except those that every page makes
	asked []string
	hub   *Hub
}

var opsNow = time.Date(2026, 11, 22, 20, 0, 0, 0, time.UTC)

const (
	opsID    = "019de340-01fe-7a58-be69-567cd7d61000"
	opsOther = "019de340-01fe-7a58-be69-567cd7d61001"
	opsThird = "019de340-01fe-7a58-be69-567cd7d61002"
	evilText = `</td><script>alert(1)</script><img src=x onerror=alert(2)>`
)

func newOps() *ops {
	o := &ops{replies: map[string]func(*http.Request, string) (int, any){}}
	o.says("GET /api/me", 200, `{"open":false,"name":"ann","role":"admin","admin":true,"operator":true,"submits":true,`+
		`"secure":false}`)
	o.says("GET /readyz", 200, `{"status":"UP","checks":[]}`)
	o.says("GET /actuator/health", 200, `{"status":"UP"}`)
	o.says("GET /admin/tiers", 200, `{"items":[`+opsPlan(3)+`]}`)
	return o
}

func opsPlan(version int) string {
	text, _ := json.Marshal(map[string]any{
		"tier": "PAID", "priority": 1, "maxRetries": 5, "heartbeatTimeoutMs": 15000, "maxProcessingTimeMs": 50000,
		"share": 100, "version": version,
		"backoff": map[string]any{"baseMs": 2000, "factor": 2, "capMs": 300000, "jitter": 0.2},
		"typeBackoff": map[string]any{"SEND_EMAIL": map[string]any{"baseMs": 60000, "factor": 1, "capMs": 60000,
			"jitter": 0.1}},
	})
	return string(text)
}

func (o *ops) says(address string, status int, body string) {
	o.replies[address] = func(*http.Request, string) (int, any) { return status, json.RawMessage(body) }
}

// refuses sets an error in the API's format as the answer of an address.
func (o *ops) refuses(address string, status int, code, detail string) {
	body, _ := json.Marshal(map[string]any{"status": status, "title": http.StatusText(status), "errorCode": code,
		"detail": detail, "traceId": "t1"})
	o.says(address, status, string(body))
}

func (o *ops) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	address := r.Method + " " + r.URL.Path
	switch address {
	case "GET /api/me", "GET /readyz", "GET /actuator/health", "GET /admin/tiers":
	default:
		line := r.Method + " " + r.URL.RequestURI()
		if tag := r.Header.Get("If-Match"); tag != "" {
			line += " if " + tag
		}
		o.asked = append(o.asked, strings.TrimSpace(line+" "+string(body)))
	}
	status, answer := 404, any(map[string]any{"status": 404, "errorCode": "NOT_FOUND", "detail": "there is nothing"})
	if reply := o.replies[address]; reply != nil {
		status, answer = reply(r, string(body))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

// open requests a page; form = nil means a GET.
func (o *ops) open(t *testing.T, address string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	o.asked = nil
	p := New(Options{Sessions: &logins{}, API: o, Set: theSet(), Hub: o.hub, Version: "0.7.0",
		Now: func() time.Time { return opsNow }})
	r := httptest.NewRequest("GET", address, nil)
	if form != nil {
		r = httptest.NewRequest("POST", address, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	w := httptest.NewRecorder()
	p.handle(served(t, p, r.Method, r.URL.Path)).ServeHTTP(w, r)
	if w.Code != 303 && w.Header().Get("Content-Security-Policy") != web.Policy {
		t.Errorf("%s: the policy is %q", address, w.Header().Get("Content-Security-Policy"))
	}
	return w
}

// served returns the handler of an address.
func served(t *testing.T, p *Pages, method, path string) http.Handler {
	t.Helper()
	for _, page := range p.dashboards() {
		start, behind, named := strings.Cut(page.Path, ":")
		_, behind, _ = strings.Cut(behind, "/")
		if page.Method == method && (page.Path == path || named && strings.HasPrefix(path, start) &&
			strings.HasSuffix(path, behind)) {
			return page.Handler
		}
	}
	t.Fatalf("nobody serves %s %s", method, path)
	return nil
}

func (o *ops) did(t *testing.T, want ...string) {
	t.Helper()
	if got := strings.Join(o.asked, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("asked\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// holds checks the status, and that the page contains every text.
func holds(t *testing.T, w *httptest.ResponseRecorder, status int, texts ...string) {
	t.Helper()
	if w.Code != status {
		t.Errorf("status %d, want %d", w.Code, status)
	}
	for _, text := range texts {
		if !strings.Contains(w.Body.String(), text) {
			t.Errorf("there is no %q in\n%s", text, w.Body)
		}
	}
}

func lacks(t *testing.T, w *httptest.ResponseRecorder, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(w.Body.String(), text) {
			t.Errorf("there is %q in\n%s", text, w.Body)
		}
	}
}

// goes checks a redirect with the text of what was done, or of the trouble.
func goes(t *testing.T, w *httptest.ResponseRecorder, path, name, text string) {
	t.Helper()
	to, err := url.Parse(w.Header().Get("Location"))
	said := to.Query().Get(name)
	if name == "done" || name == "trouble" {
		said = saidText(said)
	}
	if err != nil || w.Code != 303 || to.Path != path || said == "" || !strings.Contains(said, text) {
		t.Errorf("%d to %s, want %s with %s %q; %v", w.Code, to, path, name, text, err)
	}
}

const opsStats = `{"tiers":[{"tier":"PAID","depth":1204,"scheduled":2,"oldestAgeSeconds":3.5,"inFlight":7,"submittedPerSecond":30.2,"finishedPerSecond":30.1,
	"waitSeconds":{"p50":0.004,"p95":0.031,"p99":0.12},"runSeconds":{"p50":0.2,"p95":1.4,"p99":2.2},"submitted":9,"refused":1,"completed":100,"failed":17,"cancelled":3,"retried":5}],
	"capacity":{"used":1204,"limit":10000},"gate":{"open":true,"failures":0,"reason":""},"outbox":{"jobs":3,"bytes":99},"watches":[{"name":"crashed","delaySeconds":3}],
	"workers":[{"name":"w1","host":"h","pid":4,"version":"0.7.0","slots":16,"running":7,"stuck":0,"startedAt":"2026-11-22T19:00:00Z","seenAt":"2026-11-22T20:00:00Z"}],
	"drainPerSecond":30.1,"timestamp":"2026-11-22T20:00:00.000000Z"}`

func opsSnapshot() *web.Snapshot {
	return &web.Snapshot{
		At: opsNow, Gate: web.Gate{Open: true}, Capacity: web.Capacity{Used: 3, Limit: 10},
		Tiers: []web.Lane{{Tier: "PAID", Depth: 4321}}, InFlight: 1,
		Leases: []web.Lease{{JobID: opsID, Tier: "PAID", Type: "SIMULATION", Worker: evilText, Attempt: 2, StartedAt: opsNow,
			HeartbeatBy: opsNow, EndBy: opsNow, Progress: &web.LeaseProgress{Done: 4500, Total: 9000}}},
	}
}

func TestDashboard_IsDrawnFromWhatTheStreamShows(t *testing.T) {
	o := newOps()
	o.says("GET /api/stats", 200, opsStats)
	var err error
	o.hub = NewHub(HubOptions{Snapshot: func(context.Context) (any, error) { return opsSnapshot(), err }})
	o.hub.Tell(feedEvent, web.FeedItem{At: opsNow, Kind: "dead", JobID: opsOther, Text: "failed for good: " + evilText})
	items, after := o.hub.Recent(1)
	w := o.open(t, "/dashboard", nil)
	holds(t, w, 200, "4,321", `data-f="howtext">50 %<`, `data-f="howbar" width="50"`, opsID, opsOther,
		"failed for good: ", `data-key="`+items[0].ID+`"`,
		`data-live="/dashboard/stream?after=`+after+`"`)
	lacks(t, w, "<script>alert", "<img src=x", "data-heal")
	o.did(t, "GET /api/stats")

	err = errors.New("hunter2") // the figures are available: the page is shown without the leases
	w = o.open(t, "/dashboard", nil)
	holds(t, w, 200, "1,204", "5 retries", `data-b="inFlight" data-as="count">7<`,
		`data-b="slots.total" data-as="count">16<`, `data-b="ended" data-as="count">120<`)
	lacks(t, w, "hunter2", opsID)
}

func TestDashboard_ComesWhoeverLooksAndWhateverIsDown(t *testing.T) {
	o := newOps()
	o.hub = NewHub(HubOptions{Snapshot: func(context.Context) (any, error) { return nil, job.ErrUnavailable }})
	o.refuses("GET /api/stats", 503, "SYSTEM_UNHEALTHY", "A store that this needs does not answer.")
	holds(t, o.open(t, "/dashboard", nil), 200, "data-heal", "A store that this page needs does not answer.",
		"No numbers now",
		"data-live=\"/dashboard/stream?after=")

	o.refuses("GET /api/stats", 500, "INTERNAL", "Something went wrong inside.")
	w := o.open(t, "/dashboard", nil)
	holds(t, w, 500, "Internal error")
	lacks(t, w, "data-heal")

	o.says("GET /api/me", 200, `{"open":false,"name":"bob","role":"submit","submits":true}`)
	o.refuses("GET /api/stats", 403, "FORBIDDEN", "the role submit may not do this")
	w = o.open(t, "/dashboard", nil)
	holds(t, w, 200, "This key sees no numbers", `data-live=""`)
	lacks(t, w, "data-heal", "Recoveries")

	o.says("GET /api/me", 200, `{"open":false,"name":null,"role":null}`)
	o.refuses("GET /api/stats", 401, "UNAUTHORIZED", "This needs an API key")
	for _, path := range []string{"/dashboard", "/dashboard/jobs?tier=PAID", "/dashboard/dead", "/dashboard/tiers",
		"/dashboard/tiers/PAID", "/dashboard/lines", "/dashboard/lines/key?owner=k1"} {
		for _, address := range []string{"GET /api/jobs", "GET /admin/dead", "GET /admin/tiers", "GET /admin/tiers/PAID",
			"GET /admin/lines"} {
			o.refuses(address, 401, "UNAUTHORIZED", "This needs an API key")
		}
		goes(t, o.open(t, path, nil), "/login", "next", path)
	}
	for _, path := range []string{"/dashboard/dead/requeue", "/dashboard/tiers/PAID", "/dashboard/lines/key"} {
		o.refuses("POST /jobs/"+opsID+"/retry", 401, "UNAUTHORIZED", "This needs an API key")
		goes(t, o.open(t, path, url.Values{"one": {opsID}}), "/login", "next", "/dashboard/")
	}
}

// A form of another site's page changes nothing, whatever cookie it comes with.
func TestDashboard_FormsOfOtherSites(t *testing.T) {
	t.Attr("proves", "A45")
	for _, path := range []string{"/dashboard/dead/requeue", "/dashboard/tiers/PAID", "/dashboard/workers",
		"/dashboard/lines/key", "/dashboard/schedules/one", "/dashboard/schedules/edit"} {
		o := newOps()
		p := New(Options{Sessions: &logins{}, API: o, Set: theSet(), Now: func() time.Time { return opsNow }})
		r := httptest.NewRequest("POST", path, strings.NewReader("confirmed=yes&quiet=w1&version=0&one="+opsID))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		w := httptest.NewRecorder()
		p.handle(served(t, p, "POST", path)).ServeHTTP(w, r)
		if w.Code != 403 || len(o.asked) > 0 {
			t.Errorf("%s: %d, asked %v", path, w.Code, o.asked)
		}
	}
}
