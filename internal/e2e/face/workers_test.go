package face

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/testkit"
)

// worker returns the name of the first worker of the site.
func (s *site) worker() (name string) {
	s.t.Helper()
	testkit.Eventually(s.t, alive, "a worker is listed", func() (bool, string) {
		var all struct{ Items []struct{ Name string } }
		s.want(http.StatusOK, &all, http.MethodGet, "/admin/workers", "")
		if len(all.Items) > 0 {
			name = all.Items[0].Name
		}
		return name != "", ""
	})
	return name
}

// Without scripts an admin quiets and resumes the worker of a process, and tells a worker of another program to end.
// A caller who may only read sees no button. The page of the question has no barrier.
func TestWithoutScripts_Workers(t *testing.T) {
	t.Parallel()
	s := newKeyedSite(t)
	own := s.worker()
	tab := plain(t)
	login(tab, s, theAdmin)
	press := func(verb, name, question string) {
		t.Helper()
		again(t, tab, s.base+"/dashboard", "#workers", name)
		tab.Click("#workers button[name=" + verb + "][value='" + name + "']")
		tab.WaitText("h1", question, alive)
	}
	press("quiet", own, "Quiet "+own+"?")
	seen(t, tab, "the question")
	tab.Click("a[href='/dashboard'].btn")
	tab.WaitText("#workers", own, alive)
	if strings.Contains(tab.Text("#workers"), "quiet") {
		t.Error("it is quiet, although that was not confirmed")
	}
	press("quiet", own, "Quiet "+own+"?")
	tab.Click("button[name=confirmed]")
	tab.WaitText("main > .note", "told to claim no more jobs", alive)
	again(t, tab, s.base+"/dashboard", "#workers", "server, quiet")
	seen(t, tab, "a quiet worker")
	waits := s.submit("paid", "")
	press("resume", own, "Resume "+own+"?")
	s.await(waits, "PENDING")
	tab.Click("button[name=confirmed]")
	tab.WaitText("main > .note", "may claim jobs again", alive)
	s.await(waits, "COMPLETED")

	s.want(http.StatusOK, nil, http.MethodPost, "/api/worker/claim",
		`{"worker":"film.1","queues":["main"],"info":{"language":"python"}}`)
	const theirs = "aaaaaaaaaaaaaaaa.film.1" // with the id of its key
	press("terminate", theirs, "Terminate "+theirs+"?")
	tab.Click("button[name=confirmed]")
	tab.WaitText("main > .note", "told to end", alive)
	again(t, tab, s.base+"/dashboard", "#workers", "own python, terminate asked")

	reader := s.as(s.newKey(`"role":"read-only"`))
	if a := reader.ask(http.MethodGet, "/dashboard", ""); a.status != http.StatusOK ||
		!strings.Contains(a.body, own) || strings.Contains(a.body, `name="quiet"`) {
		t.Errorf("a reader's dashboard: %d %s", a.status, a.body)
	}
	a := reader.ask(http.MethodPost, "/dashboard/workers", "confirmed=yes&quiet="+own, "Content-Type",
		"application/x-www-form-urlencoded")
	if a.status != http.StatusForbidden {
		t.Errorf("a reader's form: %d", a.status)
	}
}

// With scripts the row of a worker follows what is asked of it, and its buttons do too.
func TestDashboard_WorkersLive(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	own := s.worker()
	tab := testkit.StartBrowser(t).Tab(t)
	tab.Open(s.base + "/dashboard")
	tab.WaitText("#workers", own, alive)
	for _, step := range []struct{ verb, shows, button string }{
		{"quiet", "server, quiet", "Resume"}, {"resume", "server", "Quiet"},
	} {
		s.want(http.StatusOK, nil, http.MethodPost, "/admin/workers/"+own+"/"+step.verb, "")
		testkit.Eventually(t, alive, "the row shows "+step.shows, func() (bool, string) {
			var row struct{ State, Buttons string }
			tab.Eval(`(() => { const row = document.querySelector("#workers tr"); return {
				State: row.querySelector("[data-f=state]").textContent,
				Buttons: [...row.querySelectorAll("button:not([hidden])")].map((b) => b.textContent + b.value).join(),
			}; })()`, &row)
			ok := row.State == step.shows && row.Buttons == step.button+own+",Terminate"+own
			return ok, row.State + " " + row.Buttons
		})
	}
}
