package testkit

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// watched is a testing.TB whose failures do not fail the surrounding test. finish runs its cleanups.
type watched struct {
	testing.TB
	errors []string
	ends   []func()
}

func (w *watched) Helper()                   {}
func (w *watched) Cleanup(f func())          { w.ends = append(w.ends, f) }
func (w *watched) Error(a ...any)            { w.errors = append(w.errors, fmt.Sprint(a...)) }
func (w *watched) Errorf(f string, a ...any) { w.errors = append(w.errors, fmt.Sprintf(f, a...)) }

func (w *watched) finish() string {
	for i := len(w.ends) - 1; i >= 0; i-- {
		w.ends[i]()
	}
	w.ends = nil
	return strings.Join(w.errors, "\n")
}

const cleanPage = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/style.css"></head>
<body><main><h1>A page</h1><form method="post" action="/"><label>Name <input name="name"></label><button>Send</button></form><p id="said">%s</p></main>%s</body></html>`

// pages serves a small site under the policy of tierq's pages. The path of a page names its defect. icons counts
// the requests for /favicon.ico. A browser with windows makes them by itself, which is no page's defect.
func pages(t *testing.T) (url string, icons *atomic.Int64) {
	wrong := map[string]string{
		"/":          "",
		"/console":   `<script src="/console.js"></script>`,
		"/exception": `<script src="/exception.js"></script>`,
		"/csp":       `<script>document.title = 'it ran'</script>`,
		"/style":     `<p style="color: red">red</p>`,
		"/gone":      `<script src="/nowhere.js"></script>`,
		"/axe":       `<img src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA="><button></button>`,
		"/late":      `<script src="/late.js"></script>`,
		"/swap":      `<script src="/swap.js"></script>`,
		"/elusive":   `<script src="/elusive.js"></script>`,
		"/dark":      "",
		"/policy":    "",
		"/icon":      `<img src="/favicon.ico" alt="">`,
	}
	scripts := map[string]string{
		"/console.js":   "console.error('something', 7, 'happened')",
		"/exception.js": "null.property",
		"/swap.js": "setInterval(() => { for (const e of document.querySelectorAll('h1, input')) " +
			"e.replaceWith(e.cloneNode(true)) }, 4)",
		// The pressed element is gone when the button is released, and then a dialog covers its place for a while.
		"/elusive.js": "const h = () => document.querySelector('h1'), d = document.createElement('dialog'); " +
			"addEventListener('click', e => { if (e.target === h()) document.querySelector('#said').textContent += 'hit' }); " +
			"addEventListener('pointerdown', () => { h().replaceWith(h().cloneNode(true)); document.body.append(d); " +
			"d.showModal(); setTimeout(() => d.remove(), 300) }, {once: true})",
		"/late.js": "addEventListener('click', () => setTimeout(() => { document.querySelector('#said').textContent = 'at " +
			"last' }, 50)); " +
			"addEventListener('keydown', e => { if (e.key === '/') { document.querySelector('input').focus(); " +
			"e.preventDefault() } })",
	}
	icons = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy",
			"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; form-action 'self'")
		if r.URL.Path == "/policy" {
			h.Add("Content-Security-Policy", "no-such-src 'self'")
		}
		extra, isPage := wrong[r.URL.Path]
		switch script := scripts[r.URL.Path]; {
		case isPage:
			h.Set("Content-Type", "text/html; charset=utf-8")
			name := r.PostFormValue("name")
			if c, err := r.Cookie("name"); err == nil && name == "" {
				name = c.Value
			}
			http.SetCookie(w, &http.Cookie{Name: "name", Value: name})
			_, _ = fmt.Fprintf(w, cleanPage, name, extra)
		case script != "":
			h.Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(w, script)
		case r.URL.Path == "/style.css":
			h.Set("Content-Type", "text/css")
			_, _ = io.WriteString(w, "@media (prefers-color-scheme: dark) { body { background: #000; color: #fff } }")
		case r.URL.Path == "/favicon.ico":
			http.NotFound(w, r)
			icons.Add(1)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, icons
}

