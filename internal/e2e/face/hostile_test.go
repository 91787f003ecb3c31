package face

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

const (
	// markup runs a script, or leaves an element, wherever a page inserts it as anything but text.
	markup = `"><svg onload=globalThis.pwned=1><script>globalThis.pwned=1</script></script></title></textarea></pre></template>` +
		`<img src=x onerror="globalThis.pwned=1"><a class=pwned ` +
		`href="javascript:globalThis.pwned=1">x</a><style>*{color:red}</style>'-(globalThis.pwned=1)-'` +
		"\u2028\u2029\u202e{{.}}${globalThis.pwned=1}"
	tag    = `<img/src=x/onerror=globalThis.pwned=1>` // for places that allow no blank
	script = `javascript:globalThis.pwned=1`
)

// text returns s as a JSON string with as few escapes as possible.
func text(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // cannot fail for a string
	return strings.TrimSpace(b.String())
}

// harmless checks that the page in the tab contains the markup only as text.
func harmless(t *testing.T, tab *testkit.Tab, what string) {
	t.Helper()
	var got struct {
		Ran  bool
		Made []string
	}
	tab.Eval(`({ran: globalThis.pwned !== undefined, made: [...document.querySelectorAll("img, style, base, iframe, `+
		`.pwned, script:not([src]), [onload], [onerror], [href^='javascript' i], [action^='javascript' i]")].map(e => `+
		`e.outerHTML.slice(0, 200))})`, &got)
	if got.Ran || len(got.Made) > 0 {
		t.Errorf("%s: %+v", what, got)
	}
}

// shows checks that the markup is visible.
func shows(t *testing.T, tab *testkit.Tab, what, selector string) {
	t.Helper()
	testkit.Eventually(t, alive, what+" shows what it was given, in "+selector, func() (bool, string) {
		var all string
		tab.Eval(fmt.Sprintf(`[...document.querySelectorAll(%q)].map(e => e.value ?? e.textContent).join("\n")`, selector),
			&all)
		return strings.Contains(all, "globalThis.pwned=1"), fmt.Sprintf("%.1000s", all)
	})
	harmless(t, tab, what)
}

// send posts a form from a page of the site, and returns when the answer has loaded.
func send(t *testing.T, tab *testkit.Tab, path string, fields ...string) {
	t.Helper()
	names, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	tab.Eval(fmt.Sprintf(`((path, fields) => {
		const form = document.createElement("form");
		form.method = "post";
		form.action = path;
		for (let i = 0; i < fields.length; i += 2) {
			const input = document.createElement("textarea");
			input.name = fields[i];
			input.value = fields[i + 1];
			form.append(input);
		}
		document.body.append(form);
		document.documentElement.id = "leaving";
		form.submit();
	})(%q, %s)`, path, names), nil)
	tab.WaitText("html:not(#leaving) body", "", alive)
	testkit.Eventually(t, alive, "the answer to "+path+" has loaded", func() (bool, string) {
		var got struct{ State, Loaded string }
		tab.Eval(`({state: document.readyState, loaded: performance.getEntriesByType("resource").map(e =>
			e.name + " " + Math.round(e.responseEnd)).join("\n")})`, &got)
		return got.State == "complete", got.State + ", loaded so far, and when in ms:\n" + got.Loaded
	})
}

