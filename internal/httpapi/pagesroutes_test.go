package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const pagePolicy = "default-src 'none'; script-src 'self'; frame-ancestors 'none'"

// sheet returns a handler that answers like a page.
func sheet(status int, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("Cache-Control", "private, no-store")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})
}

// paged returns rooms with pages.
func paged(t *testing.T, change func(*Deps)) *rooms {
	r := newRooms(t)
	never := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		for _, name := range []string{"Content-Security-Policy", "X-Frame-Options", "X-Content-Type-Options"} {
			h.Del(name)
		}
		h.Set("Content-Type", "text/html")
		h.Set("Cache-Control", "public, immutable")
		h.Set("Content-Length", "7")
		h.Set("Set-Cookie", "tierq_session_ours=x")
		panic("hunter2")
	})
	r.deps.Pages = []Page{
		{"GET", "/", sheet(200, "overview")}, {"GET", "/submit", sheet(200, "a form")}, {"POST", "/submit", sheet(303, "")},
		{"GET", "/poll", sheet(404, "no such job")},
		{"POST", "/poll/cancel", sheet(303, "")}, {"GET", "/dashboard", sheet(200, "live")},
		{"GET", "/dashboard/tiers/:tier", sheet(200, "a plan")},
		{"POST", "/dashboard/tiers/:tier", sheet(200, "a plan")}, {"POST", "/dashboard/dead/requeue", sheet(200, "sure?")},
		{"POST", "/login", sheet(303, "")},
		{"POST", "/logout", sheet(303, "")}, {"GET", "/static/0a1b/face.css", sheet(200, "css")},
		{"HEAD", "/static/0a1b/face.css", sheet(200, "")},
		{"GET", "/panics", never}, {"POST", "/panics", never},
	}
	if change != nil {
		change(&r.deps)
	}
	r.Handler = NewHandler(r.deps)
	return r
}

// Pages are served to everybody at their addresses: the API behind them checks the caller. A GET also answers HEAD,
// and everything else is as at other addresses.
func TestPages_Addresses(t *testing.T) {
	for kind, caller := range callers {
		r := paged(t, nil)
		d := r.behind(caller)
		for at, want := range map[string]int{
			"GET /": 200, "HEAD /": 200, "GET /submit": 200, "HEAD /submit": 200, "POST /submit": 303, "GET /poll": 404,
			"GET /poll?jobId=x": 404, "POST /poll/cancel": 303,
			"GET /dashboard": 200, "GET /dashboard/tiers/PAID": 200, "POST /dashboard/tiers/PAID": 200, "POST /login": 303,
			"POST /logout":              303,
			"GET /static/0a1b/face.css": 200, "HEAD /static/0a1b/face.css": 200,
		} {
			method, path, _ := strings.Cut(at, " ")
			if rec := r.do(method, path, ""); rec.Code != want ||
				rec.Header().Get("Content-Type") != "text/html; charset=utf-8" {
				t.Errorf("%s, %s: %d %v %s", kind, at, rec.Code, rec.Header(), rec.Body)
			}
		}
		if d.shown != nil || d.spent != 0 {
			t.Errorf("%s: a page was asked for a key", kind)
		}
	}
	r := paged(t, nil)
	rec := r.do("DELETE", "/submit", "")
	wantProblem(t, rec, 405, "METHOD_NOT_ALLOWED")
	wantHeader(t, rec, "Allow", "GET, POST, HEAD")
	for _, path := range []string{"/submit/", "/Submit", "/dashboard/", "/dashboard/tiers", "/dashboard/tiers/",
		"/static/", "/static/0a1b/../face.css", "/%73ubmit", "/dashboard/stream"} {
		wantProblem(t, r.do("GET", path, ""), 404, "NOT_FOUND")
	}
	// net/http serves HEAD as a GET and drops the body.
	s := serve(t, r)
	if res, body := raw(t, s, "HEAD /dashboard HTTP/1.1\r\nHost: localhost\r\nConnection: "+
		"close\r\n\r\n"); res.StatusCode != 200 || body != "" || res.Header.Get("Content-Security-Policy") != pagePolicy {
		t.Errorf("%d %q %v", res.StatusCode, body, res.Header)
	}
}

