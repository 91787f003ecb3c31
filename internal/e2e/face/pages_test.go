package face

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/testkit"
)

// jobs holds a job in each state that a page shows differently.
type jobs struct {
	scheduled, running, completed, failed, cancelled, flow, batch string
	told                                                          string // a job with a progress
	moving                                                        string // a flow that runs
}

func (s *site) jobs() jobs {
	s.t.Helper()
	s.tune("PAID", map[string]any{"maxProcessingTimeMs": 600000})
	j := jobs{
		scheduled: s.submit("public", `{"delaySeconds":3600}`),
		running: s.submit("paid", `{"payload":{"steps":[{"type":"LOG","message":"begins"},`+
			`{"type":"SLEEP","durationMs":300000}]}}`),
		completed: s.submit("paid", `{"payload":{"steps":[{"type":"LOG","message":"<b>a markup</b> and `+
			strings.Repeat("one-long-word", 20)+`"},{"type":"SLEEP","durationMs":5}]}}`),
		failed: s.submit("unpaid", `{"maxRetries":0,"payload":{"steps":[{"type":"FAIL","message":"`+
			strings.Repeat("broken", 30)+`"}]}}`),
		cancelled: s.submit("public", `{"delaySeconds":3600}`),
	}
	s.want(http.StatusOK, nil, http.MethodPost, "/api/jobs/"+j.cancelled+"/cancel", "")
	for id, status := range map[string]string{
		j.scheduled: "SCHEDULED", j.running: "PROCESSING", j.completed: "COMPLETED", j.failed: "FAILED",
		j.cancelled: "CANCELLED",
	} {
		s.await(id, status)
	}
	testkit.Eventually(s.t, alive, "the dead letter is listed", func() (bool, string) {
		a := s.ask(http.MethodGet, "/jobs/dead", "")
		return strings.Contains(a.body, j.failed), a.body
	})
	j.flow, j.batch, j.told, j.moving = s.flow(), s.batch(), s.told().id, s.moving()
	return j
}

// flow makes a flow that is stuck: its last job waits for a failed job.
func (s *site) flow() string {
	s.t.Helper()
	const body = `{"name":"picture 4711","jobs":{"split":{"tier":"PAID"},` +
		`"split/a-part-with-quite-a-long-name":{"after":["split"]},` +
		`"scan":{"maxRetries":0,"payload":{"steps":[{"type":"FAIL","message":"no"}]}},"mail":{"after":["scan"]},` +
		`"publish":{"after":["split/*","scan"],"onFailure":"wait"}}}`
	var made struct{ FlowID string }
	s.want(http.StatusCreated, &made, http.MethodPost, "/api/flows", body)
	testkit.Eventually(s.t, alive, "the flow is stuck", func() (bool, string) {
		a := s.ask(http.MethodGet, "/api/flows/"+made.FlowID, "")
		return strings.Contains(a.body, "STUCK"), a.body
	})
	return made.FlowID
}

// batch makes a batch that is stuck: one of its jobs failed, and its job at the end runs only when all are COMPLETED.
func (s *site) batch() string {
	s.t.Helper()
	var made struct{ BatchID string }
	s.want(http.StatusCreated, &made, http.MethodPost, "/api/batches",
		`{"name":"import 7","then":{"type":"SIMULATION","on":"succeeded"}}`)
	s.submit("public", `{"batch":"`+made.BatchID+`"}`)
	s.submit("public", `{"maxRetries":0,"payload":{"steps":[{"type":"FAIL","message":"no"}]},"batch":"`+made.BatchID+`"}`)
	s.want(http.StatusOK, nil, http.MethodPost, "/api/batches/"+made.BatchID+"/seal", "")
	testkit.Eventually(s.t, alive, "the batch is stuck", func() (bool, string) {
		a := s.ask(http.MethodGet, "/api/batches/"+made.BatchID, "")
		return strings.Contains(a.body, "STUCK"), a.body
	})
	return made.BatchID
}

// line lets a job of PUBLIC wait in the line of the key acme, which is paused.
func (s *site) line() {
	s.t.Helper()
	s.tune("PUBLIC", map[string]any{"lines": "key"})
	s.want(http.StatusOK, nil, http.MethodPut, "/admin/lines?key=acme", `{"running":2,"paused":{"reason":"a fire"}}`)
	s.await(s.submit("public", `{"key":"acme"}`), "PENDING")
}

// schedule stores a schedule of each night, runs it once and pauses it.
func (s *site) schedule() {
	s.t.Helper()
	const path = "/admin/schedules/nightly-report"
	s.want(http.StatusOK, nil, http.MethodPut, path, `{"cron":"30 2 * * *","timezone":"Europe/Berlin",`+
		`"job":{"type":"REPORT","payload":{"kind":"jobs","format":"csv"}}}`)
	s.want(http.StatusAccepted, nil, http.MethodPost, path+"/run", "")
	s.want(http.StatusOK, nil, http.MethodPost, path+"/pause", `{"reason":"a migration"}`)
}

const nobodys = "019de340-01fe-7a58-be69-567cd7d6b700"

