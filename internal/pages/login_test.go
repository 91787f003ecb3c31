package pages

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/tierq/tierq/internal/job"
)

const cookieOfAnn = shownTo + "; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"

func key(text, next string) url.Values { return url.Values{"key": {text}, "next": {next}} }

// A valid key becomes a session that no script can read and no other site can send. The key itself is not stored
// in the browser.
func TestLogin_ASessionAndNoKey(t *testing.T) {
	t.Attr("proves", "A05")
	f := newFace(t, strangerMe).say("with a key", ok(annMe))
	s := f.do("POST", "/login", key(" "+aKey+"\n", "/dashboard/dead?tier=PAID")).leads("/dashboard/dead?tier=PAID")
	if got := s.Header()["Set-Cookie"]; len(got) != 1 || got[0] != cookieOfAnn {
		t.Errorf("%q", got)
	}
	asked, _ := f.api.asked("GET", mePath)
	if last := asked[len(asked)-1]; last.Header.Get("Authorization") != "Bearer "+aKey {
		t.Error(last.Header)
	}
	if !slices.Equal(f.logins.begun, []string{aKey}) || len(f.logins.ended) > 0 {
		t.Errorf("begun with %q, ended %q", f.logins.begun, f.logins.ended)
	}
	f.say("with a key", ok(strings.Replace(annMe, `"secure":false`, `"secure":true`, 1)))
	want := "__Host-" + strings.Replace(cookieOfAnn, "; SameSite", "; Secure; SameSite", 1)
	if got := f.do("POST", "/login", key(aKey, "")).leads("/").Header().Get("Set-Cookie"); got != want {
		t.Errorf("over TLS: %q", got)
	}
	// The typed key counts, not the browser's present session, which is ended.
	f = newFace(t, strangerMe).say("with a key", ok(annMe))
	f.do("POST", "/login", key(aKey, "/"), "Cookie", ourCookie+"=other").leads("/")
	shown := 0
	for _, r := range f.api.heard {
		if r.Header.Get("Authorization") == "Bearer "+aKey {
			shown++
		}
	}
	if shown != 1 || !slices.Equal(f.logins.ended, []string{"other"}) {
		t.Errorf("the key was shown %d times, ended %q", shown, f.logins.ended)
	}
}

// The cookie of an earlier version, which held the key, is no login: the caller has to log in, and the login
// deletes the cookie.
func TestLogin_TheCookieOfAnEarlierVersion(t *testing.T) {
	f := newFace(t, strangerMe).say("with a key", ok(annMe))
	s := f.do("POST", "/login", key(aKey, "/"), "Cookie", "tierq_key="+aKey).leads("/")
	want := []string{"tierq_key=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict", cookieOfAnn}
	if got := s.Header()["Set-Cookie"]; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if len(f.logins.ended) > 0 {
		t.Errorf("ended %q", f.logins.ended)
	}
}

// A valid key without a session because the store is down gets an error that says so; a key that was revoked
// meanwhile gets that of a wrong key.
func TestLogin_NoSession(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		alert  string
	}{
		"away":    {job.ErrUnavailable, 503, "the server cannot store a session now"},
		"revoked": {job.ErrUnauthorized, 401, "This key is not valid"},
	} {
		f := newFace(t, strangerMe).say("with a key", ok(annMe))
		f.logins.err = c.err
		s := f.do("POST", "/login", key(aKey, "/dashboard"), "Cookie", shownTo).status(c.status)
		if !strings.Contains(s.alert(), c.alert) || len(s.Header()["Set-Cookie"]) > 0 || len(f.logins.ended) > 0 {
			t.Errorf("%s: %q, %q, ended %q", name, s.alert(), s.Header()["Set-Cookie"], f.logins.ended)
		}
	}
}