func TestBrowser(t *testing.T) {
	site, icons := pages(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	leaks := goleak.IgnoreCurrent()
	b := StartBrowser(t)
	if StartBrowser(t) != b {
		t.Error("a second browser")
	}
	t.Run("sees what is wrong", func(t *testing.T) {
		for path, want := range map[string]string{
			"/":          "",
			"/icon":      "",
			"/console":   "console: something 7 happened",
			"/exception": "exception: Uncaught TypeError: Cannot read properties of null",
			"/csp":       "csp: script-src-elem refuses inline",
			"/style":     "csp: style-src-attr refuses inline",
			"/policy":    "csp: Unrecognized Content-Security-Policy directive 'no-such-src'",
			"/gone":      "request: " + site + "/nowhere.js: 404",
			"/nowhere":   "request: " + site + "/nowhere: 404",
		} {
			w := &watched{TB: t}
			tab := b.Tab(w)
			tab.Open(site + path)
			if path == "/icon" {
				Eventually(t, browserBound, "the browser asks for an icon", func() (bool, string) { return icons.Load() > 0, "" })
			}
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
	t.Run("lets pass what is allowed", func(t *testing.T) {
		tab := b.Tab(t)
		tab.Allow("something 7", "never seen")
		tab.Open(site + "/console")
	})
	t.Run("acts as a user", func(t *testing.T) {
		tab := b.Tab(t)
		tab.Open(site + "/")
		if got := strings.Join(tab.Requests(), " "); got != site+"/ "+site+"/style.css" {
			t.Errorf("it asked for %s", got)
		}
		tab.Type("input", "somebody")
		tab.Type("input", "Ada Lovelace")
		tab.Click("button")
		tab.WaitText("#said", "Ada Lovelace", browserBound)
		if got := tab.Text("h1"); got != "A page" {
			t.Errorf("the heading says %q", got)
		}
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
		tab.Open(site + "/swap")
		for range 10 {
			tab.Click("h1") // the page keeps replacing this element
			tab.Type("input", "x")
		}
		tab.Open(site + "/elusive")
		tab.Click("h1")
		if got := tab.Text("#said"); got != "Bobhit" {
			t.Errorf("clicked once, and the page says %q", got)
		}
		tab.Open(site + "/swap")
		var answer struct{ N int }
		tab.Eval("Promise.resolve({n: 6 * 7})", &answer)
		if answer.N != 42 || tab.URL() != site+"/swap" {
			t.Errorf("%+v at %s", answer, tab.URL())
		}
		beside, alone := tab.Beside(t), b.Tab(t)
		for name, one := range map[string]*Tab{"Bob": beside, "": alone} {
			one.Open(site + "/")
			if got := one.Text("#said"); got != name {
				t.Errorf("it knows %q, want %q", got, name)
			}
		}
	})
	t.Run("gives up in time", func(t *testing.T) {
		w := &patient{watched: watched{TB: t}}
		done := make(chan struct{})
		go func() {
			defer close(done)
			tab := b.Tab(w)
			tab.Open(site + "/")
			tab.WaitText("#said", "what nobody says", 50*time.Millisecond)
			t.Error("it waited for nothing")
		}()
		<-done
		if got := w.finish(); !strings.Contains(got, `#said does not say "what nobody says" within 50ms, but ""`) ||
			!strings.Contains(got, "the tab is at "+site+"/") {
			t.Errorf("it says %q", got)
		}
	})
	t.Run("goes without scripts", func(t *testing.T) {
		tab := b.Tab(t)
		tab.Scripts(false)
		for _, wrong := range []string{"/console", "/exception", "/late"} {
			tab.Open(site + wrong) // its defect is in a script, which does not run now
			tab.Click("h1")
		}
		tab.Type("input", "Grace")
		tab.Click("button")
		tab.WaitText("#said", "Grace", browserBound)
		tab.Scripts(true)
		tab.Allow("something 7")
		tab.Open(site + "/console")
		if got := tab.Problems(); len(got) != 1 {
			t.Errorf("scripts run again, and its problems are %q", got)
		}
	})
	t.Run("takes pictures", func(t *testing.T) {
		tab := b.Tab(t)
		tab.Open(site + "/dark")
		dir := t.TempDir()
		size := map[string]int{}
		for _, name := range []string{"light.png", "dark.png", "wide.webp"} {
			path := filepath.Join(dir, name)
			tab.Screenshot(path, 360, map[bool]int{true: 0, false: 640}[name == "wide.webp"], name == "dark.png")
			picture, err := os.ReadFile(path)
			must(t, err)
			if kind := http.DetectContentType(picture); kind != "image/"+strings.TrimPrefix(filepath.Ext(name), ".") {
				t.Errorf("%s is %s", name, kind)
			}
			size[string(picture)]++
			var width, height int
			tab.Eval("innerWidth", &width)
			tab.Eval("innerHeight", &height)
			if width != 360 || name != "wide.webp" && height != 640 {
				t.Errorf("%s is of %d x %d", name, width, height)
			}
		}
		if len(size) != 3 {
			t.Error("light and dark look the same")
		}
	})
	t.Run("finds barriers", func(t *testing.T) {
		tab := b.Tab(t)
		tab.Open(site + "/")
		if found := tab.Axe(t); len(found) != 0 {
			t.Errorf("on a clean page: %v", found)
		}
		tab.Open(site + "/axe")
		got := fmt.Sprint(tab.Axe(t))
		for _, want := range []string{"image-alt (critical)", "button-name (critical)", "<button></button>"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not among %s", want, got)
			}
		}
	})
	stopBrowser()
	stopBrowser()
	goleak.VerifyNone(t, leaks)
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// patient ends its goroutine at Fatal, as a real test does.
type patient struct{ watched }

func (p *patient) Fatalf(f string, a ...any) {
	p.Errorf(f, a...)
	runtime.Goexit()
}