// page is an address and its answer. Shows is a part of the text in the page's main element. Words from a list of
// options do not count, because only some browsers return them as text. Apart says that another page of the template
// does not stand for this one.
type page struct {
	path   string
	status int
	shows  string
	apart  bool
}

// pages returns all pages, as a user with all rights sees them.
func (j jobs) pages() []page {
	poll := func(id, shows string) page { return page{"/poll?jobId=" + id, http.StatusOK, shows, false} }
	return []page{
		{path: "/", status: http.StatusOK, shows: "How a job flows"},
		{path: "/submit", status: http.StatusOK, shows: "Submit a job"},
		{path: "/poll", status: http.StatusOK, shows: "Follow a job"},
		{path: "/poll?jobId=" + j.told, status: http.StatusOK, shows: "45,000 of 90,000", apart: true},
		poll(j.failed, "FAILED"), poll(j.scheduled, "SCHEDULED"), poll(j.running, "PROCESSING"),
		poll(j.completed, "COMPLETED"), poll(j.cancelled, "CANCELLED"),
		{path: "/poll?jobId=" + nobodys, status: http.StatusNotFound, shows: "There is no such job"},
		{path: "/dashboard", status: http.StatusOK, shows: "Capacity"},
		{path: "/dashboard/jobs", status: http.StatusOK, shows: j.completed[24:]},
		{path: "/dashboard/jobs?status=LOST", status: http.StatusBadRequest, shows: "status"},
		{path: "/batches", status: http.StatusOK, shows: "import 7"},
		{path: "/batches/" + j.batch, status: http.StatusOK, shows: "Requeue those that failed"},
		{path: "/flows", status: http.StatusOK, shows: "picture 4711"},
		{path: "/flows/" + j.flow, status: http.StatusOK, shows: "DEPENDENCY_FAILED"},
		{path: "/flows/" + j.moving, status: http.StatusOK, shows: "1 of 3 completed", apart: true},
		{path: "/flows/" + nobodys, status: http.StatusNotFound, shows: "This page does not exist"},
		{path: "/dashboard/dead", status: http.StatusOK, shows: j.failed[24:]},
		{path: "/dashboard/dead?tier=PAID", status: http.StatusOK, shows: "No dead letters"},
		{path: "/dashboard/tiers", status: http.StatusOK, shows: "UNPAID"},
		{path: "/dashboard/tiers/PAID", status: http.StatusOK, shows: "Show what changes"},
		{path: "/dashboard/tiers/GOLD", status: http.StatusNotFound, shows: "This page does not exist"},
		{path: "/dashboard/lines", status: http.StatusOK, shows: "acme"},
		{path: "/dashboard/schedules", status: http.StatusOK, shows: "nightly-report"},
		{path: "/dashboard/schedules/one?name=nightly-report", status: http.StatusOK, shows: "Run it now"},
		{path: "/dashboard/schedules/edit?name=nightly-report", status: http.StatusOK, shows: "Store the schedule"},
		{path: "/dashboard/schedules/new", status: http.StatusOK, shows: "New schedule"},
		{path: "/dashboard/schedules/one?name=nothing", status: http.StatusNotFound, shows: "no such schedule"},
		{path: "/dashboard/lines/key?key=acme", status: http.StatusOK, shows: "Store the limits"},
		{path: "/demo", status: http.StatusOK, shows: ""},
		{path: "/about", status: http.StatusOK, shows: ""},
		{path: "/login", status: http.StatusOK, shows: "Log in"},
	}
}

// TestPages opens every page as each kind of user: it loads without a problem and fits a narrow window. As an
// admin, who sees most of every page, it fits each window and has no barrier for disabled users.
func TestPages(t *testing.T) {
	t.Attr("proves", "S2-W1 S2-W5")
	t.Parallel()
	b := testkit.StartBrowser(t)
	t.Run("open", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		j := s.jobs()
		s.line()
		s.schedule()
		seen := of(j.pages(), "/", "/submit", "/poll", "/poll?jobId="+j.running, "/poll?jobId="+j.failed, "/dashboard",
			"/dashboard/jobs", "/dashboard/dead", "/flows", "/flows/"+j.flow,
			"/batches", "/batches/"+j.batch,
			"/dashboard/tiers", "/dashboard/tiers/PAID", "/dashboard/tiers/GOLD", "/dashboard/lines",
			"/dashboard/lines/key?key=acme", "/demo", "/about")
		// an open server has no login
		seen = append(seen, page{path: "/login", status: http.StatusOK, shows: "How a job flows"})
		look(t, s, b.Tab(t), seen, false)
	})
	t.Run("keys", func(t *testing.T) {
		t.Parallel()
		s := newKeyedSite(t)
		j, reads := s.jobs(), s.newKey(`"role":"read-only"`)
		s.line()
		s.schedule()
		t.Run("stranger", func(t *testing.T) {
			t.Parallel()
			private := page{status: http.StatusOK, shows: "With an API key"}
			var seen []page
			for _, path := range []string{"/poll?jobId=" + j.completed, "/poll?jobId=" + nobodys, "/dashboard",
				"/dashboard/dead?tier=PAID", "/dashboard/tiers/PAID"} {
				private.path = path
				seen = append(seen, private)
			}
			seen = append(seen, of(withKeys(j.pages()), "/", "/submit", "/poll", "/demo", "/about", "/login")...)
			look(t, s, b.Tab(t), seen, false)
		})
		t.Run("read-only", func(t *testing.T) {
			t.Parallel()
			seen := of(withKeys(j.pages()), "/", "/submit", "/poll?jobId="+j.running, "/poll?jobId="+j.failed, "/dashboard",
				"/dashboard/jobs", "/dashboard/dead", "/dashboard/tiers", "/dashboard/lines", "/demo")
			for _, path := range []string{"/dashboard/tiers/PAID", "/dashboard/schedules/new",
				"/dashboard/schedules/edit?name=nightly-report"} {
				seen = append(seen, page{path: path, status: http.StatusForbidden, shows: "You may not do this"})
			}
			tab := b.Tab(t)
			login(tab, s, reads)
			look(t, s, tab, seen, false)
		})
		t.Run("admin", func(t *testing.T) {
			t.Parallel()
			tab := b.Tab(t)
			login(tab, s, theAdmin)
			look(t, s, tab, withKeys(j.pages()), true)
		})
	})
}