// A page does not hide the addresses of a tier, whatever its name is, nor does a tier hide those of a page.
func TestPages_AndTiers(t *testing.T) {
	r := paged(t, nil)
	plans := job.DefaultPlans()
	for _, name := range []job.Tier{"P", "POL", "POLLS", "S", "SUBMITS", "STATICS", "DASH", "DASHBOARDS", "LOG", "LOGINS",
		"LOGOUTS", "PANIC", "D"} {
		plan := plans[2]
		plan.Tier = name
		plans = append(plans, plan)
	}
	r.plans.Set(plans)
	for _, plan := range plans {
		for _, path := range []string{"/submit", "/submit/batch"} {
			body := map[string]string{"/submit": "{}", "/submit/batch": "[{}]"}[path]
			if rec := r.json("POST", "/"+strings.ToLower(string(plan.Tier))+path, body); rec.Code != 202 {
				t.Errorf("%s%s: %d %s", plan.Tier, path, rec.Code, rec.Body)
			}
		}
	}
	for _, path := range []string{"/poll/submit", "/dashboard/submit", "/login/submit", "/static/submit", "/submit/submit",
		"/panics/submit/batch"} {
		wantProblem(t, r.json("POST", path, "{}"), 404, "UNKNOWN_TIER")
	}
	if rec := r.do("POST", "/submit", "type=PAIR", "Content-Type", "application/x-www-form-urlencoded"); rec.Code != 303 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	for _, name := range []job.Tier{"SUBMIT", "POLL", "DASHBOARD", "STATIC", "LOGIN", "LOGOUT", "ABOUT", "DEMO", "API",
		"ADMIN"} {
		plan := plans[2]
		plan.Tier = name
		if plan.Check() == nil {
			t.Errorf("a tier may be called %s", name)
		}
	}
}

// A browser that asks for a page that does not exist gets a page; a program gets a problem in JSON.
func TestPages_Lost(t *testing.T) {
	r := paged(t, func(d *Deps) {
		d.Lost = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.WriteHeader(http.StatusNotFound)
		})
	})
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, method := range []string{"GET", "HEAD"} {
		if rec := r.do(method, "/nowhere", "", "Accept", browser); rec.Code != 404 ||
			rec.Header().Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s: %d %v", method, rec.Code, rec.Header())
		}
	}
	wantProblem(t, r.do("GET", "/nowhere", "", "Accept", "*/*"), 404, "NOT_FOUND")
	wantProblem(t, r.do("POST", "/nowhere", "", "Accept", browser), 404, "NOT_FOUND")
	wantProblem(t, r.do("GET", "/paid/submit", "", "Accept", browser), 405, "METHOD_NOT_ALLOWED")
	wantProblem(t, paged(t, nil).do("GET", "/nowhere", "", "Accept", browser), 404, "NOT_FOUND")
}

// Every page and every error of a page has the headers that tell a browser what it may do with it.
func TestPages_Headers(t *testing.T) {
	t.Attr("proves", "A44")
	r := paged(t, nil)
	for at, want := range map[string][2]string{
		"GET /":                     {pagePolicy, "private, no-store"},
		"GET /poll":                 {pagePolicy, "private, no-store"}, // the page of an error
		"POST /submit":              {pagePolicy, "private, no-store"},
		"GET /static/0a1b/face.css": {pagePolicy, "private, no-store"},
		"GET /nowhere":              {policy[0], "no-store"},
		"PUT /submit":               {policy[0], "no-store"},
		"GET /panics":               {policy[0], "no-store"},
		"POST /panics":              {policy[0], "no-store"},
	} {
		method, path, _ := strings.Cut(at, " ")
		rec := r.do(method, path, "", "Accept", "text/html")
		wantHeader(t, rec, "Content-Security-Policy", want[0])
		wantHeader(t, rec, "Cache-Control", want[1])
		wantHeader(t, rec, "X-Content-Type-Options", "nosniff")
		wantHeader(t, rec, "X-Frame-Options", "DENY")
		wantHeader(t, rec, "Referrer-Policy", "no-referrer")
		if rec.Header().Get("X-Trace-Id") == "" || rec.Header().Get("Server") != "" {
			t.Errorf("%s: %v", at, rec.Header())
		}
	}
}

