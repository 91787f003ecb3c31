package httpapi

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// A server without keys answers only to names that can only mean this machine. The browser takes a page whose name
// leads here for the same origin, but it sends that name as Host.
func TestOrigin_HostOfAnOpenServer(t *testing.T) {
	t.Attr("proves", "A20")
	for host, fine := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LocalHost:1": true, "tierq.localhost": true, "127.0.0.1": true,
		"127.0.0.1:8080": true, "127.1.2.3:1": true,
		"[::1]": true, "[::1]:8080": true, "[::ffff:127.0.0.1]:80": true,
		"evil.example": false, "evil.example:8080": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"": false, "10.0.0.1": false,
		"169.254.169.254": false, "[fe80::1]": false, "0.0.0.0:8080": false, "localhost:8080:1": false, "notlocalhost": false,
		"2130706433": false,
	} {
		for _, method := range []string{"GET", "POST"} {
			r := newRooms(t)
			r.deps.Insecure = false
			r.Handler = NewHandler(r.deps)
			req := httptest.NewRequest(method, "/livez", nil)
			if method == "POST" {
				req = httptest.NewRequest(method, "/paid/submit", nil)
			}
			req.Host = host
			rec := r.hold(req, "")
			if fine && rec.Code >= 300 {
				t.Errorf("%q: %d %s", host, rec.Code, rec.Body)
			}
			if !fine {
				body := wantProblem(t, rec, 403, "FORBIDDEN")
				if detail, _ := body["detail"].(string); !strings.Contains(detail, "TIERQ_INSECURE") || r.submitted != nil {
					t.Errorf("%q: %v", host, body)
				}
			}
		}
	}
	// A proxy on this machine passes on requests from anywhere, under any name.
	for _, name := range []string{
		"X-Forwarded-For", "Forwarded", "X-Real-IP", "Via", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
		"X-Forwarded-Server",
		"X-Forwarded-Anything-Else", "CF-Connecting-IP", "CF-Ray", "True-Client-IP", "X-Client-IP",
		"X-Cluster-Client-IP", "Fastly-Client-IP",
		"X-Original-Forwarded-For", "X-Envoy-External-Address", "X-Azure-ClientIP", "X-ProxyUser-Ip", "Fly-Client-IP",
		"X-Appengine-User-IP",
		"Cloudfront-Viewer-Address", "X-Original-Host", "Proxy-Connection",
	} {
		r := newRooms(t)
		r.deps.Insecure = false
		r.Handler = NewHandler(r.deps)
		req := httptest.NewRequest("POST", "/paid/submit", nil)
		req.Host = "127.0.0.1:8080"
		req.Header.Set(name, "")
		if wantProblem(t, r.hold(req, ""), 403, "FORBIDDEN"); r.submitted != nil {
			t.Errorf("with %s: submitted", name)
		}
	}
	for name, change := range map[string]func(*rooms){
		"insecure": func(r *rooms) { r.deps.Insecure = true },
		"closed":   func(r *rooms) { r.deps.Insecure, r.deps.Doors = false, &doors{caller: callers["submit"]} },
	} {
		r := newRooms(t)
		change(r)
		r.Handler = NewHandler(r.deps)
		req := httptest.NewRequest("POST", "/paid/submit", nil)
		req.Host = "tierq.example"
		if rec := r.hold(req, ""); rec.Code != 202 {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
	}
}

// A form that a page of another site makes a browser send, or a request that looks like one, changes nothing, with
// keys and without.
func TestOrigin_AnotherSitesPage(t *testing.T) {
	t.Attr("proves", "A45")
	t.Parallel()
	for name, headers := range map[string][]string{
		"cross-site":             {"Sec-Fetch-Site", "cross-site"},
		"same-site":              {"Sec-Fetch-Site", "same-site", "Origin", "http://other.tierq"},
		"an old browser":         {"Origin", "https://evil.example"},
		"a sandboxed page":       {"Origin", "null"},
		"another port":           {"Origin", "http://tierq:9999"},
		"a name that looks like": {"Origin", "http://tierq.evil.example"},
	} {
		for kind, caller := range callers {
			for _, c := range [][2]string{
				{"POST", "/paid/submit"}, {"POST", "/public/submit/batch"}, {"POST", "/jobs"},
				{"POST", "/jobs/" + string(knownID) + "/retry"},
				{"DELETE", "/api/jobs/" + string(knownID)}, {"PUT", "/admin/tiers/PAID"}, {"POST", "/admin/consistency"},
				{"POST", "/admin/dead/requeue"},
			} {
				r := newRooms(t)
				d := r.behind(caller)
				wantProblem(t, r.do(c[0], c[1], "a=b", append([]string{"Content-Type", "text/plain"}, headers...)...), 403,
					"FORBIDDEN")
				if r.submitted != nil || d.shown != nil {
					t.Errorf("%s, %s: %s %s got through", name, kind, c[0], c[1])
				}
			}
		}
	}
	for name, headers := range map[string][]string{
		"our own page": {"Sec-Fetch-Site", "same-origin", "Origin", "http://example.com"},
		"typed in":     {"Sec-Fetch-Site", "none"}, "no browser": nil,
		"an old browser, our own page": {"Origin", "http://example.com"},
	} {
		if rec := newRooms(t).post("{}", headers...); rec.Code != 202 {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
	}
}

// No answer lets another site's page read it, and no preflight succeeds.
func TestOrigin_NobodyElseReads(t *testing.T) {
	t.Attr("proves", "A43")
	t.Parallel()
	for _, origin := range []string{"https://evil.example", "null", "http://localhost:3000", "*"} {
		for _, c := range [][2]string{
			{"GET", "/livez"}, {"GET", "/api/jobs"}, {"GET", pollKnown}, {"OPTIONS", "/paid/submit"}, {"OPTIONS", "/admin/keys"},
			{"GET", "/nowhere"}, {"POST", "/paid/submit"},
		} {
			for kind, caller := range callers {
				r := allFailing(t, job.ErrUnavailable)
				r.behind(caller)
				rec := r.do(c[0], c[1], "", "Origin", origin, "Access-Control-Request-Method", "POST",
					"Access-Control-Request-Headers", "authorization")
				for name := range rec.Header() {
					if strings.HasPrefix(name, "Access-Control-") || name == "Timing-Allow-Origin" ||
						name == "Cross-Origin-Resource-Policy" {
						t.Errorf("%s %s for %s as %s: %s: %s", c[0], c[1], origin, kind, name, rec.Header().Get(name))
					}
				}
				if c[0] == "OPTIONS" && rec.Code != 405 {
					t.Errorf("OPTIONS %s: %d", c[1], rec.Code)
				}
			}
		}
	}
}
