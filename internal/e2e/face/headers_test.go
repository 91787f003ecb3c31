package face

import (
	"context"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// call is one request and the expected headers of its answer.
type call struct {
	method, path, body string
	header             []string
	status             int
	keep               string // Cache-Control
}

const (
	never   = "private, no-store"
	forever = "public, max-age=31536000, immutable"
	noStore = "no-store"
	noCache = "no-cache"
)

// Every page, error, redirect, file and stream has the headers of security: no foreign script runs, no foreign
// page shows it in a frame, its content type is not guessed, and no cache stores private content.
func TestServedHeaders(t *testing.T) {
	t.Attr("proves", "A44")
	t.Parallel()
	s := newKeyedSite(t)
	j := s.jobs()
	s.schedule()
	reads := s.newKey(`"role":"read-only"`)
	form, nobody := []string{"Content-Type", "application/x-www-form-urlencoded"},
		[]string{"Authorization", "Bearer tq_aaaaaaaaaaaaaaaa_B"}
	var all []call
	for _, p := range withKeys(j.pages()) {
		all = append(all, call{http.MethodGet, p.path, "", nil, p.status, never},
			call{http.MethodHead, p.path, "", nil, p.status, never})
	}
	all = append(all,
		call{http.MethodGet, "/dashboard/tiers/PAID", "", []string{"Authorization", "Bearer " + reads}, http.StatusForbidden,
			never},
		call{http.MethodGet, "/poll?jobId=" + j.failed, "", []string{"Authorization", ""}, http.StatusSeeOther, never},
		call{http.MethodPost, "/submit", "tier=GOLD", form, http.StatusNotFound, never},
		call{http.MethodPost, "/submit", "payload=" + strings.Repeat("x", 3<<20), form, http.StatusRequestEntityTooLarge,
			never},
		call{http.MethodPost, "/submit", "tier=PUBLIC", append([]string{"Sec-Fetch-Site", "cross-site"}, form...),
			http.StatusForbidden, noStore},
		call{http.MethodPost, "/submit", "tier=PUBLIC&delaySeconds=3600", form, http.StatusSeeOther, never},
		call{http.MethodPost, "/login", "key=tq_wrong", form, http.StatusUnauthorized, never},
		call{http.MethodPost, "/logout", "", form, http.StatusSeeOther, never},
		call{http.MethodPost, "/poll/cancel", "jobId=" + j.failed, form, http.StatusSeeOther, never},
		call{http.MethodPost, "/dashboard/dead/requeue", "scope=all", form, http.StatusOK, never},
		call{http.MethodPost, "/dashboard/tiers/PAID", "priority=x", form, http.StatusBadRequest, never},
		call{http.MethodGet, "/nowhere", "", nil, http.StatusNotFound, noStore},
		call{http.MethodGet, "/nowhere", "", []string{"Accept", "text/html"}, http.StatusNotFound, never},
		call{http.MethodHead, "/nowhere", "", []string{"Accept", "text/html"}, http.StatusNotFound, never},
		call{http.MethodGet, "/static/", "", nil, http.StatusNotFound, noStore},
		call{http.MethodPut, "/about", "", nil, http.StatusMethodNotAllowed, noStore},
		call{http.MethodGet, "/dashboard", "", nobody, http.StatusSeeOther, never},
		call{http.MethodPost, "/demo/play", "scenario=none", form, http.StatusNotFound, ""},
		call{http.MethodGet, "/api/me", "", nil, http.StatusOK, noStore},
		call{http.MethodGet, "/api/stats/series", "", nil, http.StatusOK, noStore},
		call{http.MethodGet, "/dashboard/stream", "", nil, http.StatusOK, noCache},
		call{http.MethodGet, "/dashboard/stream", "", []string{"Authorization", ""}, http.StatusUnauthorized, noStore},
		call{http.MethodGet, "/api/jobs/" + j.running + "/events", "", nil, http.StatusOK, ""},
		call{http.MethodGet, "/api/events", "", nil, http.StatusOK, ""},
		call{http.MethodGet, "/demo/events", "", nil, http.StatusNotFound, never},
	)
	files := s.files(j.pages())
	if len(files) < 15 {
		t.Errorf("the pages name %d files: %q", len(files), files)
	}
	for _, f := range files {
		all = append(all, call{http.MethodGet, f, "", nil, http.StatusOK, forever})
	}
	for _, c := range all {
		c.judge(t, s.head(&c))
	}
}

// head returns an answer without its body, because a stream's body never ends.
func (s *site) head(c *call) *http.Response {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), alive)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, c.method, s.base+c.path, strings.NewReader(c.body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	for i := 0; i+1 < len(c.header); i += 2 {
		req.Header.Set(c.header[i], c.header[i+1])
	}
	if req.Header.Get("Authorization") == "" {
		req.Header.Del("Authorization")
	}
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp
}

func (c *call) judge(t *testing.T, resp *http.Response) {
	t.Helper()
	what, h := c.method+" "+c.path, resp.Header
	wrong := func(name string) { t.Errorf("%s: %d: %s is %q", what, resp.StatusCode, name, h[name]) }
	if resp.StatusCode != c.status {
		t.Errorf("%s: %d, want %d", what, resp.StatusCode, c.status)
	}
	policy := h.Get("Content-Security-Policy")
	if len(h["Content-Security-Policy"]) != 1 || strings.Contains(policy, "unsafe-") || strings.Contains(policy, "*") ||
		!strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") {
		wrong("Content-Security-Policy")
	}
	if kind := h.Get("Content-Type"); strings.HasPrefix(kind, "text/html") &&
		(!strings.Contains(policy, "script-src 'self';") || !strings.Contains(policy, "form-action 'self'")) {
		wrong("Content-Security-Policy")
	}
	if h.Get("X-Content-Type-Options") != "nosniff" {
		wrong("X-Content-Type-Options")
	}
	if h.Get("X-Frame-Options") != "DENY" {
		wrong("X-Frame-Options")
	}
	if p := h.Get("Referrer-Policy"); p != "no-referrer" && p != "same-origin" {
		wrong("Referrer-Policy")
	}
	if kept := h.Get("Cache-Control"); kept != c.keep &&
		(c.keep != "" || !slices.Contains([]string{never, noStore, noCache}, kept)) {
		wrong("Cache-Control")
	}
}

var (
	named    = regexp.MustCompile(`"(/static/[^"]+)"`)
	imported = regexp.MustCompile(`from "\./([^"]+)"`)
)

// files returns all static files that the pages name, and the files that those import.
func (s *site) files(pages []page) (all []string) {
	s.t.Helper()
	var unread []string
	add := func(file string) {
		if slices.Contains(all, file) {
			return
		}
		all, unread = append(all, file), append(unread, file)
	}
	for _, p := range pages {
		for _, m := range named.FindAllStringSubmatch(s.ask(http.MethodGet, p.path, "").body, -1) {
			add(m[1])
		}
	}
	for len(unread) > 0 {
		file := unread[0]
		unread = unread[1:]
		for _, m := range imported.FindAllStringSubmatch(s.ask(http.MethodGet, file, "").body, -1) {
			add(path.Join(path.Dir(file), m[1]))
		}
	}
	return all
}
