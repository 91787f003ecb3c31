package face

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// occupy keeps the only worker busy until release is called.
func (s *site) occupy() (release func()) {
	s.t.Helper()
	s.tune("PAID", map[string]any{"maxProcessingTimeMs": 600000})
	id := s.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":300000}]}}`)
	s.await(id, "PROCESSING")
	return func() {
		s.t.Helper()
		a := s.ask(http.MethodPost, "/api/jobs/"+id+"/cancel", "")
		if a.status >= 300 {
			s.t.Fatalf("cancel: %d %s", a.status, a.body)
		}
	}
}

// stay marks the page. same reports whether the page is still there and was never reloaded.
func stay(tab user) (same func() bool) {
	tab.Eval("void (window.mark = 'mine') ?? 0", nil)
	return func() (yes bool) {
		tab.Eval("window.mark === 'mine'", &yes)
		return yes
	}
}

// arrived waits for a job's page and returns the job's id, which is in the address and on the page.
func arrived(t *testing.T, tab user) string {
	t.Helper()
	tab.WaitText("#job-id", "-", alive)
	id := tab.Text("#job-id")
	if !strings.Contains(tab.URL(), "/poll?jobId="+id) {
		t.Errorf("%s is shown at %s", id, tab.URL())
	}
	return id
}

// choose focuses a list and types a word to select an option, as a keyboard user does. A browser takes a key that
// comes more than a second after the last one for the beginning of another word, which happens on a busy machine:
// then choose types the whole word again.
func choose(t *testing.T, tab user, selector, word string) {
	t.Helper()
	list := fmt.Sprintf("document.querySelector(%q)", selector)
	tab.Eval(list+".focus()", nil)
	var typed time.Time
	testkit.Eventually(t, 2*alive, selector+" is "+word, func() (bool, string) {
		if time.Since(typed) > 2*time.Second {
			tab.Press(word)
			typed = time.Now()
		}
		var value string
		tab.Eval(list+".value", &value)
		return value == word, value
	})
}

// Jobs of several types are submitted by clicks, and followed to their results on the page that opens, which is
// never reloaded.
func TestSubmitAndFollow(t *testing.T) {
	t.Attr("proves", "S2-W2 S2-W3")
	t.Parallel()
	submitAndFollow(t, newSite(t, "TIERQ_WORKERS=1"), testkit.StartBrowser(t).Tab(t))
}

func submitAndFollow(t *testing.T, s *site, tab user) {
	t.Helper()
	for _, c := range []struct{ tier, kind, example, result string }{
		{"PAID", "SIMULATION", "A bit of everything", "stepsRun"},
		{"UNPAID", "SEND_EMAIL", "To two people", "bob@example.org"},
		{"PUBLIC", "GENERATE_PDF", "An invoice", "application/pdf"},
		{"PUBLIC", "REPORT", "The last day, as CSV", "text/csv"},
	} {
		release := s.occupy()
		tab.Open(s.base + "/submit")
		tab.Click("label.t-" + strings.ToLower(c.tier))
		choose(t, tab, "#type", c.kind)
		tab.WaitText("#examples", c.example, alive)
		var n int
		tab.Eval("[...document.querySelectorAll('#examples button')].findIndex(b => b.textContent === '"+c.example+"') + 1",
			&n)
		tab.Click(fmt.Sprintf("#examples button:nth-child(%d)", n))
		tab.Click("#submit button[type=submit]")
		id := arrived(t, tab)
		tab.WaitText(".jobhead", "PENDING", alive)
		tab.WaitText(".jobhead", c.kind, alive)
		tab.WaitText(".jobhead", c.tier, alive)
		tab.WaitText("#following", "following", alive)
		same := stay(tab)
		release()
		tab.WaitText(".jobhead", "COMPLETED", alive)
		tab.WaitText("section[aria-labelledby=result]", c.result, alive)
		tab.WaitText("section[aria-labelledby=life]", "Attempt 1", alive)
		if !same() || tab.Text("#job-id") != id {
			t.Errorf("%s: the page was loaded anew", c.kind)
		}
		if file := "a[href='/jobs/" + id + "/artifact']"; c.kind == "GENERATE_PDF" || c.kind == "REPORT" {
			var size int
			tab.Eval(`fetch(document.querySelector("`+file+
				`").href).then(r => r.ok ? r.arrayBuffer() : null).then(b => b.byteLength)`, &size)
			if size < 10 {
				t.Errorf("%s: its file has %d bytes", c.kind, size)
			}
		}
	}
}

// A refused submit shows the error at the wrong field, and keeps the typed values.
func TestSubmitRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tab := testkit.StartBrowser(t).Tab(t)
	tab.Allow("/submit: 400 ", "/submit: 422 ")
	tab.Open(s.base + "/submit")
	choose(t, tab, "#type", "SEND_EMAIL")
	tab.Click("#as-json")
	tab.Type("#payload", `{"to": "nobody"`)
	tab.WaitText("#payload-wrong", "not JSON", alive)
	tab.Type("#payload", `{"to": "nobody"}`)
	tab.Click("#submit button[type=submit]")
	tab.WaitText(".wrong", "payload", alive)
	var typed string
	tab.Eval("document.getElementById('payload').value", &typed)
	if !strings.Contains(typed, `"nobody"`) {
		t.Errorf("what was typed is %q", typed)
	}
	if everything {
		barriers(t, tab, "a submit that is refused")
	}
}

// Jobs can be cancelled and requeued on the pages that show them.
func TestCancelAndRequeue(t *testing.T) {
	t.Parallel()
	cancelAndRequeue(t, newSite(t, "TIERQ_WORKERS=1"), testkit.StartBrowser(t).Tab(t))
}

func cancelAndRequeue(t *testing.T, s *site, tab user) {
	t.Helper()
	cancel, requeue := "form[action='/poll/cancel'] button", "form[action='/poll/requeue'] button"

	s.tune("PAID", map[string]any{"maxProcessingTimeMs": 600000})
	running := s.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":300000}]}}`)
	s.await(running, "PROCESSING")
	waiting := s.submit("public", "")
	tab.Open(s.base + "/poll?jobId=" + waiting)
	tab.Click(cancel)
	tab.WaitText("main > .note", "The job is cancelled", alive)
	tab.WaitText(".jobhead", "CANCELLED", alive)
	s.await(waiting, "CANCELLED")

	tab.Open(s.base + "/poll?jobId=" + running)
	tab.Click(cancel)
	tab.WaitText("main > .note", "Its worker was told", alive)
	tab.WaitText(".jobhead", "CANCELLED", alive)
	s.await(running, "CANCELLED")

	failed := s.submit("public", `{"maxRetries":0,"payload":{"steps":[{"type":"FAIL","message":"no luck"}]}}`)
	s.await(failed, "FAILED")
	tab.Open(s.base + "/poll?jobId=" + failed)
	tab.WaitText("section[aria-labelledby=error]", "no luck", alive)
	tab.Click(requeue)
	tab.WaitText("main > .note", "requeued", alive)
	tab.WaitText(".jobhead", "life 2", alive)
	tab.WaitText(".jobhead", "FAILED", alive)
}