// A panic in a page ends that request only. The visitor learns nothing about it, and gets no part of the page.
func TestPages_APanic(t *testing.T) {
	t.Attr("proves", "A47")
	r := paged(t, nil)
	rec := r.do("GET", "/panics", "", "Cookie", aSession)
	wantProblem(t, rec, 500, "INTERNAL")
	if h := rec.Header(); strings.Contains(rec.Body.String(), "hunter2") || h.Get("Set-Cookie") != "" ||
		h.Get("Content-Length") != "" {
		t.Errorf("%v %s", h, rec.Body)
	}
	if log := r.log.String(); !strings.Contains(log, "hunter2") || !strings.Contains(log, "pagesroutes_test.go") ||
		strings.Contains(log, "secret-1") {
		t.Errorf("log: %s", log)
	}
	if rec := r.do("GET", "/", ""); rec.Code != 200 {
		t.Errorf("after the panic: %d", rec.Code)
	}
}

// A form that another site's page sends does not reach a page, with any headers. A form of our own page does.
func TestPages_AnotherSitesForm(t *testing.T) {
	t.Attr("proves", "A45")
	reached := 0
	r := paged(t, func(d *Deps) {
		for i := range d.Pages {
			d.Pages[i].Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ })
		}
	})
	for _, caller := range []string{"open", "admin"} {
		d := r.behind(callers[caller])
		for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
			{"Origin", "https://evil.example"}, {"Origin", "null"}} {
			for _, path := range []string{"/submit", "/poll/cancel", "/dashboard/tiers/PAID", "/dashboard/dead/requeue",
				"/login", "/logout"} {
				rec := r.do("POST", path, "a=b",
					append([]string{"Cookie", aSession, "Content-Type", "application/x-www-form-urlencoded"}, headers...)...)
				wantProblem(t, rec, 403, "FORBIDDEN")
			}
		}
		if reached != 0 || d.shown != nil {
			t.Errorf("%s: %d reached their page", caller, reached)
		}
		for _, headers := range [][]string{{"Sec-Fetch-Site", "same-origin"}, {"Origin", "http://example.com"}, nil} {
			r.do("POST", "/submit", "a=b", headers...)
		}
		if reached != 3 {
			t.Errorf("%s: %d of 3 forms of ours reached their page", caller, reached)
		}
		reached = 0
	}
}

// The pages of an open server answer to this machine's names only. A listener for health alone has no pages.
func TestPages_Where(t *testing.T) {
	t.Attr("proves", "A20")
	r := paged(t, func(d *Deps) { d.Insecure = false })
	for host, status := range map[string]int{"localhost:8080": 200, "127.0.0.1": 200, "evil.example": 403} {
		req := httptest.NewRequest("GET", "/dashboard", nil)
		req.Host = host
		if rec := r.hold(req, ""); rec.Code != status {
			t.Errorf("%s: %d", host, rec.Code)
		}
	}
	r = paged(t, func(d *Deps) { d.HealthOnly, d.Live = true, sheet(200, "") })
	for _, path := range []string{"/", "/dashboard", "/submit", streamPath, "/api/me"} {
		wantProblem(t, r.do("GET", path, ""), 404, "NOT_FOUND")
	}
}

// streaming returns rooms with a dashboard stream that goes on until its caller may not listen any more.
func streaming(t *testing.T) *rooms {
	return paged(t, func(d *Deps) {
		d.Live = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "after %s %s", r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after"))
			<-r.Context().Done()
		})
	})
}

// The dashboard's stream is open to operators, by key or by cookie.
func TestPages_Stream(t *testing.T) {
	t.Attr("proves", "A50")
	for kind, caller := range callers {
		r := streaming(t)
		r.behind(caller)
		ctx, leave := context.WithCancel(t.Context())
		leave()
		rec := r.hold(httptest.NewRequestWithContext(ctx, "GET", streamPath+"?after=x-1", nil), "")
		if may := slices.Contains(strings.Fields(operators), kind); may != (rec.Body.String() == "after  x-1") ||
			!may && rec.Code != 401 && rec.Code != 403 {
			t.Errorf("%s: %d %s", kind, rec.Code, rec.Body)
		}
		if rec := r.do("HEAD", streamPath, ""); rec.Code != 405 {
			t.Errorf("%s, HEAD: %d", kind, rec.Code)
		}
	}
}

