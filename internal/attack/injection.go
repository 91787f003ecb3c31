package attack

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"
)

// injection returns the attacks on the languages behind the server: SQL, Redis, SMTP, MIME.
func injection() []Attack {
	return []Attack{
		{ID: "A55", What: "headers and commands in mail", try: mailInjection},
		{ID: "A56", What: "line breaks and quotes in file and document names", try: nameInjection},
		{ID: "A57", What: "SQL in filters, cursors and ids", try: sqlInjection},
		{ID: "A58", What: "Redis' protocol, braces and stars in ids and keys", try: redisInjection},
	}
}

// job submits a job of a type without retries and returns the answer.
func (t *Target) job(ctx context.Context, typ string, payload any) answer {
	return t.send(ctx, t.alice, "POST", "/paid/submit", text(object{"type": typ, "payload": payload, "maxRetries": 0}))
}

type object = map[string]any

func text(o object) string {
	b, _ := json.Marshal(o) // strings, numbers and lists: it cannot fail
	return string(b)
}

// unlessUnknown returns the answers that are wanted for a job. A server that was not started by Own may not know
// the job's type.
func (t *Target) unlessUnknown(wanted string) []string {
	if t.own() {
		return []string{wanted}
	}
	return []string{wanted, "422 UNKNOWN_JOB_TYPE"}
}

func mailInjection(ctx context.Context, t *Target, x *trial) {
	for _, to := range []string{"a@b.example\r\nBcc: c@d.example", "a@b.example\nRCPT TO:<c@d.example>",
		`"x> RCPT TO:<y"@z.example`,
		"a@b.example, c@d.example", "A <a@b.example>", "a@b.example\x00", "a@[127.0.0.1]", "a@b\u2028c", "@b", ""} {
		x.want("to: "+to, t.job(ctx, "SEND_EMAIL", object{"to": to, "subject": "x", "body": "y"}),
			t.unlessUnknown("422 INVALID_PAYLOAD")...)
	}
	for _, subject := range []string{"x\r\nBcc: c@d.example", "x\n", "x\x00y", "x\u0085y", strings.Repeat("x", 300)} {
		x.want("subject: "+subject[:min(len(subject), 12)],
			t.job(ctx, "SEND_EMAIL", object{"to": "a@b.example", "subject": subject,
				"body": "y"}), t.unlessUnknown("422 INVALID_PAYLOAD")...)
	}
}

func nameInjection(ctx context.Context, t *Target, x *trial) {
	for _, id := range []string{"a\r\nX: y", "a\x00", "..", "."} {
		x.want("a documentId", t.job(ctx, "FORWARD_DOCUMENT", object{"documentId": id, "contentType": "text/plain", "body": 1,
			"endpoints": []string{"https://a.example"}}), t.unlessUnknown("422 INVALID_PAYLOAD")...)
	}
	x.want("a contentType", t.job(ctx, "FORWARD_DOCUMENT",
		object{"documentId": "a", "contentType": "a/b\r\nX: y", "body": 1,
			"endpoints": []string{"https://a.example"}}), t.unlessUnknown("422 INVALID_PAYLOAD")...)
	made := t.job(ctx, "GENERATE_PDF",
		object{"title": "x\"; filename=\"evil.exe\r\nSet-Cookie: a=b", "paragraphs": []string{"y"}})
	x.want("a title", made, t.unlessUnknown("202")...)
	id := strings.TrimPrefix(made.header.Get("Location"), "/result/poll?jobId=")
	if made.status != 202 {
		return
	}
	x.want("its poll", t.send(ctx, t.alice, "GET", "/result/poll?jobId="+id+"&wait=20s", ""), "200")
	file := t.send(ctx, t.alice, "GET", "/jobs/"+id+"/artifact", "")
	x.want("its file", file, "200")
	if d := file.header.Get("Content-Disposition"); strings.Contains(d, ".exe") || file.header.Get("Set-Cookie") != "" ||
		file.header.Get("X-Content-Type-Options") != "nosniff" {
		x.fail("the file comes with %v", file.header)
	}
}

var injections = []string{
	"id;SELECT SLEEP(5)", "' OR 1=1 --", "(SELECT 1)", "`id`", "1 UNION SELECT hash FROM api_keys", "\\",
	"%' AND SLEEP(5) AND '%'='",
	"{tierq:0}:outbox", "*", "a\r\nFLUSHALL\r\n", "$9\r\nFLUSHALL", "\x00", "../../etc",
}

func sqlInjection(ctx context.Context, t *Target, x *trial) {
	for _, injected := range injections {
		text := url.QueryEscape(injected)
		for _, name := range []string{"status", "tier", "type", "cause", "cursor", "limit", "sort", "order"} {
			begun := time.Now()
			x.want("/admin/jobs?"+name+"="+text, t.send(ctx, t.admin, "GET", "/admin/jobs?"+name+"="+text, ""),
				"400 INVALID_REQUEST")
			if time.Since(begun) > 4*time.Second {
				x.fail("%s=%s took %s", name, text, time.Since(begun))
			}
		}
		for _, target := range []string{"/admin/dead?from=" + text, "/jobs/dead?page=" + text,
			"/admin/audit?cursor=" + text} {
			x.want(target, t.send(ctx, t.admin, "GET", target, ""), "400 INVALID_REQUEST")
		}
	}
}

func redisInjection(ctx context.Context, t *Target, x *trial) {
	for _, text := range injections {
		path := strings.ReplaceAll(url.PathEscape(text), "/", "%2f")
		x.want("/jobs/"+text, t.send(ctx, t.admin, "GET", "/jobs/"+path, ""), "400 INVALID_REQUEST", "404")
		x.want("jobId="+text, t.send(ctx, t.admin, "GET", "/result/poll?jobId="+url.QueryEscape(text), ""),
			"400 INVALID_REQUEST")
		body, _ := json.Marshal([]object{{"idempotencyKey": text}, {"type": text}})
		a := t.send(ctx, t.alice, "POST", "/public/submit/batch", string(body))
		x.want("as idempotencyKey and type", a, "202")
		x.want("the tier "+text, t.send(ctx, t.admin, "PUT", "/admin/tiers/"+path, "{}"), "400 INVALID_REQUEST", "404")
		x.want("the key "+text, t.send(ctx, t.admin, "DELETE", "/admin/keys/"+path, ""), "400 INVALID_REQUEST", "404")
	}
	x.want("an id of 1 MB", t.send(ctx, t.admin, "GET", "/jobs/"+strings.Repeat("a", 1<<20), ""), "431", "414", "closed")
	x.want("the tiers are all there", t.send(ctx, t.admin, "GET", "/admin/tiers/PAID", ""), "200")
}