// The answer to a wrong key says only that, does not repeat the key, and sets no cookie.
func TestLogin_Refused(t *testing.T) {
	t.Attr("proves", "A06")
	often := problem(429, "RATE_LIMITED", "Too many requests.")
	often.header["Retry-After"] = "3"
	const wrong = "This key is not valid: it is wrong, has expired or was revoked."
	for name, c := range map[string]struct {
		api    reply
		key    string
		status int
		alert  string
	}{
		"wrong":                {problem(401, "UNAUTHORIZED", "x"), aKey, 401, wrong},
		"none":                 {ok(annMe), " ", 400, "Type a key."},
		"taken for a stranger": {ok(strangerMe), aKey, 401, wrong},
		"no key at all":        {ok(annMe), "tq_a; Domain=evil.example", 401, wrong},
		"with a line end":      {ok(annMe), "tq_a\r\nX: y", 401, wrong},
		"too long":             {ok(annMe), strings.Repeat("a", 129), 401, wrong},
		"too often":            {often, aKey, 429, "Too many requests. Try again in 3 s."},
		"away":                 {problem(503, "SYSTEM_UNHEALTHY", "x is away"), aKey, 503, "x is away"},
		"forbidden":            {problem(403, "FORBIDDEN", "no"), aKey, 403, "no"},
		"nonsense":             {ok(`[`), aKey, 500, "The server's log has the cause under this trace id."},
	} {
		f := newFace(t, strangerMe).say("with a key", c.api)
		s := f.do("POST", "/login", key(c.key, "/dashboard")).status(c.status)
		if s.alert() != c.alert || s.Header().Get("Retry-After") != c.api.header["Retry-After"] {
			t.Errorf("%s: %q, %v", name, s.alert(), s.Header())
		}
		if got := s.Header()["Set-Cookie"]; len(got) > 0 {
			t.Errorf("%s: %q", name, got)
		}
		if strings.TrimSpace(c.key) != "" && strings.Contains(s.Body.String(), c.key) {
			t.Errorf("%s: the key is on the page", name)
		}
		if next, _ := attribute(s.one("input", "name", "next"), "value"); next != "/dashboard" {
			t.Errorf("%s: next %q", name, next)
		}
	}
}

