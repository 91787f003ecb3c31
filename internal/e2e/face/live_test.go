package face

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/testkit"
)

const (
	longJob = `{"payload":{"steps":[{"type":"SLEEP","durationMs":600000}]}}`
	ready   = `[data-b="tiers.%s.depth"]`
	running = `[data-b="tiers.%s.inFlight"]`
)

// reads waits until an element's text is exactly want.
func reads(t *testing.T, tab user, selector, want string) {
	t.Helper()
	testkit.Eventually(t, alive, selector+" says "+want, func() (bool, string) {
		got := tab.Text(selector)
		return got == want, got
	})
}

// stays marks a page that must not be reloaded; stayed checks the mark.
func stays(tab user) { tab.Eval("globalThis.stayed = 1", nil) }

func stayed(t *testing.T, tab user) {
	t.Helper()
	var there bool
	if tab.Eval("globalThis.stayed === 1", &there); !there {
		t.Error("the page was loaded anew")
	}
}

// TestDashboard_Live checks numbers, rows and countdowns that change by themselves, and that the page pauses them
// on request.
func TestDashboard_Live(t *testing.T) {
	t.Attr("proves", "S4-W1")
	t.Parallel()
	tab := testkit.StartBrowser(t).Tab(t)
	dashboardLive(t, newSite(t), tab, func() user { return tab.Beside(t) })
}

func dashboardLive(t *testing.T, s *site, tab user, another func() user) {
	t.Helper()
	s.tune("PAID", map[string]any{"maxProcessingTimeMs": 3600000})
	tab.Open(s.base + "/dashboard")
	reads(t, tab, "#live-text", "live")
	tab.WaitText("#leases-none", "Nothing runs", alive)
	stays(tab)

	for range 6 {
		s.submit("paid", longJob)
	}
	reads(t, tab, fmt.Sprintf(running, "PAID"), "4")
	reads(t, tab, fmt.Sprintf(ready, "PAID"), "2")
	reads(t, tab, `[data-b="slots.running"]`, "4")
	testkit.Eventually(t, alive, "four leases are shown", func() (bool, string) {
		var rows int
		tab.Eval(`[...document.querySelectorAll("#leases tr")].filter(r => `+
			`r.querySelector("a").href.endsWith(r.dataset.key)).length`, &rows)
		return rows == 4, fmt.Sprint(rows)
	})
	before := tab.Text(`#leases [data-f="elapsed"]`)
	testkit.Eventually(t, alive, "the leases' time runs", func() (bool, string) {
		now := tab.Text(`#leases [data-f="elapsed"]`)
		return now != before, now
	})
	var width int
	if tab.Eval(`document.querySelector('#capsegs [data-tier="PAID"]').width.baseVal.value > 0 ? 1 : 0`,
		&width); width != 1 {
		t.Error("the capacity's bar shows nothing of PAID")
	}

	// The first tab gets every event that another tab of this browser gets.
	beside := another()
	beside.Open(s.base + "/dashboard")
	reads(t, beside, "#live-text", "live")
	public, waiting := fmt.Sprintf(ready, "PUBLIC"), 0
	for name, toggle := range map[string]func(){"the key r": func() { tab.Press("r") },
		"the button": func() { tab.Click("#live") }} {
		t.Log(name)
		toggle()
		reads(t, tab, "#live-text", "paused")
		was := tab.Text(public)
		for range 2 {
			s.submit("public", longJob)
			waiting++
			reads(t, beside, public, fmt.Sprint(waiting))
		}
		if now := tab.Text(public); now != was {
			t.Errorf("paused, and %s became %s", was, now)
		}
		toggle()
		reads(t, tab, "#live-text", "live")
		reads(t, tab, public, fmt.Sprint(waiting))
	}
	stayed(t, tab)
}

// drawn counts the pixels of a chart that have the colour of a tier's line, or of the area below it.
const drawn = `(([box, tier]) => {
	const probe = document.createElement("i");
	document.body.append(probe);
	probe.style.color = "var(--" + tier + ")";
	const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
	probe.remove();
	const c = document.querySelector(box + " canvas");
	if (!c) return 0;
	const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
	let n = 0;
	for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 20 && Math.abs(d[i] - r) + Math.abs(d[i + 1] - g) + Math.abs(d[i + 2] - b) < 40) n++;
	return n;
})(%s)`

// TestDashboard_Charts checks the charts' lines in each window of time.
func TestDashboard_Charts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	// The jobs are enough to be visible in a bucket of a day.
	many := strings.Repeat(`{"payload":{"steps":[{"type":"SLEEP","durationMs":1}]}},`, 1000)
	var batch struct {
		Data []struct{ JobID, ErrorCode string } `json:"apiResponseData"`
	}
	s.want(http.StatusAccepted, &batch, http.MethodPost, "/paid/submit/batch", "["+strings.TrimSuffix(many, ",")+"]")
	accepted, doubted := 0, 0 // a busy machine may refuse some jobs, and lose the answer about others
	for _, j := range batch.Data {
		switch {
		case j.JobID != "" && j.ErrorCode == "":
			accepted++
		case j.ErrorCode == "OUTCOME_UNKNOWN":
			doubted++
		}
	}
	if accepted == 0 {
		t.Fatal("no job was accepted")
	}
	for _, window := range []string{"5m", "1h", "24h"} {
		testkit.Eventually(t, 3*alive, "the jobs are counted", func() (bool, string) {
			var series struct {
				Tiers []struct {
					Tier      string
					Completed []int
				}
			}
			s.want(http.StatusOK, &series, http.MethodGet, "/api/stats/series?window="+window, "")
			ended := 0
			for _, n := range series.Tiers[0].Completed {
				ended += n
			}
			all := ended >= accepted && ended <= accepted+doubted
			return series.Tiers[0].Tier == "PAID" && all, fmt.Sprintf("%d of %d, %d in doubt", ended, accepted, doubted)
		})
	}
	tab := testkit.StartBrowser(t).Tab(t)
	tab.Open(s.base + "/dashboard")
	seen := map[string]string{}
	for _, window := range []string{"5m", "1h", "24h"} {
		tab.Click(fmt.Sprintf("[data-window=%q]", window))
		reads(t, tab, `#window [aria-pressed="true"]`, map[string]string{"5m": "5 min", "1h": "1 h", "24h": "24 h"}[window])
		testkit.Eventually(t, alive, "both charts of "+window+" are drawn", func() (bool, string) {
			asked := strings.Contains(strings.Join(tab.Requests(), " "), "/api/stats/series?window="+window)
			var rate, wait int
			tab.Eval(fmt.Sprintf(drawn, `["#chart-rate", "paid"]`), &rate)
			tab.Eval(fmt.Sprintf(drawn, `["#chart-wait", "paid"]`), &wait)
			var picture string
			tab.Eval(
				`document.querySelector("#chart-rate canvas")?.toDataURL() ?? ""`,
				&picture,
			) // empty before the first figures
			for other, of := range seen {
				if of == picture {
					return false, "as " + other
				}
			}
			ok := asked && rate > 0 && wait > 0
			if ok {
				seen[window] = picture
			}
			return ok, fmt.Sprint(asked, rate, wait)
		})
	}
	tab.Click(`[data-p="p99"]`)
	reads(t, tab, `#percentile [aria-pressed="true"]`, "p99")
}
