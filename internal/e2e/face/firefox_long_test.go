//go:build long

package face

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/testkit"
)

// TestFirefox tests the pages' main stories in Firefox too. Each story has a server of its own. Every tab fails
// its test for an error in the console, an uncaught exception, a refusal by the policy or a failed request.
func TestFirefox(t *testing.T) {
	t.Parallel()
	for name, story := range map[string]func(t *testing.T, f *testkit.Firefox){
		"the dashboard lives": func(t *testing.T, f *testkit.Firefox) {
			tab := f.Tab(t)
			dashboardLive(t, newSite(t), tab, func() user { return tab.Beside(t) })
		},
		"its windows share one stream": func(t *testing.T, f *testkit.Firefox) {
			tab := f.Tab(t)
			shareOneStream(t, busy(t), tab, func() user { return tab.Beside(t) }, 7)
		},
		"submit and follow": func(t *testing.T, f *testkit.Firefox) {
			submitAndFollow(t, newSite(t, "TIERQ_WORKERS=1"), f.Tab(t))
		},
		"cancel and requeue": func(t *testing.T, f *testkit.Firefox) {
			cancelAndRequeue(t, newSite(t, "TIERQ_WORKERS=1"), f.Tab(t))
		},
		"dead letters": func(t *testing.T, f *testkit.Firefox) {
			requeueTheDead(t, newSite(t, "TIERQ_EGRESS_ALLOW=127.0.0.0/8"), f.Tab(t))
		},
		"a schedule": func(t *testing.T, f *testkit.Firefox) {
			s, tab := newKeyedSite(t), f.Tab(t)
			login(tab, s, theAdmin)
			tab.Allow("/dashboard/schedules/edit: 400 ", "/dashboard/schedules/edit: 412 ")
			changeASchedule(t, s, tab, func() {}, func(string) {})
		},
		"progress and a flow": func(t *testing.T, f *testkit.Firefox) {
			progressAndFlowLive(t, newSite(t), f.Tab(t))
		},
		"login": func(t *testing.T, f *testkit.Firefox) {
			loginAndBack(t, newKeyedSite(t), f.Tab(t))
		},
		"themes": func(t *testing.T, f *testkit.Firefox) {
			themes(t, newSite(t), f.Tab(t))
		},
		"every page": everyPage,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, testkit.StartFirefox(t))
		})
	}
}

// everyPage opens all pages as an admin, in narrow and wide windows and in both colour schemes. They fit the
// window, and use the scheme.
func everyPage(t *testing.T, f *testkit.Firefox) {
	t.Helper()
	s := newKeyedSite(t)
	all := s.jobs().pages()
	s.line()
	s.schedule()
	tab := f.Tab(t)
	login(tab, s, theAdmin)
	for _, p := range all {
		if p.status >= 400 {
			tab.Allow(fmt.Sprintf("request: %s: %d ", s.base+p.path, p.status))
		}
		tab.View(360, 900, false)
		tab.Open(s.base + p.path)
		var got struct {
			Status int
			Live   bool
			Text   string
		}
		tab.Eval(seenOf, &got)
		if got.Status != p.status || !strings.Contains(got.Text, p.shows) {
			t.Errorf("%s: %d, want %d with %q: %s", p.path, got.Status, p.status, p.shows, got.Text)
		}
		if got.Live && p.status == http.StatusOK {
			tab.WaitText("#live-text", "live", alive)
		}
		light := ground(tab)
		fits(t, tab, p.path, 360)
		tab.View(1280, 900, true)
		fits(t, tab, p.path, 1280)
		if dark := ground(tab); dark == light {
			t.Errorf("%s: the ground is %s in the dark too", p.path, dark)
		}
	}
}