// On a server without keys there is no login.
func TestLogin_AnOpenServer(t *testing.T) {
	f := newFace(t, openMe)
	f.get("/login?next=/dashboard").leads("/dashboard")
	for name, api := range map[string]reply{"it takes any": ok(openMe),
		"it takes none": problem(401, "UNAUTHORIZED", "x")} {
		s := newFace(t, openMe).say("with a key", api).do("POST", "/login", key(aKey, "/dashboard")).leads("/dashboard")
		if got := s.Header()["Set-Cookie"]; len(got) > 0 {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A link on another site's page comes without the cookie. A caller who has one need not log in again.
func TestLogin_ALinkFromAnotherSite(t *testing.T) {
	f := newFace(t, strangerMe).say("with a key", ok(annMe))
	for site, want := range map[string]string{"cross-site": "0", "same-origin": "", "none": "", "": ""} {
		if got := f.get("/login?next=/dashboard", "Sec-Fetch-Site", site).status(200).Header().Get("Refresh"); got != want {
			t.Errorf("%q: %q", site, got)
		}
	}
	f.get("/login?next=/dashboard", "Sec-Fetch-Site", "same-origin", "Cookie", shownTo).leads("/dashboard")
}

// A caller who is logged in sees that, and can go on, or log in with another key.
func TestLogin_Already(t *testing.T) {
	f := newFace(t, annMe)
	s := f.get("/login", "Cookie", shownTo).status(200)
	s.shows(s.main(), "You are logged in already, with the key ann of the role admin. Go on , or log in with another one.")
	if to, _ := attribute(s.link("Go on"), "href"); to != "/" {
		t.Errorf("on to %q", to)
	}
	s.one("input", "name", "key")
	if s := newFace(t, strangerMe).get("/login").status(200); strings.Contains(textOf(s.main()), "logged in already") {
		t.Error("a stranger is told that he is logged in")
	}
}

// The link to the login leads back to the same page with its whole query, without the result of an earlier form.
func TestLogin_LeadsBack(t *testing.T) {
	const job, search = "/poll?jobId=" + jobID,
		"/dashboard/jobs?text=a+b%26c%3D%22d%22&tier=PAID&status=FAILED&next=//evil.example/%5C"
	f := newFace(t, strings.Replace(strangerMe, `"operator":false`, `"operator":true`, 1)).say("with a key",
		ok(annMe)).say("GET /api/jobs/"+jobID, ok(aJob("COMPLETED", ""))).
		say("GET /api/jobs", ok(`{"items":[],"next":null}`)).say("GET /admin/dead", problem(503, "SYSTEM_UNHEALTHY", "away"))
	for at, back := range map[string]string{
		"/": "/", "/submit?tier=PAID&type=SEND_EMAIL": "/submit?tier=PAID&type=SEND_EMAIL", job: job, search: search,
		"/about": "/about",
		job + "&done=The+job+is+cancelled.&trouble=x": job, "/submit?trouble=x": "/submit",
		"/login?next=" + url.QueryEscape(search):              search,
		"/dashboard/dead?tier=PAID&from=2026-05-01T00:00:00Z": "/dashboard/dead?tier=PAID&from=2026-05-01T00:00:00Z",
	} {
		link, _ := attribute(f.get(at).link("Log in"), "href")
		login, err := url.Parse(link)
		if err != nil || login.Path != "/login" || login.IsAbs() || login.Query().Get("next") != back {
			t.Errorf("%s: the link leads to %q, %v", at, link, err)
			continue
		}
		next, _ := attribute(f.get(link).status(200).one("input", "name", "next"), "value")
		f.do("POST", "/login", key(aKey, next)).leads(back)
	}
	for sent, back := range map[string]string{"/submit": "/submit", "/login": job} {
		link, _ := attribute(f.do("POST", sent, url.Values{"next": {job}}).link("Log in"), "href")
		if login, err := url.Parse(link); err != nil || login.Query().Get("next") != back {
			t.Errorf("POST %s: %q", sent, link)
		}
	}
}

// A logout ends the session in the store and deletes its cookie. If the store does not answer, the page says so.
func TestLogout(t *testing.T) {
	secureMe := strings.Replace(annMe, `"secure":false`, `"secure":true`, 1)
	for me, want := range map[string]string{
		annMe:    ourCookie + "=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict",
		secureMe: "__Host-" + ourCookie + "=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Strict",
	} {
		f := newFace(t, me)
		name, _, _ := strings.Cut(want, "=")
		s := f.do("POST", "/logout", url.Values{}, "Cookie", name+"="+aSession).leads("/")
		got := s.Header()["Set-Cookie"]
		if len(got) != 1 || got[0] != want || !slices.Equal(f.logins.ended, []string{aSession}) {
			t.Errorf("%q, ended %q", got, f.logins.ended)
		}
		f.logins.endErr = job.ErrUnavailable
		s = f.do("POST", "/logout", url.Values{}, "Cookie", name+"="+aSession).leads("/?trouble=logout_half")
		if got := s.Header()["Set-Cookie"]; len(got) != 1 || got[0] != want {
			t.Errorf("%q", got)
		}
	}
	f := newFace(t, strangerMe)
	s := f.do("POST", "/logout", url.Values{}, "Cookie", "tierq_key="+aKey).leads("/")
	got := s.Header()["Set-Cookie"]
	if len(got) != 2 || !strings.HasPrefix(got[0], "tierq_key=;") || len(f.logins.ended) > 0 {
		t.Errorf("the cookie of an earlier version: %q", got)
	}
}

// The login leads only to pages of this server.
func TestOwnPath(t *testing.T) {
	for _, next := range []string{"/", "/dashboard", "/dashboard/jobs?status=FAILED&tier=PAID", "/poll?jobId=" + jobID,
		"/dashboard/tiers/PAID", "/a:b", "/%2F",
		"/dashboard/jobs?text=http://x", `/dashboard/jobs?text=\a?//b`, "/?//evil.example", "/submit?type=/../.."} {
		if got := ownPath(next); got != next {
			t.Errorf("%q leads to %q", next, got)
		}
	}
	for _, next := range []string{
		"", "//evil.example", "///evil.example", "/\\evil.example", "\\\\evil.example", "/\\/evil.example",
		"https://evil.example/", "javascript:alert(1)", "evil.example", " /x", "/\t/evil.example",
		"/\n/evil.example", "/x\r\nSet-Cookie: a=b", "/./\n/evil.example", "/.//evil.example", "/x/..//evil.example", "/\x00",
		"/\u2028x", "/ü", "/\x7f", "/%zz", "?x", "#x", "@evil.example", "/login?next=/login",
		"/logout", "/#//evil.example", "//evil.example?/", "/\\evil.example?x=/", "?//evil.example", "/x//?a",
		"/?a=\n//evil.example", "/login?x=//", "/" + strings.Repeat("a", 2000),
	} {
		if got := ownPath(next); got != "/" {
			t.Errorf("%q leads to %q", next, got)
		}
		f := newFace(t, strangerMe).say("with a key", ok(annMe))
		if got, _ := attribute(f.get("/login?next="+url.QueryEscape(next)).status(200).one("input", "name", "next"),
			"value"); got != "/" {
			t.Errorf("%q stands in the form as %q", next, got)
		}
		f.do("POST", "/login", key(aKey, next)).leads("/")
	}
}

// A caller without a key is sent to the login, which leads back to the wanted page. A caller with a key sees that
// the key does not allow it.
func TestFail_ToTheLogin(t *testing.T) {
	f := newFace(t, strangerMe)
	for at, want := range map[string]string{
		"GET /dashboard/jobs?tier=PAID": "/dashboard/jobs?tier=PAID", "HEAD /dashboard": "/dashboard",
		"POST /dashboard/dead/requeue": "/dashboard/dead", "POST /submit": "/",
	} {
		method, target, _ := strings.Cut(at, " ")
		f.at[method+" "+strings.Split(target,
			"?")[0]] = f.pages.handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f.pages.fail(w, r, &apiError{Status: http.StatusUnauthorized})
		}))
		f.do(method, target, nil).leads("/login?next=" + url.QueryEscape(want))
	}
	f = newFace(t, annMe)
	f.at["GET /x"] = f.pages.handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.pages.fail(w, r, &apiError{Status: http.StatusUnauthorized})
	}))
	s := f.get("/x").status(http.StatusForbidden)
	s.shows(s.main(), "The key that you logged in with may not do this.")
}

