package pages

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/tierq/tierq/web"
)

const opsWorkers = `{"items":[{"name":"w1","kind":"server","state":"run"},{"name":"film.1","kind":"http",` +
	`"language":"python","state":"quiet"}]}`

// A worker's row offers what the worker was not asked yet, and only to callers who may change something.
func TestWorkers_Buttons(t *testing.T) {
	o := newOps()
	o.says("GET /api/stats", 200, opsStats)
	shown := opsSnapshot()
	for name, asked := range map[string]string{
		"w-runs": "run", "w-quiet": "quiet", "w-ends": "terminate", evilText: "run",
	} {
		shown.Workers = append(shown.Workers,
			web.Worker{Name: name, Asked: asked, State: WorkerWords("http", evilText, asked)})
	}
	o.hub = NewHub(HubOptions{Snapshot: func(context.Context) (any, error) { return shown, nil }})
	w := o.open(t, "/dashboard", nil)
	holds(t, w, 200, ", quiet", ", terminate asked", `action="/dashboard/workers"`)
	lacks(t, w, "<script>alert", "<img src=x")
	offered := map[string]string{}
	doc, err := html.Parse(strings.NewReader(w.Body.String()))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode || n.Data != "button" {
			continue
		}
		a := map[string]string{}
		for _, at := range n.Attr {
			a[at.Key] = at.Val
		}
		if _, hidden := a["hidden"]; !hidden && a["data-f"] != "" && a["value"] != "" {
			offered[a["value"]] += a["name"] + " "
		}
	}
	for name, want := range map[string]string{"w-runs": "quiet terminate ", "w-quiet": "resume terminate ",
		"w-ends": "resume ", evilText: "quiet terminate "} {
		if offered[name] != want {
			t.Errorf("%s is offered %q, want %q", name, offered[name], want)
		}
	}

	o.says("GET /api/me", 200, readerMe)
	w = o.open(t, "/dashboard", nil)
	holds(t, w, 200, "w-quiet")
	lacks(t, w, `name="quiet"`, `name="resume"`, `name="terminate"`)

	// Without the stream the words come from the API's figures.
	o.hub = nil
	o.says("GET /api/me", 200, annMe)
	o.says("GET /api/stats", 200, strings.Replace(opsStats, `"name":"w1"`,
		`"kind":"http","state":"quiet","language":"go","name":"w1"`, 1))
	holds(t, o.open(t, "/dashboard", nil), 200, "own go, quiet",
		`name="quiet" value="w1" data-f="quiet" aria-label="Quiet w1" hidden`)
}

// A worker is told something only after the caller has seen what it means for this worker.
func TestWorkers_AreAskedWhenConfirmed(t *testing.T) {
	for _, c := range []struct{ verb, name, title, means, done string }{
		{"quiet", "w1", "Quiet w1?", "It claims no more jobs", "told to claim no more jobs"},
		{"resume", "film.1", "Resume film.1?", "It gets jobs again", "may claim jobs again"},
		{"terminate", "w1", "Terminate w1?", "The process ends with all that it does", "told to end"},
		{"terminate", "film.1", "Terminate film.1?", "It is told to end", "told to end"},
	} {
		o := newOps()
		o.says("GET /admin/workers", 200, opsWorkers)
		o.says("POST /admin/workers/"+c.name+"/"+c.verb, 200, `{}`)
		w := o.open(t, workersPath, url.Values{c.verb: {c.name}})
		holds(t, w, 200, "<h1>"+c.title+"</h1>", c.means, `name="`+c.verb+`" value="`+c.name+`"`,
			`name="confirmed" value="yes"`, `action="/dashboard/workers"`, `href="/dashboard">No, go back`)
		o.did(t, "GET /admin/workers")
		w = o.open(t, workersPath, url.Values{c.verb: {c.name}, "confirmed": {"yes"}})
		goes(t, w, "/dashboard", "done", c.done)
		o.did(t, "POST /admin/workers/"+c.name+"/"+c.verb)
	}
}

func TestWorkers_NobodyIsAsked(t *testing.T) {
	for name, form := range map[string]url.Values{
		"nothing":     {},
		"no verb":     {"confirmed": {"yes"}, "kill": {"w1"}},
		"no name":     {"confirmed": {"yes"}, "quiet": {""}},
		"no worker":   {"quiet": {"w9"}},
		"not a name":  {"quiet": {"../keys"}, "confirmed": {"yes"}},
		"not a name2": {"terminate": {evilText}},
	} {
		o := newOps()
		o.says("GET /admin/workers", 200, opsWorkers)
		goes(t, o.open(t, workersPath, form), "/dashboard", "trouble", "")
		for _, asked := range o.asked {
			if !strings.HasPrefix(asked, http.MethodGet) {
				t.Errorf("%s: asked %s", name, asked)
			}
		}
	}

	o := newOps()
	o.says("GET /admin/workers", 200, opsWorkers)
	for _, c := range []struct {
		status        int
		code, trouble string
	}{
		{404, "NOT_FOUND", "it is not there any more"}, {503, "SYSTEM_UNHEALTHY", "Redis or SQL does not answer"},
		{504, "OUTCOME_UNKNOWN", "the answer was lost"}, {429, "RATE_LIMITED", "too many requests"},
	} {
		o.refuses("POST /admin/workers/w1/quiet", c.status, c.code, "no")
		goes(t, o.open(t, workersPath, url.Values{"quiet": {"w1"}, "confirmed": {"yes"}}), "/dashboard", "trouble", c.trouble)
	}
	o.refuses("GET /admin/workers", 503, "SYSTEM_UNHEALTHY", "no")
	goes(t, o.open(t, workersPath, url.Values{"quiet": {"w1"}}), "/dashboard", "trouble", "Redis or SQL does not answer")

	for _, me := range []string{readerMe, submitMe} {
		o.says("GET /api/me", 200, me)
		for _, confirmed := range []string{"", "yes"} {
			w := o.open(t, workersPath, url.Values{"quiet": {"w1"}, "confirmed": {confirmed}})
			holds(t, w, 403, "with an admin key")
			o.did(t)
		}
	}
	o.says("GET /api/me", 200, strangerMe)
	goes(t, o.open(t, workersPath, url.Values{"quiet": {"w1"}, "confirmed": {"yes"}}), "/login", "next", "/dashboard")
	o.did(t)
}