// withKeys returns the pages of a server with keys, which has no demo.
func withKeys(all []page) []page {
	for i := range all {
		if all[i].path == "/demo" {
			all[i] = page{path: "/demo", status: http.StatusNotFound, shows: "A server with API keys has no demo"}
		}
	}
	return all
}

// of returns the pages at these addresses.
func of(all []page, paths ...string) []page {
	some := make([]page, len(paths))
	for i, path := range paths {
		some[i] = all[slices.IndexFunc(all, func(p page) bool { return p.path == path })]
	}
	return some
}

// seenOf returns what a user sees of a page.
const seenOf = `({
	status: performance.getEntriesByType("navigation")[0].responseStatus,
	live: !!document.getElementById("live"),
	text: document.querySelector("main").innerText,
})`

// look opens the pages one after the other. With closely it looks for barriers in the light and in the dark theme,
// and checks every width. The first page of a template stands for the others of it, and only the admin looks
// closely. In the long suite every user does, at every page, width and theme.
func look(t *testing.T, s *site, tab *testkit.Tab, all []page, closely bool) {
	t.Helper()
	templates := map[string]bool{}
	for _, p := range all {
		at := s.base + p.path
		if p.status >= 400 {
			tab.Allow(fmt.Sprintf("request: %s: %d ", at, p.status))
		}
		tab.View(360, 900, false)
		tab.Open(at)
		var got struct {
			Status int
			Live   bool
			Text   string
		}
		tab.Eval(seenOf, &got)
		if got.Status != p.status || !strings.Contains(got.Text, p.shows) {
			t.Errorf("%s: %d, want %d with %q: %s", p.path, got.Status, p.status, p.shows, got.Text)
		}
		if got.Live {
			tab.WaitText("#live-text", "live", alive)
		}
		widths, first := []int{360}, p.apart || !templates[p.template()]
		templates[p.template()] = true
		if closely || everything {
			widths = []int{360, 1280, 2560}
		}
		axe := everything || first && (closely || p.path == "/login" && p.shows == "Log in") // no admin sees its form
		if axe {
			barriers(t, tab, p.path)
		}
		for i, width := range widths {
			for _, dark := range []bool{i%2 == 0, i%2 == 1} {
				if dark == (i%2 == 0) || everything { // the theme does not change a page's width
					tab.View(width, 900, dark)
					fits(t, tab, p.path, width)
				}
			}
		}
		if axe {
			tab.View(1280, 900, true)
			barriers(t, tab, p.path+" in the dark")
		}
	}
}

// template returns the common part of the addresses that one template serves.
func (p page) template() string {
	path, query, _ := strings.Cut(p.path, "?")
	name, _, _ := strings.Cut(query, "=")
	if name == "jobId" {
		return path + " of a job"
	}
	return path
}

func barriers(t *testing.T, tab *testkit.Tab, what string) {
	t.Helper()
	for _, f := range tab.Axe(t) {
		t.Errorf("%s: %v", what, f)
	}
}

// fits checks that the page needs no horizontal scrolling. Charts are drawn again after the window has changed.
func fits(t *testing.T, tab user, path string, width int) {
	t.Helper()
	const wide = `(root => ({inner: innerWidth, scroll: root.scrollWidth, out: root.scrollWidth <= innerWidth ? "" :
		[...document.body.querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > innerWidth).map(e => e.tagName + "." + e.getAttribute("class")).slice(0, 8).join(" ")
	}))(document.documentElement)`
	var got struct {
		Inner, Scroll int
		Out           string
	}
	testkit.Eventually(t, alive, fmt.Sprintf("%s fits a window %d wide", path, width), func() (bool, string) {
		tab.Eval(wide, &got)
		return got.Inner == width && got.Scroll <= width, fmt.Sprintf("%+v", got)
	})
}
