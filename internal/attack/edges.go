package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"
)

// edges returns the attacks on headers, methods, origins, files, errors and logs.
func edges() []Attack {
	return []Attack{
		{ID: "A27", What: "methods that are not served", try: otherMethods},
		{ID: "A43", What: "arbitrary origins (CORS)", try: origins},
		{ID: "A44", What: "an answer without security headers", try: securityHeaders},
		{ID: "A45", What: "a form on another site (CSRF)", try: crossSite},
		{ID: "A46", What: "markup in what is stored (the API's answers)", try: storedMarkup},
		{ID: "A47", What: "what an error tells, and where a key ends up", try: told},
		{ID: "A51", What: ".git, .env, traversal", try: files},
		{ID: "A54", What: "line breaks and escapes for the log", try: logInjection},
	}
}

func otherMethods(ctx context.Context, t *Target, x *trial) {
	for _, method := range []string{"OPTIONS", "TRACE", "PUT", "PATCH", "DELETE", "BREW", "get", "PROPFIND", "GET"} {
		a := t.send(ctx, t.alice, method, "/paid/submit", "", "X-Secret", "mirror-me")
		x.want(method+" /paid/submit", a, "405 METHOD_NOT_ALLOWED", "403 FORBIDDEN", "400")
		if bytes.Contains(a.body, []byte("mirror-me")) {
			x.fail("%s shows the request again", method)
		}
	}
	x.want("TRACE /livez", t.send(ctx, "", "TRACE", "/livez", ""), "405 METHOD_NOT_ALLOWED")
}

func origins(ctx context.Context, t *Target, x *trial) {
	for _, origin := range []string{"https://evil.example", "null", "http://localhost.evil.example"} {
		for _, a := range []answer{
			t.send(ctx, t.alice, "GET", "/api/jobs", "", "Origin", origin),
			t.send(ctx, t.alice, "OPTIONS", "/paid/submit", "", "Origin", origin, "Access-Control-Request-Method", "POST",
				"Access-Control-Request-Headers", "authorization"),
		} {
			x.note("Origin: "+origin, a.String())
			for name := range a.header {
				if strings.HasPrefix(name, "Access-Control-") {
					x.fail("Origin: %s: %s: %s", origin, name, a.header.Get(name))
				}
			}
		}
	}
}

func securityHeaders(ctx context.Context, t *Target, x *trial) {
	for _, c := range []struct{ method, path, key string }{
		{"GET", "/livez", ""}, {"GET", "/nowhere", ""}, {"POST", "/paid/submit", ""}, {"POST", "/paid/submit", t.alice},
		{"GET",
			"/admin/keys", t.alice}, {"PUT", "/livez", ""},
		{"GET", "/result/poll", t.alice}, {"GET", "/jobs/" + nobodys, t.alice}, {"GET", "/metrics", t.admin},
		{"GET", "/", ""}, {"GET",
			"/docs", ""}, {"GET", "/openapi.yaml", ""},
	} {
		a := t.send(ctx, c.key, c.method, c.path, "")
		x.note(c.method+" "+c.path, a.String())
		for _, name := range []string{"X-Content-Type-Options", "X-Frame-Options", "Content-Security-Policy",
			"Referrer-Policy", "Cache-Control"} {
			if a.header.Get(name) == "" {
				x.fail("%s %s: %s without %s", c.method, c.path, a, name)
			}
		}
		if policy := a.header.Get("Content-Security-Policy"); laxScript.MatchString(policy) ||
			strings.Contains(policy, "*") ||
			!strings.Contains(policy, "default-src") || a.header.Get("Server") != "" || a.header.Get("X-Powered-By") != "" {
			x.fail("%s %s: %v", c.method, c.path, a.header)
		}
	}
}

// laxScript matches a policy that lets a page run scripts written into it.
var laxScript = regexp.MustCompile(`(script|default)-src[^;]*unsafe`)

func crossSite(ctx context.Context, t *Target, x *trial) {
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/paid/submit", ""}, {"POST", "/admin/keys", `{"name":"csrf","role":"admin"}`},
		{"DELETE", "/admin/keys/" + idOf(t.alice),
			""}, {"POST", "/admin/dead/requeue", `{"limit":1}`},
		{"PUT", "/admin/tiers/PAID", "{}"}, {"POST", "/api/jobs/" + nobodys + "/cancel", ""},
	} {
		x.want(c.method+" "+c.path+" with Sec-Fetch-Site: cross-site",
			t.send(ctx, t.admin, c.method, c.path, c.body, "Sec-Fetch-Site",
				"cross-site"), "403 FORBIDDEN")
		x.want(c.method+" "+c.path+" with another Origin",
			t.send(ctx, t.admin, c.method, c.path, c.body, "Origin", "https://evil.example"),
			"403 FORBIDDEN")
	}
	x.want("a form's body", t.send(ctx, t.alice, "POST", "/paid/submit", "type=SIMULATION", "Content-Type",
		"application/x-www-form-urlencoded"), "415 UNSUPPORTED_MEDIA_TYPE")
	x.want("a form that looks like JSON",
		t.send(ctx, t.alice, "POST", "/paid/submit", `{"a":"=b"}`, "Content-Type", "text/plain"),
		"415 UNSUPPORTED_MEDIA_TYPE")
}

const markup = `<script>alert(1)</script>`

