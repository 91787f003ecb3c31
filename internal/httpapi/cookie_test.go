package httpapi

import (
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/fuzz"
	"github.com/tierq/tierq/internal/job"
)

const (
	aKey     = "tq_aaaaaaaaaaaaaaaa_secret-1"
	aLogin   = "aaaaaaaaaaaaaaaa.secret-1"
	aSession = "tierq_session_ours=" + aLogin
	overTLS  = "__Host-" + aSession
)

// wantShown fails the test if the doors did not get these credentials with the last request.
func (d *doors) wantShown(t *testing.T, what string, want []string) {
	t.Helper()
	if len(d.shown) == 0 || !slices.Equal(d.shown[len(d.shown)-1], want) ||
		(d.shown[len(d.shown)-1] == nil) != (want == nil) {
		t.Errorf("%s: the doors were shown %q, want %q", what, d.shown, want)
	}
}

// The session cookie counts if the request comes from our own page, or its address was typed in.
func TestCookie_IsASession(t *testing.T) {
	t.Attr("proves", "A05 A45")
	ours := []string{"session " + aLogin}
	for name, c := range map[string]struct {
		headers []string
		get     []string
		changes bool // a POST is not refused by origin, and reaches the doors
	}{
		"no browser":           {[]string{"Cookie", aSession}, ours, true},
		"beside others":        {[]string{"Cookie", "theme=dark; " + aSession + "; x=y"}, ours, true},
		"in a line of its own": {[]string{"Cookie", "theme=dark", "Cookie", aSession}, ours, true},
		"our own page": {
			[]string{"Cookie", aSession, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}, ours, true,
		},
		"typed in": {
			[]string{"Cookie", aSession, "Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, ours, true,
		},
		"an old browser, our page": {[]string{"Cookie", aSession, "Origin", "http://example.com"}, ours, true},
		"a link on another port": {
			[]string{"Cookie", aSession, "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate"}, ours, false,
		},
		"what our page asks then": {[]string{"Cookie", aSession, "Sec-Fetch-Site", "same-site"}, ours, false},
		"a script on another port": {
			[]string{"Cookie", aSession, "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}, nil, false,
		},
		"an image on another port": {
			[]string{"Cookie", aSession, "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors"}, nil, false,
		},
		"another site": {
			[]string{"Cookie", aSession, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, nil, false,
		},
		"another site, old browser": {[]string{"Cookie", aSession, "Origin", "https://evil.example"}, nil, false},
		"another port, old browser": {[]string{"Cookie", aSession, "Origin", "http://example.com:9999"}, nil, false},
		"a sandboxed page":          {[]string{"Cookie", aSession, "Origin", "null"}, nil, false},
		"a word nobody knows":       {[]string{"Cookie", aSession, "Sec-Fetch-Site", "Same-Origin"}, nil, false},
		"the header goes first": {
			[]string{"Cookie", aSession, "Authorization", "Bearer x"}, []string{"Bearer x"}, true,
		},
		"though it is empty":          {[]string{"Cookie", aSession, "Authorization", ""}, []string{""}, true},
		"twice":                       {[]string{"Cookie", aSession + "; " + aSession}, nil, true},
		"twice, in two lines":         {[]string{"Cookie", aSession, "Cookie", "tierq_session_ours=other"}, nil, true},
		"quoted":                      {[]string{"Cookie", `tierq_session_ours="` + aLogin + `"`}, nil, true},
		"a key, as of older versions": {[]string{"Cookie", "tierq_key=" + aKey}, nil, true},
		"empty":                       {[]string{"Cookie", "tierq_session_ours="}, nil, true},
		"with a scheme":               {[]string{"Cookie", "tierq_session_ours=Bearer " + aLogin}, nil, true},
		"escaped":                     {[]string{"Cookie", "tierq_session_ours=aaaaaaaaaaaaaaaa%2Esecret"}, nil, true},
		"with a comma":                {[]string{"Cookie", aSession + ",x"}, nil, true},
		"too long":                    {[]string{"Cookie", "tierq_session_ours=" + strings.Repeat("a", 8<<10)}, nil, true},
		"of another server":           {[]string{"Cookie", "tierq_session_theirs=" + aLogin}, nil, true},
		"under another name": {
			[]string{"Cookie", "tierq_Session_ours=" + aLogin + "; session=" + aLogin}, nil, true,
		},
		"of TLS, without it":         {[]string{"Cookie", overTLS}, nil, true},
		"in a header of other names": {[]string{"X-Cookie", aSession, "Cookie2", aSession}, nil, true},
	} {
		r := newRooms(t)
		r.list = func(job.Filter, string, int) ([]job.Job, string, error) { return nil, "", nil }
		d := r.behind(callers["admin"])
		r.do("GET", "/api/jobs", "", c.headers...)
		d.wantShown(t, name, c.get)

		d.shown = nil
		rec := r.post("{}", c.headers...)
		if !c.changes {
			wantProblem(t, rec, 403, "FORBIDDEN")
			if d.shown != nil || r.submitted != nil {
				t.Errorf("%s: a POST got through", name)
			}
			continue
		}
		d.wantShown(t, name+", POST", c.get)
		if strings.Contains(rec.Body.String()+r.log.String(), "secret-1") {
			t.Errorf("%s: said or logged: %s %s", name, rec.Body, &r.log)
		}
	}
}

// A session has the rights of its key. A wrong session gets the same refusal as a wrong key. A session that cannot
// be looked up because the store is away does not count as wrong.
func TestCookie_AWrongOne(t *testing.T) {
	t.Attr("proves", "A04 A06")
	r := newRooms(t)
	d := r.behind(callers["submit"])
	d.err = job.ErrUnauthorized
	byHeader := wantProblem(t, r.post("{}", "Authorization", "Bearer "+aKey, "X-Trace-Id", "same"), 401, "UNAUTHORIZED")
	rec := r.post("{}", "Cookie", aSession, "X-Trace-Id", "same")
	byCookie := wantProblem(t, rec, 401, "UNAUTHORIZED")
	wantHeader(t, rec, "WWW-Authenticate", "Bearer")
	if byHeader["detail"] != byCookie["detail"] || !slices.Equal(d.shown[1], []string{"session " + aLogin}) {
		t.Errorf("%v and %v; the doors were shown %q", byHeader, byCookie, d.shown)
	}
	d.err = &refusalFor{job.ErrRateLimited, 1500 * time.Millisecond}
	rec = r.do("GET", "/api/me", "", "Cookie", aSession)
	wantProblem(t, rec, 429, "RATE_LIMITED")
	wantHeader(t, rec, "Retry-After", "2")
	d.err = job.ErrUnavailable
	wantProblem(t, r.do("GET", "/api/me", "", "Cookie", aSession), 503, "SYSTEM_UNHEALTHY")
}

// Over TLS the session is only in the cookie that no other host of the domain can set.
func TestCookie_OverTLS(t *testing.T) {
	t.Attr("proves", "A05")
	for cookie, want := range map[string][]string{
		overTLS: {"session " + aLogin}, aSession: nil, aSession + "; " + overTLS: {"session " + aLogin},
	} {
		r := newRooms(t)
		r.deps.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} // the address of httptest's requests
		d := r.behind(callers["admin"])
		r.do("GET", "/api/me", "", "Cookie", cookie, "X-Forwarded-Proto", "https")
		d.wantShown(t, cookie, want)
	}
}

// An open server ignores the cookie: browsers send cookies to every port of a host, and this one may be from
// another server.
func TestCookie_OfAnotherServer(t *testing.T) {
	r := newRooms(t)
	d := r.behind(callers["open"])
	if rec := r.post("{}", "Cookie", aSession); rec.Code != 202 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	d.wantShown(t, "an open server", nil)
}

// An operator's cookie shows the parts of health, but not if the request comes from another site.
func TestCookie_Health(t *testing.T) {
	t.Attr("proves", "A50")
	for name, c := range map[string]struct {
		headers []string
		told    bool
	}{
		"ours":      {[]string{"Cookie", aSession}, true},
		"malformed": {[]string{"Cookie", "tierq_session_ours=x y"}, false},
		"elsewhere": {[]string{"Cookie", aSession, "Sec-Fetch-Site", "cross-site"}, false},
	} {
		r := newRooms(t)
		r.behind(callers["admin"])
		rec := r.do("GET", "/actuator/health", "", c.headers...)
		if told := strings.Contains(rec.Body.String(), "components"); rec.Code != 200 || told != c.told {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
	}
}

// A form of another site is refused with the cookie just as without it.
func TestCookie_AnotherSitesForm(t *testing.T) {
	t.Attr("proves", "A45")
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate"},
		{"Origin", "https://evil.example"}, {"Origin", "null"},
	} {
		for _, route := range Routes() {
			if route.Method == http.MethodGet || route.Method == http.MethodHead {
				continue
			}
			r := newRooms(t)
			d := r.behind(callers["admin"])
			path := strings.NewReplacer(":tier", "paid", ":id", string(knownID), ":name", paidQueue).Replace(route.Path)
			rec := r.do(route.Method, path, "a=b",
				append([]string{"Cookie", aSession, "Content-Type", "application/x-www-form-urlencoded"}, headers...)...)
			wantProblem(t, rec, 403, "FORBIDDEN")
			if d.shown != nil || r.submitted != nil || len(r.told.changes) > 0 {
				t.Errorf("%s %s with %q got through", route.Method, path, headers)
			}
		}
	}
}

var sessionShaped = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// For any header Cookie, the session is read exactly as it stands there, or not at all.
func FuzzCookie(f *testing.F) {
	f.Attr("proves", "A05")
	const name = "tierq_session_ours"
	fuzz.Text(f, func(t *testing.T, text string) {
		r := &http.Request{Method: "GET", Header: http.Header{"Cookie": {text}}}
		session := sessionIn(r, name)
		// Blanks around the name are not a part of it.
		inText := regexp.MustCompile(name + `[ \t]*=[ \t]*` + regexp.QuoteMeta(session))
		if session != "" && (!sessionShaped.MatchString(session) || !inText.MatchString(text)) {
			t.Errorf("%q: %q", text, session)
		}
	}, aSession, "theme=dark; "+aSession, aSession+"; "+aSession, name+`="`+aLogin+`"`, name+"=", name, "="+name,
		name+" = "+aLogin, name+"=a\x00",
		name+"=aé", ";;; "+aSession+";", name+"=a b", "__Host-"+aSession, "tierq_key="+aKey)
}
