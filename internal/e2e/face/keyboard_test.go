package face

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/testkit"
)

func theme(tab user) (now string) {
	tab.Eval("document.documentElement.dataset.theme ?? 'auto'", &now)
	return now
}

// ground returns the page's background colour.
func ground(tab user) (colour string) {
	tab.Eval("getComputedStyle(document.documentElement).backgroundColor", &colour)
	return colour
}

func TestKeyboard(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tab := testkit.StartBrowser(t).Tab(t)
	focused := func() (what string) {
		tab.Eval("document.activeElement.id", &what)
		return what
	}

	tab.Open(s.base + "/")
	tab.Press("?")
	tab.WaitText("#help[open]", "Keyboard", alive)
	barriers(t, tab, "the help")
	tab.Press("\x1b")
	testkit.Eventually(t, alive, "Esc closes the help", func() (bool, string) {
		var open bool
		tab.Eval("document.getElementById('help').open", &open)
		return !open, "it is open"
	})

	for keys, path := range map[string]string{"gd": "/dashboard", "go": "/", "gs": "/submit", "gp": "/poll",
		"gj": "/dashboard/jobs", "gx": "/dashboard/dead"} {
		tab.Open(s.base + "/about")
		tab.Press(keys)
		testkit.Eventually(t, alive, keys+" leads to "+path, func() (bool, string) {
			url := tab.URL()
			return url == s.base+path, url
		})
	}

	tab.Open(s.base + "/dashboard/jobs")
	tab.Press("/")
	if at := focused(); at != "find" {
		t.Errorf("/ leads to %q", at)
	}
	tab.Press("t?gd") // text in this field
	var typed string
	if tab.Eval("document.getElementById('find').value", &typed); typed != "t?gd" || theme(tab) != "auto" {
		t.Errorf("typed is %q, the theme %s", typed, theme(tab))
	}

	themes(t, s, tab)
}

// themes presses the key that changes the theme, and checks the background of each theme, also after a reload.
func themes(t *testing.T, s *site, tab user) {
	t.Helper()
	tab.Open(s.base + "/")
	grounds := map[string]string{}
	for range 3 {
		tab.Press("t")
		was := theme(tab)
		tab.Reload()
		if now := theme(tab); now != was || tab.Text("#theme-text") != was {
			t.Errorf("%s is %s after the page was loaded again, and the button says %s", was, now, tab.Text("#theme-text"))
		}
		grounds[was] = ground(tab)
	}
	if len(grounds) != 3 || grounds["auto"] != grounds["light"] || grounds["dark"] == grounds["light"] {
		t.Errorf("the themes are %v", grounds)
	}
}

// Every element that the Tab key reaches shows the focus. The key leads into the page and through all of it.
func TestFocusIsSeen(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	j := s.jobs()
	tab := testkit.StartBrowser(t).Tab(t)
	const where = `(e => {
		if (e === document.body) return null;
		const s = getComputedStyle(e), r = e.getBoundingClientRect();
		const lined = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 1 && !/, 0\)$|transparent/.test(s.outlineColor);
		return {what: e.tagName + "#" + e.id + "." + e.getAttribute("class") + " " + (e.textContent || e.value || "").trim().slice(0, 30), lined,
			within: r.width > 0 && r.height > 0 && r.left < innerWidth && r.right > 0 && r.top < innerHeight && r.bottom > 0, main: !!e.closest("main")};
	})(document.activeElement)`
	type place struct {
		What                string
		Lined, Within, Main bool
	}
	for path, least := range map[string]int{"/": 12, "/submit": 18, "/poll?jobId=" + j.failed: 14, "/dashboard": 20,
		"/dashboard/dead": 20, "/dashboard/tiers/PAID": 20} {
		for _, dark := range []bool{false, true} {
			if dark && path != "/dashboard" { // the colours are the same
				continue
			}
			tab.View(1280, 900, dark)
			tab.Open(s.base + path)
			var places []string
			into := false
			for range 80 {
				tab.Press("\t")
				var at *place
				// The next drawn frame shows the focus.
				testkit.Eventually(t, alive, path+": the focus is seen", func() (bool, string) {
					tab.Eval(where, &at)
					return at == nil || at.Lined && at.Within, fmt.Sprintf("%+v", at)
				})
				if at == nil {
					break
				}
				into = into || at.Main
				places = append(places, at.What)
			}
			if !into || len(places) < least {
				t.Errorf("%s: the tabulator leads to %d places, want %d:\n%s", path, len(places), least, strings.Join(places, "\n"))
			}
			if len(places) > 0 && !strings.Contains(places[0], "Skip to content") {
				t.Errorf("%s: it leads to %s first", path, places[0])
			}
		}
	}
}
