package face

import (
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/testkit"
)

// mostBlocking is the number of files that a page needs before it is painted: its styles and its theme.
const mostBlocking = 2

// mostRequests is the limit of a page's requests, including the page itself, until it is live. The stream, which a
// worker holds for all tabs, is not counted.
const mostRequests = 14

func TestRequests(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := testkit.StartBrowser(t)
	for _, path := range []string{"/dashboard", "/", "/submit", "/demo",
		"/poll?jobId=" + s.submit("public", `{"delaySeconds":3600}`)} {
		tab := b.Tab(t) // with an empty cache
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
