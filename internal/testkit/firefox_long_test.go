//go:build long

package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestFirefox(t *testing.T) {
	site, _ := pages(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	leaks := goleak.IgnoreCurrent()
	f := StartFirefox(t)
	if StartFirefox(t) != f {
		t.Error("a second Firefox")
	}
	t.Run("sees what is wrong", func(t *testing.T) {
		for path, want := range map[string]string{
			"/":          "",
			"/console":   "console: something 7 happened",
			"/exception": "exception: TypeError: can't access property",
			"/csp":       "csp: script-src-elem refuses inline",
			"/style":     "csp: style-src-attr refuses inline",
			"/gone":      "request: " + site + "/nowhere.js: NS_ERROR_CORRUPTED_CONTENT", // its type is not a script
			"/nowhere":   "request: " + site + "/nowhere: 404",
		} {
			w := &watched{TB: t}
			tab := f.Tab(w)
			tab.Open(site + path)
			Eventually(t, browserBound, path+" has the problem "+want, func() (bool, string) {
				all := strings.Join(tab.Problems(), "\n")
				return strings.Contains(all, want), all
			})
			got := w.finish()
			if (got == "") != (want == "") || !strings.Contains(got, want) || strings.Contains(got, "favicon") {
				t.Errorf("%s: failed with %q, want %q", path, got, want)
			}
		}
	})
	t.Run("acts as a user", func(t *testing.T) {
		tab := f.Tab(t)
		tab.Open(site + "/")
		if got := strings.Join(tab.Requests(), " "); got != site+"/ data:, "+site+"/style.css" {
			t.Errorf("it asked for %s", got)
		}
		tab.Type("input", "somebody")
		tab.Type("input", "Ada Lovelace")
		tab.Click("button")
		tab.WaitText("#said", "Ada Lovelace", browserBound)
		tab.Click("input")
		tab.Press("Bob\r")
		tab.WaitText("#said", "Bob", browserBound)
		tab.Open(site + "/late")
		tab.Click("h1")
		tab.WaitText("#said", "at last", browserBound)
		tab.Press("/a/b?")
		var typed string
		if tab.Eval("document.querySelector('input').value", &typed); typed != "ab?" {
			t.Errorf("typed is %q, but the page prevents the slash", typed)
		}
		var answer struct{ N int }
		tab.Eval("Promise.resolve({n: 6 * 7})", &answer)
		if answer.N != 42 || tab.URL() != site+"/late" {
			t.Errorf("%+v at %s", answer, tab.URL())
		}
		beside, alone := tab.Beside(t), f.Tab(t)
		for name, one := range map[string]*FirefoxTab{"Bob": beside, "": alone} {
			one.Open(site + "/")
			if got := one.Text("#said"); got != name {
				t.Errorf("it knows %q, want %q", got, name)
			}
		}
		for _, one := range []*FirefoxTab{tab, beside, alone} {
			var hidden bool
			if one.Eval("document.hidden", &hidden); hidden {
				t.Error("a window is hidden by another one")
			}
		}
	})
	t.Run("gives up in time", func(t *testing.T) {
		w := &patient{watched: watched{TB: t}}
		done := make(chan struct{})
		go func() {
			defer close(done)
			tab := f.Tab(w)
			tab.Open(site + "/")
			tab.WaitText("#said", "what nobody says", 50*time.Millisecond)
			t.Error("it waited for nothing")
		}()
		<-done
		if got := w.finish(); !strings.Contains(got, `#said does not say "what nobody says" within 50ms, but ""`) {
			t.Errorf("it says %q", got)
		}
	})
	t.Run("likes it dark", func(t *testing.T) {
		tab := f.Tab(t)
		tab.Open(site + "/dark")
		seen := map[string]bool{}
		for _, dark := range []bool{false, true} {
			tab.View(360, 640, dark)
			var got string
			tab.Eval("innerWidth + ' ' + innerHeight + ' ' + matchMedia('(prefers-color-scheme: dark)').matches", &got)
			if want := fmt.Sprint("360 640 ", dark); got != want {
				t.Errorf("the view is %q, want %q", got, want)
			}
			path := filepath.Join(t.TempDir(), "picture.png")
			tab.Screenshot(path)
			picture, err := os.ReadFile(path)
			must(t, err)
			seen[string(picture)] = true
		}
		if len(seen) != 2 {
			t.Error("light and dark look the same")
		}
	})
	stopFirefox()
	stopFirefox()
	goleak.VerifyNone(t, leaks)
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
