package face

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/testkit"
)

// again opens a page repeatedly until an element's text contains want, because without scripts no page updates
// itself.
func again(t *testing.T, tab *testkit.Tab, url, selector, want string) {
	t.Helper()
	testkit.Eventually(t, alive, selector+" says "+want, func() (bool, string) {
		tab.Open(url)
		got := tab.Text(selector)
		return strings.Contains(got, want), got
	})
}

// at waits until the tab's address contains part.
func at(t *testing.T, tab *testkit.Tab, part string) {
	t.Helper()
	testkit.Eventually(t, alive, "the address has "+part, func() (bool, string) {
		url := tab.URL()
		return strings.Contains(url, part), url
	})
}

// plain opens a tab with scripts switched off.
func plain(t *testing.T) *testkit.Tab {
	t.Helper()
	tab := testkit.StartBrowser(t).Tab(t)
	tab.Scripts(false)
	tab.Allow(".js:  csp") // the browser's message that it does not preload a module, which cannot run
	return tab
}

// seen checks a page that has no address of its own.
func seen(t *testing.T, tab *testkit.Tab, what string) {
	t.Helper()
	tab.Scripts(true) // axe-core needs promises; the page itself has loaded without scripts
	defer tab.Scripts(false)
	for _, width := range []int{360, 1280} {
		tab.View(width, 900, width == 360)
		fits(t, tab, what, width)
		barriers(t, tab, what)
	}
}

// Without scripts a user can submit, view, cancel and requeue a job. A user who is not logged in, or has logged
// out, is sent to the login.
func TestWithoutScripts_AJob(t *testing.T) {
	t.Parallel()
	s := newKeyedSite(t, "TIERQ_WORKERS=1")
	tab := plain(t)
	tab.Allow("/login: 401 ", "/submit: 400 ")
	tab.Open(s.base + "/dashboard/tiers")
	tab.Type("#key", "tq_aaaaaaaaaaaaaaaa_B")
	tab.Press("\r")
	tab.WaitText("main > .note", "This key is not valid", alive)
	tab.Type("#key", theAdmin)
	tab.Click("main button[type=submit]")
	tab.WaitText(".who-name", "", alive)
	if tab.URL() != s.base+"/dashboard/tiers" {
		t.Errorf("the login leads to %s", tab.URL())
	}

	tab.Open(s.base + "/submit")
	tab.Click("label.t-unpaid")
	choose(t, tab, "#type", "SIMULATION")
	tab.Type("#payload", `{"steps":[{"type":"FAIL","message":"no luck"}`)
	tab.Click("#submit button[type=submit]")
	tab.WaitText(".wrong", "payload", alive)
	var tier string
	tab.Eval("document.querySelector('[name=tier]:checked').value", &tier)
	if tier != "UNPAID" {
		t.Errorf("after a refusal the tier is %s", tier)
	}
	tab.Type("#payload", `{"steps":[{"type":"FAIL","message":"no luck"}]}`)
	tab.Click("details.more summary")
	tab.Type("#maxRetries", "0")
	tab.Click("#submit button[type=submit]")
	failed := arrived(t, tab)
	again(t, tab, s.base+"/poll?jobId="+failed, ".jobhead", "FAILED")
	tab.WaitText("section[aria-labelledby=error]", "no luck", alive)
	tab.Click("form[action='/poll/requeue'] button")
	tab.WaitText("main > .note", "requeued", alive)
	again(t, tab, s.base+"/poll?jobId="+failed, ".jobhead", "life 2")

	tab.Open(s.base + "/submit")
	tab.Click("details.more summary")
	tab.Type("#delaySeconds", "3600")
	tab.Press("\r")
	scheduled := arrived(t, tab)
	tab.WaitText(".jobhead", "SCHEDULED", alive)
	tab.Click("form[action='/poll/cancel'] button")
	tab.WaitText("main > .note", "The job is cancelled", alive)
	s.await(scheduled, "CANCELLED")

	tab.Open(s.base + "/dashboard/jobs")
	choose(t, tab, "#q-status", "CANCELLED")
	tab.Click(".filters button")
	at(t, tab, "status=CANCELLED")
	tab.WaitText("tbody", scheduled[24:], alive)
	if strings.Contains(tab.Text("tbody"), failed[24:]) {
		t.Errorf("the search finds everything: %s", tab.Text("tbody"))
	}

	tab.Click("form[action='/logout'] button")
	tab.WaitText(".strip", "Log in", alive)
	tab.Open(s.base + "/dashboard")
	tab.WaitText("h1", "Log in", alive)
}