// An error page reloads itself only after a GET, and only if the error may be temporary.
func TestFail_Heals(t *testing.T) {
	for at, want := range map[string]bool{"GET 503": true, "POST 503": false, "GET 500": false, "GET 429": false} {
		f := newFace(t, openMe)
		method, _, _ := strings.Cut(at, " ")
		status := http.StatusServiceUnavailable
		switch {
		case strings.HasSuffix(at, "500"):
			status = http.StatusInternalServerError
		case strings.HasSuffix(at, "429"):
			status = http.StatusTooManyRequests
		}
		f.at[method+" /x"] = f.pages.handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f.pages.fail(w, r, &apiError{Status: status, Detail: hostileText, TraceID: hostileText, RetryAfter: 7e9})
		}))
		s := f.do(method, "/x", nil).status(status)
		if got := len(s.all("", "data-heal", "")) > 0; got != want || s.Header().Get("Retry-After") != "7" {
			t.Errorf("%s: heals %v, %v", at, got, s.Header())
		}
		s.harmless()
		s.shows(s.main(), hostileText)
	}
}

// link returns the only link with a text.
func (s *sheet) link(text string) *html.Node {
	s.t.Helper()
	var found []*html.Node
	for _, a := range s.all("a", "href", "") {
		if textOf(a) == text {
			found = append(found, a)
		}
	}
	if len(found) != 1 {
		s.t.Fatalf("%d links %q: %s", len(found), text, s.Body)
	}
	return found[0]
}
