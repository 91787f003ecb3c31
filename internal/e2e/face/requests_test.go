package face

import (
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/testkit"
)

// mostBlocking is how many files a page waits for before it is painted: its styles and its theme.
const mostBlocking = 2

// mostRequests is how many a page may make, itself among them, until it moves. Its stream, which a worker of all tabs
// holds, comes on top.
const mostRequests = 14

func TestRequests(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := testkit.StartBrowser(t)
	for _, path := range []string{"/dashboard", "/", "/submit", "/demo",
		"/poll?jobId=" + s.submit("public", `{"delaySeconds":3600}`)} {
		tab := b.Tab(t) // with nothing in its cache
		tab.Open(s.base + path)
		if path == "/dashboard" {
			tab.WaitText("#live-text", "live", alive)
			testkit.Eventually(t, alive, "the chart is drawn", func() (bool, string) {
				var drawn int
				tab.Eval("document.querySelectorAll('.plot canvas').length", &drawn)
				return drawn >= 1, ""
			})
		}
		var blocking []string
		tab.Eval("performance.getEntriesByType('resource').filter(r => r.renderBlockingStatus === 'blocking').map(r => r.name)", &blocking)
		if len(blocking) == 0 || len(blocking) > mostBlocking {
			t.Errorf("%s is painted after %q, want %d at most", path, blocking, mostBlocking)
		}
		all := tab.Requests()
		for i, url := range all {
			all[i] = strings.TrimPrefix(url, s.base)
			if all[i] == url && !strings.HasPrefix(url, "data:") {
				t.Errorf("%s asks elsewhere: %s", path, url)
			}
		}
		t.Logf("evidence: %s makes %d requests:\n%s", path, len(all), strings.Join(all, "\n"))
		if len(all) > mostRequests {
			t.Errorf("%s makes %d requests, want %d at most", path, len(all), mostRequests)
		}
	}
}