func storedMarkup(ctx context.Context, t *Target, x *trial) {
	body, _ := json.Marshal(map[string]any{"maxRetries": 0,
		"payload": map[string]any{"steps": []map[string]string{{"type": "FAIL",
			"message": markup}}}})
	id := t.submit(ctx, t.alice, string(body))
	if id == "" {
		x.fail("the job was not accepted")
		return
	}
	for _, path := range []string{"/result/poll?jobId=" + id + "&wait=20s", "/jobs/" + id, "/jobs/dead"} {
		a := t.send(ctx, t.alice, "GET", path, "", "Accept", "text/html")
		x.want("GET "+strings.Replace(path, id, "<its id>", 1), a, "200")
		if !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") ||
			a.header.Get("X-Content-Type-Options") != "nosniff" {
			x.fail("%s comes as %s", path, a.header.Get("Content-Type"))
		}
	}
	for _, path := range []string{"/" + strings.ReplaceAll(markup, "/", "%2f"), "/jobs/" + "%3Cscript%3E"} {
		a := t.send(ctx, t.alice, "GET", path, "")
		x.want("GET "+path, a, "404", "400")
		if bytes.Contains(a.body, []byte("<script>")) {
			x.fail("%s is said again: %s", path, a.body)
		}
	}
}

func told(ctx context.Context, t *Target, x *trial) {
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/paid/submit", "{"}, {"POST", "/paid/submit", `{"type":"NOPE"}`}, {"POST", "/paid/submit",
			`{"payload":{"steps":[{"type":"SLEEP","durationMs":"x"}]}}`}, {"POST", "/paid/submit", `{"payload":{"nope":1}}`},
		{"POST", "/paid/submit", `{"type":"SEND_WEBHOOK","payload":{"url":7}}`}, {"POST", "/paid/submit",
			`{"type":"REPORT","payload":{"from":"x"}}`}, {"GET", "/jobs/x", ""}, {"GET", "/nowhere", ""},
		{"GET", "/api/jobs?cursor=x", ""}, {"PUT", "/admin/tiers/PAID", `{"priority":"x"}`},
		{"POST", "/admin/keys", `{"name":"x","role":"root"}`},
	} {
		x.want(c.method+" "+c.path+" "+c.body, t.send(ctx, t.admin, c.method, c.path, c.body), "400", "404", "422")
	}
	x.want("a key in a header of another name", t.send(ctx, "", "GET", "/api/stats", "", "X-API-Key", t.admin),
		"401 UNAUTHORIZED")
	if t.log == nil {
		return
	}
	for _, key := range append([]string{t.admin}, t.made...) {
		if strings.Contains(t.log(), key[20:]) {
			x.fail("a key's secret is in the log")
		}
	}
}

func files(ctx context.Context, t *Target, x *trial) {
	for _, path := range []string{
		"/.git/config", "/.env", "/.git/HEAD", "/go.mod", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
		"/static/..%2f..%2fetc/passwd", "/docs/..%2f..%2fgo.mod", "/docs/%00", "/openapi.yaml%00.html",
		"/..\\..\\windows\\win.ini",
		"/docs/../../etc/passwd", "//etc/passwd", "/data/", "/backup.zip", "/server-status", "/wp-admin/",
	} {
		a := t.raw(ctx, "GET "+path+" HTTP/1.1\r\nHost: "+t.host+"\r\nConnection: close\r\n\r\n")
		x.want("GET "+path, a, "404", "400", "401")
		if bytes.Contains(a.body, []byte("root:")) || bytes.Contains(a.body, []byte("module ")) {
			x.fail("%s serves a file: %.80s", path, a.body)
		}
	}
}

func logInjection(ctx context.Context, t *Target, x *trial) {
	mark := fmt.Sprintf("forged%d", rand.Uint64())
	for what, a := range map[string]answer{
		"a type with a line break":       t.send(ctx, t.alice, "POST", "/paid/submit", `{"type":"A\r\n`+mark+`"}`),
		"an Idempotency-Key with an ESC": t.raw(ctx, t.request("POST", "/paid/submit", "Idempotency-Key: a\x1b[31m"+mark)),
		"a path with %0d%0a":             t.send(ctx, t.alice, "GET", "/%0d%0a"+mark, ""),
		"a trace id with an ESC": t.raw(ctx,
			t.request("GET", "/api/jobs", "X-Trace-Id: \x1b[31m"+mark, "Connection: close")),
		"a User-Agent with an ESC": t.raw(ctx,
			t.request("GET", "/api/jobs", "User-Agent: \x1b]0;"+mark+"\x07", "Connection: close")),
	} {
		x.want(what, a, "400", "404", "200", "202")
	}
	for what, step := range map[string]string{
		"a LOG step with a line break":     `{"type":"LOG","message":"x\r\n` + mark + ` \u001b[31m"}`,
		"an error's text with a line feed": `{"type":"FAIL","message":"x\n` + mark + `"}`,
	} {
		a := t.send(ctx, t.alice, "POST", "/paid/submit", `{"maxRetries":0,"payload":{"steps":[`+step+`]}}`)
		x.want(what, a, "202")
		poll := t.send(ctx, t.alice, "GET", a.header.Get("Location")+"&wait=20s", "")
		if x.want("its poll", poll, "200"); !bytes.Contains(poll.body, []byte(`"completedAt":"`)) {
			x.fail("%s: the job did not end: %s", what, poll.body)
		}
	}
	if t.log == nil {
		return
	}
	// The lines come through a pipe: an answer may be read before the line that was written before it.
	for range 50 {
		if strings.Contains(t.log(), mark) {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	if !strings.Contains(t.log(), mark) {
		x.fail("nothing of it is in the log, where it could do harm")
	}
	for line := range strings.Lines(t.log()) {
		if strings.HasPrefix(line, mark) || strings.ContainsAny(line, "\x1b\x07\r") {
			x.fail("the log has the line %.80q", line)
		}
	}
}
