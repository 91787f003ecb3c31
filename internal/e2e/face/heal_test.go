package face

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/testkit"
)

const failing = `{"maxRetries":0,"payload":{"steps":[{"type":"FAIL"}]}}`

// feeds makes jobs die until the feed shows one of them. A feed shows only events from shortly after a page began
// to listen.
func feeds(t *testing.T, s *site, tab *testkit.Tab) (id string) {
	t.Helper()
	var died []string
	testkit.Eventually(t, alive, "the feed tells of a job that died", func() (bool, string) {
		for _, id = range died {
			if slices.Contains(fed(tab), id) {
				return true, ""
			}
		}
		id = s.submit("public", failing)
		s.await(id, "FAILED")
		died = append(died, id)
		return false, fmt.Sprint(fed(tab))
	})
	return id
}

// fed returns the ids of the jobs in the feed, from the top.
func fed(tab *testkit.Tab) (ids []string) {
	tab.Eval(`[...document.querySelectorAll("#feed a")].map(a => a.title || a.href.split("=")[1])`, &ids)
	return ids
}

// stale waits until the page says that its numbers are old.
func stale(t *testing.T, tab *testkit.Tab, why string) {
	t.Helper()
	tab.WaitText("#stale", "These numbers are old", alive)
	tab.WaitText("#stale", why, alive)
	reads(t, tab, "#live-text", "stale")
}

// fresh waits until the page no longer says that. It reads both texts in one moment, because on a busy machine the
// numbers may soon be old again.
func fresh(t *testing.T, tab *testkit.Tab) {
	t.Helper()
	testkit.Eventually(t, alive, "it is live, and does not say that it is old", func() (bool, string) {
		var now string
		tab.Eval(
			`document.getElementById("live-text").textContent + ", hidden: " + document.getElementById("stale").hidden`,
			&now,
		)
		return now == "live, hidden: true", now
	})
}

// TestHeal_TheServerRestarts stops the server while pages are open, and starts it again.
func TestHeal_TheServerRestarts(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*site){
		"in order": func(s *site) { s.stop() },
		"kill -9": func(s *site) {
			if err := s.Kill(); err != nil {
				s.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "TIERQ_WORKERS=1")
			s.tune("PAID", map[string]any{"maxProcessingTimeMs": 3600000})
			dash := testkit.StartBrowser(t).Tab(t)
			over, poll := dash.Beside(t), dash.Beside(t)
			for _, tab := range []*testkit.Tab{dash, over, poll} {
				tab.Allow("request: " + s.base)
			}
			job := s.submit("paid", `{"delaySeconds":3600}`)
			dash.Open(s.base + "/dashboard")
			over.Open(s.base + "/")
			poll.Open(s.base + "/poll?jobId=" + job)
			for _, tab := range []*testkit.Tab{dash, over, poll} {
				stays(tab)
			}
			fresh(t, dash)
			fresh(t, over)
			reads(t, poll, "#following", "following")
			before := feeds(t, s, dash)

			end(s)
			reads(t, poll, "#following", "connecting")
			stale(t, dash, "ago: the ")
			stale(t, over, "ago: the ")
			s.start()
			fresh(t, dash)
			fresh(t, over)
			reads(t, poll, "#following", "following")

			s.await(s.submit("paid", longJob), "PROCESSING")
			s.submit("public", "")
			reads(t, dash, fmt.Sprintf(ready, "PUBLIC"), "1")
			reads(t, over, fmt.Sprintf(ready, "PUBLIC"), "1")
			s.want(http.StatusOK, nil, http.MethodPost, "/api/jobs/"+job+"/cancel", "")
			poll.WaitText(".st", "CANCELLED", alive)
			for _, tab := range []*testkit.Tab{dash, over, poll} {
				stayed(t, tab)
			}
			if told := fed(dash); !slices.Contains(told, before) {
				t.Errorf("the feed has forgotten %s: %v", before, told)
			}
		})
	}
}