// inFrontOf starts a proxy that adds headers which a page might show.
func inFrontOf(t *testing.T, s *site) (base string) {
	t.Helper()
	to, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
		for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix",
			"Forwarded", "X-Real-Ip", "X-Trace-Id", "Traceparent", "Referer", "User-Agent", "Accept-Language"} {
			r.Out.Header.Set(name, tag)
		}
	}})
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// TestFace_Markup puts markup into every text that a user can set, or that anyone with access to Redis can set,
// and opens every page.
func TestFace_Markup(t *testing.T) {
	t.Attr("proves", "A46")
	t.Parallel()
	e := newExternal(t, "TIERQ_ADMIN_KEY="+theAdmin, "TIERQ_EGRESS_ALLOW=127.0.0.0/8",
		"TIERQ_TRUSTED_PROXIES=127.0.0.1/32", "TIERQ_WORKERS=8")
	e.key = theAdmin
	e.tune("PAID", map[string]any{"maxProcessingTimeMs": 3600000, "heartbeatTimeoutMs": 600000})
	var made struct{ Key string }
	e.want(http.StatusCreated, &made, http.MethodPost, "/admin/keys", `{"name":`+text(tag)+`,"role":"admin"}`)
	base := inFrontOf(t, e.site)
	tab := testkit.StartBrowser(t).Tab(t)
	tab.Allow("request: " + base) // some of the pages are errors
	behind := *e.site
	behind.base = base
	login(tab, &behind, made.Key)
	shows(t, tab, "who is logged in", ".who-name")

	r := newReceiver(t, `{"a":`+text(markup)+`}`)
	dead := e.letters(r, "public", 1)[0]
	r.takes.Store(true)
	webhook := func(more string) string {
		return fmt.Sprintf(`{"type":"SEND_WEBHOOK","callbackUrl":%q,"payload":{"url":%q,"body":{%s:%s},`+
			`"headers":{"X-A":%s}}%s}`,
			r.url+"/?"+script, r.url, text(markup), text(markup), text(tag), more)
	}
	big := strings.Repeat(markup, 58000/len(text(markup)))
	fails := fmt.Sprintf(`{"maxRetries":0,"payload":{"steps":[{"type":"LOG","message":%[1]s},{"type":"FAIL",`+
		`"message":%[1]s}]}}`, text(markup))
	const payload, result = "section[aria-labelledby=payload-title]", "section[aria-labelledby=result]"
	for _, j := range []struct{ id, status, selector string }{
		{e.submit("public", webhook(`,"delaySeconds":3600`)), "SCHEDULED", payload},
		{e.submit("public", `{"type":"SEND_EMAIL","payload":{"to":"a@example.org","subject":"x","body":`+text(big)+
			`},"delaySeconds":3600}`), "SCHEDULED", payload},
		{e.submit("public", webhook("")), "COMPLETED", result},
		{e.submit("unpaid", fails), "FAILED", ".err"},
		{e.submit("unpaid", fails), "FAILED", payload},
	} {
		e.await(j.id, j.status)
		tab.Open(base + "/poll?jobId=" + j.id)
		tab.WaitText(".st", j.status, alive)
		shows(t, tab, "a job that is "+j.status, j.selector)
	}
	if a := e.ask(http.MethodPost, "/public/submit",
		`{"delaySeconds":3600,"type":"SEND_WEBHOOK","payload":{"url":"`+r.url+`","body":"\ud800 globalThis.pwned=1 \udc00"}}`,
		"Idempotency-Key", tag); a.status == http.StatusAccepted {
		var halves struct {
			Data struct{ JobID string } `json:"apiResponseData"`
		}
		if err := json.Unmarshal([]byte(a.body), &halves); err != nil {
			t.Fatal(err)
		}
		tab.Open(base + "/poll?jobId=" + halves.Data.JobID)
		shows(t, tab, "half characters", payload)
	} else if a.status != http.StatusBadRequest {
		t.Errorf("half characters: %d %s", a.status, a.body)
	}

	// Addresses, and refused forms.
	at := url.QueryEscape(markup)
	for path, selector := range map[string]string{
		"/?done=" + url.QueryEscape(tag) + "&trouble=" + url.QueryEscape(tag): "",
		"/poll?jobId=" + at:                                                            "#jobId",
		"/poll?jobId=" + url.QueryEscape(tag):                                          "#jobId",
		"/dashboard/jobs?text=" + at + "&id=" + at:                                     "#q-text",
		"/dashboard/jobs?type=" + at + "&tier=" + at + "&cursor=" + at:                 "form",
		"/dashboard/jobs?text=pwned":                                                   "td",
		"/dashboard/dead?from=" + at + "&type=" + at:                                   "#d-from",
		"/dashboard/dead?tier=UNPAID":                                                  ".err1",
		"/submit?type=" + at + "&tier=" + at + "&payload=" + at:                        "",
		"/login?next=" + url.QueryEscape(script):                                       "",
		"/dashboard/tiers/" + url.PathEscape(tag) + "?trouble=" + url.QueryEscape(tag): "",
		"/dashboard/lines/key?key=" + url.QueryEscape(tag):                             "h1",
		"/demo?done=" + url.QueryEscape(tag):                                           "",
		"/about?done=" + url.QueryEscape(tag):                                          "",
		"/" + url.PathEscape(tag):                                                      "",
	} {
		tab.Open(base + path)
		if harmless(t, tab, path); selector != "" {
			shows(t, tab, path, selector)
		}
	}
	tab.Open(base + "/submit")
	for what, fields := range map[string][]string{
		"a type":  {"tier", "PAID", "type", markup, "payload", text(markup)},
		"a tier":  {"tier", markup, "type", "SIMULATION", "payload", text(markup)},
		"no JSON": {"tier", "PAID", "type", "SIMULATION", "payload", markup},
		"no payload": {"tier", "PAID", "type", "SIMULATION", "payload",
			`{"steps":[{"type":` + text(markup) + `}],` + text(markup) + `:1}`},
		"other options": {"tier", "PAID", "type", "SIMULATION", "payload", text(markup), "maxRetries", markup, "delaySeconds",
			markup, "callbackUrl", script, "idempotencyKey", markup},
	} {
		send(t, tab, "/submit", fields...)
		shows(t, tab, "a submit of "+what, "#submit input, #submit textarea, #submit option, .errors, .wrong")
	}
	tab.Open(base + "/dashboard/tiers/PUBLIC")
	send(t, tab, "/dashboard/tiers/PUBLIC", "priority", markup, "maxRetries", markup, "version", markup)
	shows(t, tab, "a plan", "#plan input")
	tab.Open(base + "/dashboard/lines/key?key=acme")
	send(t, tab, "/dashboard/lines/key", "key", tag, "running", markup, "rate", markup, "version", markup)
	shows(t, tab, "limits of a key", "input")
	tab.Open(base + "/dashboard/schedules/new")
	send(t, tab, "/dashboard/schedules/edit", "name", tag, "version", "0", "cron", markup, "timezone", markup,
		"everySeconds", markup, "overlap", markup, "tier", markup, "type", markup, "queue", markup, "payload", markup)
	shows(t, tab, "a schedule", "#schedule input, #schedule textarea, #schedule option, .wrong")
	send(t, tab, "/dashboard/dead/requeue", "scope", "all", "type", markup, "tier", markup)
	harmless(t, tab, "a requeue of all")
	send(t, tab, "/dashboard/dead/requeue", "one", markup)
	harmless(t, tab, "a requeue of one")
	send(t, tab, "/poll/cancel", "jobId", markup)
	shows(t, tab, "a cancel", "#jobId")

	// The live dashboard. A client that can write to Redis can only insert text into the pages.
	running := e.submit("paid", longJob)
	e.await(running, "PROCESSING")
	tab.Open(base + "/dashboard")
	stays(tab)
	fresh(t, tab)
	hostileRedis(t, e.redis.URL(), running)
	shows(t, tab, "a lease's worker", `#leases [data-f="worker"]`)
	shows(t, tab, "a lease's type", `#leases [data-f="type"]`)
	shows(t, tab, "a worker", `#workers [data-f="name"]`)
	shows(t, tab, "a worker's host", `#workers [data-f="host"]`)
	beside := tab.Beside(t)
	beside.Open(base + "/dashboard/dead")
	send(t, beside, "/dashboard/dead/requeue", "one", dead)
	shows(t, tab, "the feed", `#feed [data-f="text"]`)
	e.await(dead, "COMPLETED")
	stayed(t, tab)
	// The same pages as the server renders them.
	for _, path := range []string{"/dashboard", "/poll?jobId=" + running, "/dashboard/jobs?status=PROCESSING"} {
		tab.Open(base + path)
		shows(t, tab, path, "main")
	}
}

// hostileRedis writes markup into the fields that only tierq's processes write.
func hostileRedis(t *testing.T, at, id string) {
	t.Helper()
	o, err := redis.ParseURL(at)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	withType := func(text string) string { return strings.Replace(text, " SIMULATION ", " "+tag+" ", 1) }
	withToken := func(lease string) string { // "class run for=...\nhead"; the token is the last word of the run
		run, head, _ := strings.Cut(lease, "\n")
		run, length, _ := strings.Cut(run, " for=")
		at := strings.LastIndexByte(run, ' ') + 1
		return run[:at] + tag + ":" + run[at:] + " for=" + length + "\n" + withType(head)
	}
	worker := fmt.Sprintf(`{"name":%s,"host":%s,"pid":1,"version":%s,"slots":4,"seenAt":%q}`, text(tag), text(markup),
		text(markup), time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	for _, err := range []error{
		queuetest.EditText(t.Context(), c, "job", job.ID(id), withType),
		queuetest.EditText(t.Context(), c, "leases", job.ID(id), withToken),
		c.HSet(t.Context(), "{tierq}:workers", tag, worker).Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}
