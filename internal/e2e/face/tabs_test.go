package face

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// counter is a proxy in front of a site that counts the streams.
type counter struct {
	base            string
	live, jobs, all atomic.Int64 // of the dashboard now, of jobs now, of the dashboard ever
	// refuse is the status with which the dashboard's streams are refused, 0 = they are not. refused counts the
	// refusals.
	refuse, refused atomic.Int64
	cut             func() // breaks off all open streams
}

func count(t testing.TB, s *site) *counter {
	t.Helper()
	to, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	// The proxy adds no headers, because an open server refuses requests through a proxy.
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}}
	c := &counter{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/dashboard/stream" && c.refuse.Load() != 0:
			c.refused.Add(1)
			w.WriteHeader(int(c.refuse.Load()))
			return
		case r.URL.Path == "/dashboard/stream":
			c.all.Add(1)
			c.live.Add(1)
			defer c.live.Add(-1)
		case strings.HasSuffix(r.URL.Path, "/events"):
			c.jobs.Add(1)
			defer c.jobs.Add(-1)
		}
		proxy.ServeHTTP(w, r)
	}))
	c.base, c.cut = server.URL, server.CloseClientConnections
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return c
}

// busy starts a site whose only worker is occupied, so that submitted jobs wait.
func busy(t *testing.T) *site {
	t.Helper()
	s := newSite(t, "TIERQ_WORKERS=1")
	s.tune("PAID", map[string]any{"maxProcessingTimeMs": 3600000})
	s.await(s.submit("paid", longJob), "PROCESSING")
	return s
}

// lookAt returns the page of the nth tab. All these pages use the stream; most are the one that is cheaper for the
// browser.
func lookAt(n int) string {
	if n%5 == 0 {
		return "/dashboard"
	}
	return "/"
}

// TestTabs_ShareOneStream opens more dashboards in one browser than HTTP/1.1 has connections, and all of them are
// live.
func TestTabs_ShareOneStream(t *testing.T) {
	unlessTheyTakeTheMachine(t)
	tab := testkit.StartBrowser(t).Tab(t)
	shareOneStream(t, busy(t), tab, func() user { return tab.Beside(t) }, manyTabs)
}

func shareOneStream(t *testing.T, s *site, tab user, another func() user, many int) {
	t.Helper()
	c := count(t, s)
	tabs := []user{tab}
	tab.Open(c.base + "/dashboard")
	for len(tabs) < many {
		beside := another()
		beside.Open(c.base + lookAt(len(tabs)))
		tabs = append(tabs, beside)
	}
	allMove(t, s, 1, tabs)
	if now, ever := c.live.Load(), c.all.Load(); now != 1 || ever != 1 {
		t.Errorf("%d tabs have %d streams, and had %d", many, now, ever)
	}
	// The tab that opened the stream leaves, and the others go on. The last one ends the stream.
	tab.Open(c.base + "/livez")
	allMove(t, s, 2, tabs[1:])
	if now, ever := c.live.Load(), c.all.Load(); now != 1 || ever != 1 {
		t.Errorf("one left, and there are %d streams, and were %d", now, ever)
	}
	for _, other := range tabs[1:] {
		other.Open(c.base + "/livez")
	}
	// A tab that leaves sends a message. If a busy browser loses the message, the tab's silence ends the stream after
	// 200 to 230 s.
	testkit.Eventually(t, 4*time.Minute, "the stream ends", func() (bool, string) {
		live := c.live.Load()
		return live == 0, fmt.Sprint(live)
	})
}

// unlessTheyTakeTheMachine lets other tests run at the same time. The twenty tabs of the long suite run alone.
func unlessTheyTakeTheMachine(t *testing.T) {
	if !everything {
		t.Parallel()
	}
}

// TestTabs_OfTwentyBrowsers opens dashboards in browsers that share nothing: twenty in the long suite, otherwise
// three.
func TestTabs_OfTwentyBrowsers(t *testing.T) {
	unlessTheyTakeTheMachine(t)
	s := busy(t)
	c := count(t, s)
	var tabs []user
	for i := range manyBrowsers {
		tab := testkit.StartBrowser(t).Tab(t)
		tab.Open(c.base + lookAt(i))
		tabs = append(tabs, tab)
	}
	allMove(t, s, 1, tabs)
	if now := c.live.Load(); now != manyBrowsers {
		t.Errorf("%d browsers have %d streams", manyBrowsers, now)
	}
}

// allMove submits a job, the nth that waits, and checks that every tab shows it.
func allMove(t *testing.T, s *site, n int, tabs []user) {
	t.Helper()
	s.submit("public", "")
	for _, tab := range tabs {
		reads(t, tab, fmt.Sprintf(ready, "PUBLIC"), fmt.Sprint(n))
		reads(t, tab, "#live-text", "live")
	}
}

const hide = `Object.defineProperty(document, "hidden", {value: %t, configurable: true}); ` +
	`document.dispatchEvent(new Event("visibilitychange"))`

// TestTabs_ManyJobs opens more jobs' pages than there are connections, as a user who looks at one of them at a
// time. (Headless tabs are never hidden by themselves, so the test simulates that.)
func TestTabs_ManyJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := count(t, s)
	tab := testkit.StartBrowser(t).Tab(t)
	var tabs []*testkit.Tab
	var ids []string
	for i := range 8 {
		if i == 0 {
			tabs = append(tabs, tab)
		} else {
			tabs = append(tabs, tab.Beside(t))
		}
		ids = append(ids, s.submit("paid", `{"delaySeconds":3600}`))
		tabs[i].Open(c.base + "/poll?jobId=" + ids[i])
		reads(t, tabs[i], "#following", "following")
		if i > 0 {
			tabs[i-1].Eval(fmt.Sprintf(hide, true), nil)
		}
	}
	testkit.Eventually(t, alive, "one is followed",
		func() (bool, string) { return c.jobs.Load() == 1, fmt.Sprint(c.jobs.Load()) })
	s.want(http.StatusOK, nil, http.MethodPost, "/api/jobs/"+ids[0]+"/cancel", "")
	tabs[0].Eval(fmt.Sprintf(hide, false), nil)
	tabs[0].WaitText(".st", "CANCELLED", alive)
}