// TestHeal_TheFeedGoesOn breaks off the stream while the server runs on. The feed then shows the missed events
// once and in their place.
func TestHeal_TheFeedGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := count(t, s)
	tab := testkit.StartBrowser(t).Tab(t)
	tab.Allow("request: " + c.base)
	tab.Open(c.base + "/dashboard")
	stays(tab)
	first := feeds(t, s, tab)
	tab.Beside(t).Open(c.base + "/") // the address of its stream does not ask for the feed
	for _, refuse := range []int{0, http.StatusServiceUnavailable} {
		c.refuse.Store(int64(refuse)) // the browser mends a broken stream (0), the page a refused one
		c.cut()
		missed := s.submit("public", failing)
		s.await(missed, "FAILED")
		if refuse != 0 {
			testkit.Eventually(t, alive, "the stream is refused", func() (bool, string) { return c.refused.Load() > 0, "" })
		}
		c.refuse.Store(0)
		testkit.Eventually(t, alive, "the feed tells what was missed", func() (bool, string) {
			told := fed(tab)
			return slices.Contains(told, missed), fmt.Sprint(told)
		})
	}
	told := fed(tab)
	if sorted := slices.Clone(told); told[len(told)-1] > first || len(slices.Compact(sorted)) != len(told) ||
		!slices.IsSortedFunc(told, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("the feed tells something twice, or not in its order: %v", told)
	}
	// A tab that is opened later has the same events in the same order.
	beside := tab.Beside(t)
	beside.Open(c.base + "/dashboard")
	fresh(t, beside)
	if also := fed(beside); !slices.Equal(also, told) {
		t.Errorf("one tab has %v, another one %v", told, also)
	}
	stayed(t, tab)
}

// TestHeal_RedisGoesAway stops Redis while pages are open and opened. The pages load, show the outage, and recover
// by themselves when Redis is back.
func TestHeal_RedisGoesAway(t *testing.T) {
	t.Parallel()
	e := newExternal(t)
	job := e.submit("paid", `{"delaySeconds":3600}`)
	died := e.submit("public", failing)
	e.await(died, "FAILED")
	dash := testkit.StartBrowser(t).Tab(t)
	dash.Allow("request: " + e.base)
	dash.Open(e.base + "/dashboard")
	stays(dash)
	fresh(t, dash)
	if err := e.redis.Kill(); err != nil {
		t.Fatal(err)
	}
	stale(t, dash, "a store that this request needs does not answer")
	testkit.Eventually(t, alive, "the gate is closed", func() (bool, string) {
		a := e.ask(http.MethodPost, "/paid/submit", "")
		return a.status == http.StatusServiceUnavailable, a.body
	})
	dash.WaitText("#feed", "closed: ", alive)
	reads(t, dash, "#gate-word", "closed")
	reads(t, dash, "#gate-big", "closed")
	dash.WaitText("#gate-why", "errors of the store", alive)

	// opened is a page opened during the outage. Heals is the text that it shows when Redis is back.
	type opened struct{ path, says, heals string }
	pages := []opened{
		{"/", "How a job flows", ""},
		{"/submit", "The gate is closed: 3 consecutive errors", ""},
		{"/poll?jobId=" + job, "The job cannot be read now", "SCHEDULED"},
		{"/dashboard", "No numbers now", "Capacity"},
		{"/dashboard/jobs", "a store that this request needs does not answer", job[24:]},
		{"/dashboard/dead", died[24:], ""},
		{"/dashboard/tiers", "PAID", ""},
		{"/about", "", ""},
	}
	tabs := map[string]*testkit.Tab{}
	for _, p := range pages {
		tab := dash.Beside(t)
		tab.Allow("request: " + e.base)
		tab.Open(e.base + p.path)
		tab.WaitText("main", p.says, alive)
		tab.WaitText("#gate", "closed", alive)
		var why string
		tab.Eval(`document.getElementById("gate").title`, &why)
		if !strings.Contains(why, "errors of the store") {
			t.Errorf("%s: nobody says why the gate is closed", p.path)
		}
		tabs[p.path] = tab
	}
	if err := e.redis.Restart(); err != nil {
		t.Fatal(err)
	}
	fresh(t, dash)
	reads(t, dash, "#gate-big", "open")
	stayed(t, dash)
	for _, p := range pages {
		tabs[p.path].WaitText("main", p.heals, alive)
		tabs[p.path].WaitText("#gate-word", "open", alive) // the page may still be loading
	}
	if strings.Contains(tabs["/submit"].Text("main"), "closed") {
		t.Error("/submit says still that the gate is closed")
	}
	e.await(e.submit("paid", ""), "COMPLETED")
}