// Without scripts dead letters can be requeued: a single one, the ticked ones, and after a question all that match
// a filter.
func TestWithoutScripts_DeadLetters(t *testing.T) {
	t.Parallel()
	s := newKeyedSite(t)
	const fails = `{"maxRetries":0,"payload":{"steps":[{"type":"FAIL"}]}}`
	ids := make([]string, 6)
	for i := range ids {
		ids[i] = s.submit([]string{"paid", "unpaid"}[i%2], fails)
	}
	for _, id := range ids {
		s.await(id, "FAILED")
	}
	life := func(id string) int {
		var j struct{ Generation int }
		s.want(http.StatusOK, &j, http.MethodGet, "/api/jobs/"+id, "")
		return j.Generation
	}
	lives := func(want int, ids ...string) {
		t.Helper()
		for _, id := range ids {
			testkit.Eventually(t, alive, id+" has its next life", func() (bool, string) {
				got := life(id)
				return got == want, strconv.Itoa(got)
			})
			s.await(id, "FAILED")
		}
	}
	tab, dead := plain(t), s.base+"/dashboard/dead"
	login(tab, s, theAdmin)
	again(t, tab, dead, ".sum", "6")

	tab.Click("#requeue-selected")
	tab.WaitText("main > .note", "You selected no dead letter", alive)
	tab.Click("button[name=one][value='" + ids[0] + "']")
	tab.WaitText("main > .note", "The dead letter was requeued", alive)
	lives(2, ids[0])
	lives(1, ids[1:]...)

	again(t, tab, dead, ".sum", "6")
	tab.Click("input[name=id][value='" + ids[1] + "']")
	tab.Click("input[name=id][value='" + ids[2] + "']")
	tab.Click("#requeue-selected")
	tab.WaitText("main > .note", "Requeued 2 dead letters", alive)
	lives(2, ids[:3]...)

	again(t, tab, dead+"?tier=PAID", ".sum", "3")
	choose(t, tab, "#d-tier", "UNPAID")
	tab.Click(".filters button")
	at(t, tab, "tier=UNPAID")
	tab.WaitText(".sum", "3", alive)
	tab.Click("button[name=scope][value=all]")
	tab.WaitText("h1", "Requeue 3 dead letters?", alive)
	tab.WaitText("main", "Only tier UNPAID", alive)
	seen(t, tab, "the question")
	lives(1, ids[3], ids[5])
	tab.Click("button[name=confirmed]")
	tab.WaitText("main > .note", "Requeued 3 dead letters", alive)
	lives(2, ids[0], ids[2], ids[3], ids[5])
	lives(3, ids[1])
	lives(1, ids[4])
}

// Without scripts a plan can be changed: the page shows the differences, then stores the plan. A user whose change
// comes second is told so, and keeps the typed values.
func TestWithoutScripts_APlan(t *testing.T) {
	t.Parallel()
	s := newKeyedSite(t)
	retries := func() (plan struct{ MaxRetries, Version int }) {
		s.want(http.StatusOK, &plan, http.MethodGet, "/admin/tiers/PAID", "")
		return plan
	}
	before := retries()
	tab := plain(t)
	login(tab, s, theAdmin)
	tab.Allow("/dashboard/tiers/PAID: 400 ", "/dashboard/tiers/PAID: 412 ")
	tab.Open(s.base + "/dashboard/tiers")
	tab.Click("a[href='/dashboard/tiers/PAID']")
	tab.Type("#maxRetries", "many")
	tab.Click("#plan button[type=submit]")
	tab.WaitText(".wrong", "maxRetries", alive)
	tab.Type("#maxRetries", "7")
	tab.Click("#plan button[type=submit]")
	tab.WaitText(".diff ins", "7", alive)
	tab.WaitText(".diff del", "5", alive)
	seen(t, tab, "what changes")
	if now := retries(); now != before {
		t.Errorf("shown, not stored: %+v, before %+v", now, before)
	}
	s.tune("PAID", map[string]any{"share": 90, "maxRetries": 6})
	tab.Click("button[name=confirmed]")
	tab.WaitText("main > .note", "Another caller changed this plan", alive)
	tab.WaitText(".diff del", "6", alive)
	tab.WaitText(".diff ins", "7", alive)
	tab.Click("button[name=confirmed]")
	tab.WaitText("main > .note", "The plan is stored as version", alive)
	if now := retries(); now.MaxRetries != 7 || now.Version != before.Version+2 {
		t.Errorf("stored is %+v, before %+v", now, before)
	}
}
