package face

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/testkit"
)

var (
	addressLine = regexp.MustCompile(`^  (/\S*):`)
	methodLine  = regexp.MustCompile(`^    (post|put|delete|patch):`)
	// what changes by itself: when a key was used, and counts, which lag by a second
	lastUse = regexp.MustCompile(`"(lastUsedAt|ready|scheduled|running)":[^,}]*`)
)

// changing returns all addresses that change something, "POST /x": those in the API's description, and those of
// the pages.
func (s *site) changing(living, failed string) (all []string) {
	s.t.Helper()
	path := ""
	for line := range strings.SplitSeq(s.ask(http.MethodGet, "/openapi.yaml", "").body, "\n") {
		if line == "webhooks:" {
			break // the receivers' part: the server calls those, it does not serve them
		}
		if m := addressLine.FindStringSubmatch(line); m != nil {
			path = m[1]
		}
		if m := methodLine.FindStringSubmatch(line); m != nil {
			to := strings.NewReplacer("/{tier}/", "/paid/", "{tier}", "PUBLIC", "{name}", "main").Replace(path)
			switch {
			case strings.Contains(to, "keys/{id}"):
				to = strings.ReplaceAll(to, "{id}", "aaaaaaaaaaaaaaaa")
			case strings.HasSuffix(to, "/retry"), strings.HasSuffix(to, "/resubmit"):
				to = strings.ReplaceAll(to, "{id}", failed)
			}
			all = append(all, strings.ToUpper(m[1])+" "+strings.ReplaceAll(to, "{id}", living))
		}
	}
	if len(all) < 15 {
		s.t.Fatalf("the API's addresses: %v", all)
	}
	for _, path := range []string{"/submit", "/poll/cancel", "/poll/requeue", "/login", "/logout",
		"/dashboard/dead/requeue", "/dashboard/tiers/PUBLIC",
		"/dashboard/lines/key", "/dashboard/schedules/one", "/dashboard/schedules/edit", "/dashboard/workers", "/demo/play"} {
		all = append(all, http.MethodPost+" "+path)
	}
	return all
}

// state returns everything that the other site's page tries to change.
func (s *site) state() string {
	s.t.Helper()
	var b strings.Builder
	for _, path := range []string{"/admin/jobs?limit=100", "/admin/dead?limit=100", "/admin/tiers", "/admin/keys",
		"/admin/queues", "/admin/lines?key=", "/admin/schedules"} {
		b.WriteString(lastUse.ReplaceAllString(s.ask(http.MethodGet, path, "").body, "") + "\n")
	}
	return b.String()
}

// TestFace_AnotherSitesPage opens pages of other origins in the browser of a logged-in user, and of a user of an
// open server. One origin is another port of the same host, to which browsers send the same cookie; the other is
// another name. The pages send requests to every address that changes something, and none has an effect.
func TestFace_AnotherSitesPage(t *testing.T) {
	t.Attr("proves", "A45")
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><link rel="icon" href="data:,"><title>win a prize</title>`))
	}))
	t.Cleanup(other.Close)
	origins := []string{other.URL, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)}
	for name, begin := range map[string]func() *site{
		"with a key": func() *site { return newKeyedSite(t) },
		"open":       func() *site { return newSite(t) },
	} {
		t.Run(name, func(t *testing.T) {
			s := begin()
			living, failed := s.submit("paid", `{"delaySeconds":3600}`), s.submit("public", failing)
			s.await(failed, "FAILED")
			testkit.Eventually(t, alive, "the dead letter is listed", func() (bool, string) {
				a := s.ask(http.MethodGet, "/jobs/dead", "")
				return strings.Contains(a.body, failed), a.body
			})
			tab := testkit.StartBrowser(t).Tab(t)
			tab.Allow("request: "+s.base, "blocked by CORS policy")
			if s.key != "" {
				login(tab, s, s.key)
			}
			before, all := s.state(), s.changing(living, failed)
			for _, origin := range origins {
				tab.Open(origin)
				attack(t, tab, s.base, all, living, failed)
				for _, form := range [][]string{
					{"/poll/cancel", "jobId", living}, {"/poll/requeue", "jobId", failed}, {"/logout", "", ""},
					{"/login", "key", theAdmin},
					{"/submit", "tier", "PAID", "type", "SIMULATION"},
					{"/dashboard/dead/requeue", "scope", "all", "expected", "1", "confirmed", "yes"},
					{"/dashboard/workers", "confirmed", "yes", "quiet", s.worker()},
					{"/dashboard/lines/key", "key", "", "version", "0", "do", "store", "weight", "9"},
					{"/dashboard/schedules/edit", "name", "theirs", "version", "0", "do", "store", "everySeconds", "60",
						"type", "SIMULATION", "overlap", "skip", "catchUp", "last", "tier", "PUBLIC"},
					{"/dashboard/tiers/PUBLIC", "confirmed", "yes", "version", "1", "maxRetries", "9"},
				} {
					tab.Open(origin)
					send(t, tab, s.base+form[0], form[1:]...)
					var status int
					if tab.Eval(`performance.getEntriesByType("navigation")[0].responseStatus`,
						&status); status != http.StatusForbidden {
						t.Errorf("a form from %s to %s: %d", origin, form[0], status)
					}
				}
			}
			if after := s.state(); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
			tab.Open(s.base + "/poll?jobId=" + living)
			if s.key != "" {
				tab.WaitText(".who-name", "", alive) // still logged in
			}
			send(t, tab, "/poll/cancel", "jobId", living) // the site's own page may do this
			s.await(living, "CANCELLED")
		})
	}
}

// attack makes the page in the tab send requests to all of the addresses. The server must refuse each.
func attack(t *testing.T, tab *testkit.Tab, base string, all []string, living, failed string) {
	t.Helper()
	list, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	bodies, err := json.Marshal(map[string]string{
		"text/plain": `{"limit":100,"tier":"PAID"}`,
		"application/x-www-form-urlencoded": "jobId=" + living + "&one=" + failed +
			"&scope=all&tier=PAID&type=SIMULATION&scenario=happy",
		"": "",
	})
	if err != nil {
		t.Fatal(err)
	}
	begun := len(tab.Problems())
	tab.Eval(fmt.Sprintf(`(async (base, all, bodies) => {
		for (const one of all) {
			const [method, path] = one.split(" ");
			for (const [type, body] of Object.entries(bodies)) {
				const options = { method, credentials: "include", body, headers: type ? { "Content-Type": type } : {}, mode: method === "POST" ? "no-cors" : "cors" };
				try { await fetch(base + path, options); } catch { /* as it should be */ }
			}
		}
	})(%q, %s, %s)`, base, list, bodies), nil)
	refused := map[string]int{}
	for _, p := range tab.Problems()[begun:] {
		if rest, ok := strings.CutPrefix(p, "request: "+base); ok {
			path, why, _ := strings.Cut(rest, ": ")
			if strings.HasPrefix(why, "403") {
				refused[path]++
			}
		}
	}
	for _, one := range all {
		if method, path, _ := strings.Cut(one, " "); method == http.MethodPost && refused[path] != 3 {
			t.Errorf("%s: refused %d times of 3", one, refused[path])
		}
	}
}