// The dashboard's stream counts among the streams of all changes, and frees its place at its end, also after a
// panic.
func TestPages_StreamsAreBounded(t *testing.T) {
	t.Attr("proves", "A24")
	r := streaming(t)
	a := &api{Deps: r.deps.withDefaults()}
	r.Handler = a.handler()
	a.streams.Store(maxStreams)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	wantProblem(t, r.hold(httptest.NewRequestWithContext(ctx, "GET", streamPath, nil), ""), 503, "SYSTEM_UNHEALTHY")
	a.streams.Store(maxStreams - 1)
	if rec := r.hold(httptest.NewRequestWithContext(ctx, "GET", streamPath, nil), ""); rec.Code != 200 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	a.Live = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("hunter2") })
	r.Handler = a.handler()
	wantProblem(t, r.do("GET", streamPath, ""), 500, "INTERNAL")
	if n, w := a.streams.Load(), a.waiting.Load(); n != maxStreams-1 || w != 0 {
		t.Errorf("%d streams and %d who wait are counted", n, w)
	}
}

// The dashboard's stream ends when its caller would not be let in any more as he was: when his key is revoked, or
// when an open server gets keys. It does not end before.
func TestPages_StreamEndsWithTheKey(t *testing.T) {
	t.Attr("proves", "A04")
	for name, change := range map[string]func(*doors){
		"revoked":      func(d *doors) { d.err = job.ErrUnauthorized },
		"another role": func(d *doors) { d.caller = callers["submit"] },
		"closed":       func(d *doors) { d.caller = callers["stranger"] },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := streaming(t)
			d := r.behind(callers["admin"])
			if name == "closed" {
				d = r.behind(callers["open"])
			}
			begun := time.Now()
			time.AfterFunc(31*time.Second, func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				change(d)
			})
			ctx, leave := context.WithTimeout(t.Context(), 2*time.Minute)
			defer leave()
			req := httptest.NewRequestWithContext(ctx, "GET", streamPath, nil)
			req.Header.Set("Cookie", aSession)
			rec := r.hold(req, "")
			if took := time.Since(begun); took != 45*time.Second || rec.Code != 200 {
				t.Errorf("%s: %d after %s: %q", name, rec.Code, took, rec.Body)
			}
			for _, shown := range d.shown {
				if name != "closed" && !slices.Equal(shown, []string{"session " + aLogin}) {
					t.Errorf("%s: the doors were shown %q", name, d.shown)
				}
			}
		})
	}
}

// A page calls the API in the same process, on its caller's behalf, and gets the answers that the caller would get.
func TestPages_AskAsTheirCaller(t *testing.T) {
	t.Attr("proves", "A01")
	r := newRooms(t)
	r.find = func(job.ID) (job.Job, error) { j := at(job.Completed, 1); j.Owner = theirs; return j, nil }
	r.deps.Pages = []Page{{"GET", "/poll", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked := httptest.NewRequestWithContext(q.Context(), "GET", jobKnown, nil)
		asked.Header["Cookie"], asked.Host, asked.RemoteAddr = q.Header["Cookie"], q.Host, q.RemoteAddr
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, asked)
		w.WriteHeader(rec.Code)
		_, _ = io.Copy(w, bytes.NewReader(rec.Body.Bytes()))
	})}}
	for kind, status := range map[string]int{"admin": 200, "read-only": 200, "submit": 404, "stranger": 401,
		"worker": 403} {
		d := r.behind(callers[kind])
		if rec := r.do("GET", "/poll", "", "Cookie", aSession); rec.Code != status {
			t.Errorf("%s: %d %s", kind, rec.Code, rec.Body)
		}
		d.wantShown(t, kind, []string{"session " + aLogin})
	}
}
