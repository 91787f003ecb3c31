package pages

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/tierq/tierq/internal/fuzz"
)

// local says whether a browser that follows this path stays on this server: browsers treat a backslash as a slash,
// and ignore control characters.
func local(path string) bool {
	for i := range len(path) {
		if path[i] <= ' ' || path[i] > '~' {
			return false
		}
	}
	before, _, _ := strings.Cut(path, "?")
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.Contains(before, `\`) {
		return false
	}
	page := url.URL{Scheme: "https", Host: "tierq.example:8080", Path: "/login"}
	u, err := url.Parse(path)
	if err != nil {
		return false
	}
	led := page.ResolveReference(u)
	return led.Scheme == page.Scheme && led.Host == page.Host && led.User == nil
}

// A login leads to a page of this server, whatever its link says.
func FuzzOwnPath(f *testing.F) {
	fuzz.Text(f, func(t *testing.T, next string) {
		got := ownPath(next)
		if got != next && got != "/" || !local(got) || len(got) > 2000 ||
			strings.Contains(got, "#") && !strings.Contains(got, "?") {
			t.Errorf("it leads to %q", got)
		}
		if again := ownPath(got); again != got {
			t.Errorf("it leads to %q, and that to %q", got, again)
		}
	}, "/", "/dashboard/jobs?status=FAILED&tier=PAID", "/poll?jobId="+jobID, "//evil.example", `/\evil.example`,
		"https://evil.example/", "javascript:alert(1)",
		"/\t/evil.example", "/x\r\nSet-Cookie: a=b", "/.//evil.example", "/x/..//evil.example", "/%2e%2e//evil.example",
		"/%5cevil.example", "/#//evil.example",
		`/?\\evil.example`, "/login?next=/login", "/;//x", "/:80", "/@evil.example", "/%zz", "?x", "")
}

// answering is an API that accepts whatever a page asks, and checks that the request is one of the API's
// addresses.
type answering struct{ t *testing.T }

var known = regexp.MustCompile(`^(GET /(api/me|readyz|admin/tiers(/[A-Za-z][A-Za-z0-9_]{0,30})?)|` +
	`POST /([a-z0-9_]{1,31}/submit|jobs/[0-9a-f-]{36}/retry|api/jobs/[0-9a-f-]{36}/cancel|admin/dead/requeue|` +
	`admin/jobs/[0-9a-f-]{36}/(kill|hasten)|admin/dead/[0-9a-f-]{36}/dismiss|` +
	`admin/workers/[A-Za-z0-9._-]{1,100}/(quiet|resume|terminate)|` +
	`admin/schedules/[A-Za-z0-9][A-Za-z0-9._-]{0,79}/(run|pause|resume))|` +
	`(GET|PUT) /admin/schedules/[A-Za-z0-9][A-Za-z0-9._-]{0,79}|GET /admin/workers|(GET|PUT) /admin/lines|PUT ` +
	`/admin/tiers/PAID)$`)

func (a *answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	address := r.Method + " " + r.URL.Path
	if !known.MatchString(address) || len(body) > 0 && !json.Valid(body) {
		a.t.Errorf("asked %q with %q", address, body)
	}
	var answer string
	switch {
	case r.URL.Path == mePath && len(r.Header["Authorization"]) > 0:
		answer = annMe
	case r.URL.Path == mePath:
		answer = openMe
	case r.URL.Path == "/readyz":
		answer = readyUp
	case address == "GET /admin/tiers":
		answer = threeTier
	case strings.HasPrefix(r.URL.Path, "/admin/tiers/"):
		answer = opsPlan(3)
	case strings.HasSuffix(r.URL.Path, "/submit"):
		w.WriteHeader(http.StatusAccepted)
		answer = `{"apiResponseData":{"jobId":"` + jobID + `"}}`
	case strings.HasSuffix(r.URL.Path, "/requeue"):
		answer = `{"matched":3,"requeued":3}`
	case address == "GET /admin/workers":
		answer = `{"items":[{"name":"w1","kind":"server","state":"run"}]}`
	default:
		answer = `{"requested":true}`
	}
	_, _ = io.WriteString(w, answer)
}

// answersOfForms are the statuses with which a form may be answered.
var answersOfForms = []int{200, 204, 303, 400, 401, 404, 412}

// For any form the pages call only known addresses of the API, the browser stays on this server, and the typed
// values are only text.
func FuzzForms(f *testing.F) {
	f.Attr("proves", "A46")
	api := &answering{}
	pages := New(Options{API: api, Sessions: &logins{}, Set: theSet(), Mode: "EMBEDDED", Demo: &walkthrough{},
		Now: func() time.Time { return noon }})
	var forms []Page
	for _, page := range pages.All() {
		if page.Method == http.MethodPost {
			page.Path = strings.Replace(page.Path, ":tier", "PAID", 1)
			forms = append(forms, page)
		}
	}
	if len(forms) < 8 {
		f.Fatalf("only %d forms are there", len(forms))
	}
	fuzz.Text(f, func(t *testing.T, body string) {
		api.t = t
		for _, form := range forms {
			r := httptest.NewRequestWithContext(t.Context(), form.Method, form.Path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Cookie", demoCookie+"="+demoSession)
			w := httptest.NewRecorder()
			form.Handler.ServeHTTP(w, r)
			if !slices.Contains(answersOfForms, w.Code) {
				t.Errorf("%s: %d %.500s", form.Path, w.Code, w.Body)
			}
			if to := w.Header().Get("Location"); (w.Code == http.StatusSeeOther) != (to != "") || to != "" && !local(to) {
				t.Errorf("%s: %d leads to %q", form.Path, w.Code, to)
			}
			for _, c := range w.Result().Cookies() {
				if c.Name != ourCookie || c.Value != "" && c.Value != aSession || c.Valid() != nil {
					t.Errorf("%s: the cookie %q", form.Path, c.Raw)
				}
			}
			if strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
				doc, err := html.Parse(bytes.NewReader(w.Body.Bytes()))
				if err != nil {
					t.Fatal(err)
				}
				(&sheet{ResponseRecorder: w, t: t, doc: doc}).harmless()
			}
		}
		if held := pages.forms.Load(); held != 0 {
			t.Errorf("%d bytes of forms are held", held)
		}
	}, "key="+aKey+"&next=/dashboard", "key=tq_x%0d%0a&next=//evil.example", "next=%5c%5cevil.example&key="+aKey,
		"tier=PAID&type=SIMULATION&payload=%7B%22a%22%3A1%7D&maxRetries=3&delaySeconds=1.5"+
			"&callbackUrl=https%3A%2F%2Fx.example&idempotencyKey=k",
		"tier=PAID&payload=%7B%7D%2C%22tier%22%3A1&delaySeconds=1e999&maxRetries=-1",
		"tier=../x&type="+url.QueryEscape(hostileText),
		"payload="+url.QueryEscape(hostileText)+"&tier=paid&callbackUrl="+url.QueryEscape(hostileText),
		"jobId="+jobID+"&confirmed=yes", "jobId="+url.QueryEscape(hostileText), "one="+jobID,
		"scope=selected&id="+jobID+"&id=x", "scope=all&tier=PAID&from=2026-04-01T00%3A00%3A00Z",
		"scope=all&confirmed=yes&expected=3&cause="+url.QueryEscape(hostileText), plan3().Encode(),
		plan3("share", "50", "confirmed", "yes").Encode(),
		plan3("priority", "NaN", "backoffJitter", "1e309", "version", hostileText).Encode(), "scenario=happy", "%zz", "a;b",
		"key=acme&version=0&do=store&running=5&rate=1e309&strict=yes",
		"owner="+url.QueryEscape(hostileText)+"&version=0&do=pause",
		schedule7("version", "0").Encode(), schedule7("version", "0", "name", "a/../b").Encode(),
		schedule7("version", "0", "do", "preview", "cron", hostileText, "payload", hostileText).Encode(),
		schedule7("version", "0", "everySeconds", "1e309", "queue", hostileText).Encode(),
		"key=%ff&version=0&do=pause&minutes=1e300&reason="+url.QueryEscape(hostileText), "version=0&do=resume&key=%26x",
		"")
}

// The cookie of /demo is accepted only if the server can have set it.
func FuzzDemoSession(f *testing.F) {
	plays := &walkthrough{}
	pages := New(Options{API: &answering{}, Sessions: &logins{}, Set: theSet(), Demo: plays,
		Now: func() time.Time { return noon }})
	ours := regexp.MustCompile(`^[A-Z2-7]{26}$`)
	fuzz.Text(f, func(t *testing.T, cookie string) {
		pages.o.API.(*answering).t = t
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/demo/play", strings.NewReader("scenario=happy"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header["Cookie"] = []string{cookie}
		name := session(r)
		if name != "" && (!ours.MatchString(name) || !strings.Contains(cookie, demoCookie+"=")) {
			t.Errorf("it names %q", name)
		}
		plays.plays = nil
		w := httptest.NewRecorder()
		pages.handle(http.HandlerFunc(pages.postPlay)).ServeHTTP(w, r)
		if (w.Code == http.StatusNoContent) != (name != "") ||
			name != "" && !slices.Equal(plays.plays, []string{name + " happy"}) || name == "" && plays.plays != nil {
			t.Errorf("%d, played %q", w.Code, plays.plays)
		}
	}, demoCookie+"="+demoSession, demoCookie+"="+strings.ToLower(demoSession), demoCookie+"="+demoSession+"A",
		demoCookie+"=A; "+demoCookie+"="+demoSession,
		demoCookie+`="`+demoSession+`"`, ourCookie+"="+demoSession, "a=b; "+demoCookie+"="+demoSession, demoCookie+"=", "",
		"=", demoCookie)
}

// A stream of /demo continues behind the number that was sent, or starts at the beginning.
func FuzzLastSeen(f *testing.F) {
	fuzz.Text(f, func(t *testing.T, text string) {
		header, query, _ := strings.Cut(text, "\n")
		r := &http.Request{Header: http.Header{"Last-Event-Id": {header}}, URL: &url.URL{RawQuery: query}}
		n := lastSeen(r)
		first, bad := strconv.ParseInt(header, 10, 64)
		if n < 0 || bad == nil && first > 0 && n != first {
			t.Errorf("behind %d", n)
		}
		if (bad != nil || first <= 0) && n > 0 {
			if second, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64); err != nil || second != n {
				t.Errorf("behind %d", n)
			}
		}
	}, "7\n", "\nafter=7", "7\nafter=9", "-1\nafter=9", "9223372036854775808\nafter=1", "0\nafter=0", "+5\n",
		"\nafter=%2b5", "1e3\n", "\nafter=7&after=8", "\nafter=7;x", "\n%zz")
}

// The dashboard's stream continues behind the given id, or sends a resync.
func FuzzHubPosition(f *testing.F) {
	h := NewHub(HubOptions{})
	h.nonce, h.running = "abcdefgh", true // no snapshots are made
	for n := range ringSize + 10 {
		h.Tell("recovery", n)
	}
	fuzz.Text(f, func(t *testing.T, id string) {
		l := h.join(id)
		if l == nil {
			t.Fatal("it is full")
		}
		defer h.leave(l)
		digits, ours := strings.CutPrefix(id, "abcdefgh-")
		n, err := strconv.ParseUint(digits, 10, 64)
		kept := ours && err == nil && n <= h.told
		text, bye := h.next(l)
		items := strings.Count(string(text), "event: recovery\n")
		switch resync := strings.Contains(string(text), "event: resync\n"); {
		case bye:
			t.Error("it says goodbye")
		case id == "" && len(text) > 0, kept && n+ringSize >= h.told && (resync || uint64(items) != h.told-n):
			t.Errorf("%d items, again from the beginning %v", items, resync)
		case id != "" && (!kept || n+ringSize < h.told) && (!resync || items != ringSize):
			t.Errorf("%d items, again from the beginning %v", items, resync)
		}
		if more, _ := h.next(l); len(more) > 0 {
			t.Errorf("and then %q", more)
		}
	}, "", "abcdefgh-1", "abcdefgh-10", "abcdefgh-"+strconv.Itoa(ringSize+10), "abcdefgh-"+strconv.Itoa(ringSize+11),
		"abcdefgh-18446744073709551615", "abcdefgh-18446744073709551616",
		"abcdefgh--1", "abcdefgh-+5", "other-5", "abcdefgh-", "abcdefgh-7\n", "-7", "505")
}
