package pages

import (
	"net/http/httptest"
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

func TestOverview(t *testing.T) {
	s := newFace(t, openMe).get("/").status(200)
	s.shows(s.one("div", "id", "flow"), "Capacity 1,199 of 10,000", "PAID 1,204", "Workers 3 of 16 slots",
		"Results 5,067 ended in an hour", "Dead letters 1,204")
	s.shows(s.main(), "Redis UP", "SQL UP", "gate UP", "workers 2 of 16 slots of this process are busy UP",
		"PAID 1. 5 15 s 50 s 100 % full /paid/submit", "EXPRESS 2. 1 3 s 10 s 60 % full /express/submit",
		"curl -X POST http://tierq.example:8080/paid/submit")
	if len(s.all("", "data-heal", "")) > 0 {
		t.Error("all is well, and the page tries again")
	}
	if me := strings.Replace(openMe, `"secure":false`, `"secure":true`,
		1); !strings.Contains(newFace(t, me).get("/").Body.String(), "https://tierq.example:8080/") {
		t.Error("the lines to copy do not say https")
	}
}

// A caller who may not see the figures gets the page without them, and the API is not asked for them.
func TestOverview_ForStrangers(t *testing.T) {
	for name, me := range map[string]string{"stranger": strangerMe, "submitter": submitMe} {
		f := newFace(t, me).say("GET /actuator/health", ok(`{"status":"UP"}`))
		s := f.get("/").status(200)
		s.shows(s.main(), "tierq UP", "one script of Redis for every arrow", "The plans are not known now.")
		if len(s.all("", "data-b", "")) > 0 || strings.Contains(s.Body.String(), "1,204") {
			t.Errorf("%s sees counts", name)
		}
		for _, path := range []string{"/api/stats", "/admin/tiers"} {
			if asked, _ := f.api.asked("GET", path); len(asked) > 0 {
				t.Errorf("%s: %s was asked", name, path)
			}
		}
	}
}

// The page is shown whatever is down, says so, and tries again by itself.
func TestOverview_SomethingIsDown(t *testing.T) {
	redisDown := strings.NewReplacer(`"redis":{"status":"UP"}`, `"redis":{"status":"DOWN","detail":"it does not answer"}`,
		`{"status":"UP","components"`, `{"status":"DOWN","components"`).Replace(allUp)
	sqlDown := strings.Replace(allUp, `"db":{"status":"UP"}`, `"db":{"status":"DOWN","detail":"outcomes wait"}`, 1)
	away := problem(503, "SYSTEM_UNHEALTHY", "a store that this request needs does not answer")
	for name, c := range map[string]struct {
		me            string
		health, stats reply
		says          []string
	}{
		"redis": {openMe, reply{503, redisDown, nil}, away,
			[]string{"Redis does not answer.", "Redis it does not answer DOWN", "one script of Redis for every arrow"}},
		"sql": {openMe, ok(sqlDown), ok(someStats),
			[]string{"SQL does not answer.", "SQL outcomes wait DOWN", "PAID 1,204"}},
		"redis, for all": {strangerMe, reply{503, `{"status":"DOWN"}`, nil}, away,
			[]string{"A store that this page needs does not answer.", "tierq DOWN"}},
		"the figures alone": {openMe, ok(allUp), away, []string{"a store that this request needs", "Redis UP"}},
		"too many": {openMe, problem(503, "SYSTEM_UNHEALTHY", "x"), away,
			[]string{"A store that this page needs does not answer.", "Nothing is known now."}},
		"asks too much": {openMe, ok(allUp), problem(429, "RATE_LIMITED", "Too many requests."),
			[]string{"Too many requests."}},
		"figures of no sense": {openMe, ok(allUp), ok(`{"tiers":7}`), []string{"The server's log has the cause"}},
	} {
		s := newFace(t, c.me).say("GET /actuator/health", c.health).say("GET /api/stats", c.stats).get("/").status(200)
		s.shows(s.one("body", "", ""), c.says...)
		s.shows(s.one("", "data-heal", ""), "Something is away.", "This page comes back by itself.")
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// A host that a shell would interpret is in no line to copy.
func TestBase(t *testing.T) {
	f := newFace(t, openMe)
	for host, want := range map[string]string{
		"tierq.example": "http://tierq.example", "[::1]:8080": "http://[::1]:8080", "x;rm -rf ~": "http://localhost",
		"$(id)": "http://localhost", "": "http://localhost",
	} {
		r := fromBrowser()
		r.Host = host
		if got := f.pages.base(r); got != want {
			t.Errorf("%q: %q", host, got)
		}
	}
}

func TestAbout(t *testing.T) {
	s := newFace(t, strangerMe).get("/about").status(200)
	s.shows(s.main(), "Redis decides, SQL remembers", "0.7.0", "EMBEDDED", "uPlot 1.6.32 MIT",
		"Swagger UI 5.35.0 Apache 2.0")
	vendored, err := os.ReadFile("../../web/VENDOR.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range licences[1:] { // the first is tierq's own
		name := strings.ReplaceAll(strings.ToLower(l.Name), " ", "-")
		found := false
		for line := range strings.Lines(string(vendored)) {
			found = found || strings.Contains(line, name) && strings.Contains(line, " "+l.Version+" ") &&
				strings.Contains(line, " "+l.Licence+" ")
		}
		if !found {
			t.Errorf("web/VENDOR.md has no %s %s, %s", name, l.Version, l.Licence)
		}
	}
	for _, d := range decisions {
		if file, ok := strings.CutPrefix(d.Link, repository); ok {
			if _, err := os.Stat("../../" + file); err != nil {
				t.Error(err)
			}
		}
	}
	for _, d := range documents {
		if file, ok := strings.CutPrefix(d.Href, repository); ok {
			if _, err := os.Stat("../../" + file); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestRevision(t *testing.T) {
	for want, settings := range map[string][]debug.BuildSetting{
		"":             {{Key: "vcs.modified", Value: "true"}},
		"abc":          {{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "false"}},
		"abc, changed": {{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
	} {
		if got := revisionOf(settings); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestLost(t *testing.T) {
	f := newFace(t, `{"open":true}`)
	w := httptest.NewRecorder()
	f.pages.Lost().ServeHTTP(w, httptest.NewRequest("GET", "/nowhere/<b>", nil))
	if w.Code != 404 || !strings.Contains(w.Body.String(), "This page does not exist") ||
		strings.Contains(w.Body.String(), "/<b>") || w.Header().Get("Content-Security-Policy") == "" {
		t.Errorf("%d %v\n%s", w.Code, w.Header(), w.Body)
	}
}
