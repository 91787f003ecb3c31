package attack

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// bodies returns the attacks in what is submitted.
func bodies() []Attack {
	return []Attack{
		{ID: "A09", What: "members that only the server sets", try: ownMembers},
		{ID: "A10", What: "tiers in other spellings", try: strangeTiers},
		{ID: "A11", What: "what a poll shows of a failed job", try: pollShows},
		{ID: "A12", What: "bodies beyond every limit", try: largeBodies},
		{ID: "A13", What: "JSON that is deep, wide, broken or ambiguous", try: evilJSON},
		{ID: "A22", What: "times far ahead", try: farAhead},
		{ID: "A61", What: "numbers at the edge", try: edgeNumbers},
		{ID: "A62", What: "names that only look alike", try: lookalikes},
		{ID: "A63", What: "charsets and encodings", try: charsets},
	}
}

func ownMembers(ctx context.Context, t *Target, x *trial) {
	for _, m := range []string{`"tier":"PAID"`, `"priority":1`, `"status":"COMPLETED"`, `"attempts":0`,
		`"jobId":"` + nobodys + `"`,
		`"owner":"` + idOf(t.bob) + `"`, `"quota":0`, `"everybody":true`, `"__proto__":{}`} {
		x.want("{"+m+"}", t.send(ctx, t.alice, "POST", "/public/submit", "{"+m+"}"), "400 INVALID_REQUEST")
	}
	x.want(`{"owner":...} to /jobs`, t.send(ctx, t.alice, "POST", "/jobs", `{"type":"SIMULATION","owner":"x"}`),
		"400 INVALID_REQUEST")
	a := t.send(ctx, t.alice, "POST", "/public/submit/batch", `[{"owner":"x"},{"promised":true}]`)
	x.want("a batch of them", a, "202")
	if bytes.Count(a.body, []byte("INVALID_REQUEST")) != 2 {
		x.fail("a batch took them: %s", a.body)
	}
}

func strangeTiers(ctx context.Context, t *Target, x *trial) {
	for _, path := range []string{
		"/PAID/submit", "/Paid/submit", "/paid%20/submit", "/%20paid/submit", "/paid%00/submit", "/pa%C4%B0d/submit",
		"/p%61id/submit",
		"/PUBLIC:x/submit", "/{tierq:0}/submit", "/../paid/submit",
		"/..%2fpaid/submit", "/paid/../paid/submit", "/paid%2fsubmit", "/gold/submit", "/*/submit", "/" + strings.Repeat("a",
			5000) + "/submit", "/admin/submit", "/jobs/submit",
	} {
		shown := path[:min(len(path), 24)]
		x.want("POST "+shown, t.send(ctx, t.alice, "POST", path, ""), "404")
	}
	for _, tier := range []string{"PAID ", "paid\\u0000", "PAİD", "../paid", "PUBLIC:x", "Paid", ""} {
		x.want(`POST /jobs {"tier":"`+tier+`"}`,
			t.send(ctx, t.alice, "POST", "/jobs", `{"type":"SIMULATION","tier":"`+tier+`"}`),
			"404 UNKNOWN_TIER", "400 INVALID_REQUEST")
	}
	x.want("the tiers that there are", t.send(ctx, t.admin, "GET", "/admin/tiers", ""), "200")
}

func pollShows(ctx context.Context, t *Target, x *trial) {
	a := t.send(ctx, t.alice, "POST", "/paid/submit",
		`{"maxRetries":0,"payload":{"steps":[{"type":"FAIL","message":"boom"}]}}`)
	x.want("a job that fails", a, "202")
	id := strings.TrimPrefix(a.header.Get("Location"), "/result/poll?jobId=")
	poll := t.send(ctx, t.alice, "GET", "/result/poll?jobId="+id+"&wait=20s", "")
	x.want("its poll", poll, "200")
	whole := t.send(ctx, t.alice, "GET", "/jobs/"+id, "")
	x.want("the whole of it", whole, "200")
	for what, body := range map[string][]byte{"the poll": poll.body, "the job": whole.body} {
		for _, word := range []string{"goroutine", ".go:", `"token"`, `"owner"`, "127.0.0.1", "/internal/"} {
			if bytes.Contains(body, []byte(word)) {
				x.fail("%s shows %q: %s", what, word, body)
			}
		}
	}
	if bytes.Contains(poll.body, []byte("worker")) {
		x.fail("the poll shows a worker: %s", poll.body)
	}
}

func largeBodies(ctx context.Context, t *Target, x *trial) {
	x.want("1 MiB of payload", t.send(ctx, t.alice, "POST", "/paid/submit",
		`{"payload":"`+strings.Repeat("x", 1<<20)+`"}`),
		"413 PAYLOAD_TOO_LARGE", "closed")
	x.want("1 MiB of blanks", t.send(ctx, t.alice, "POST", "/paid/submit", strings.Repeat(" ", 1<<20)),
		"413 PAYLOAD_TOO_LARGE", "closed")
	x.want("a batch of 20 MiB", t.send(ctx, t.alice, "POST", "/paid/submit/batch", "["+strings.Repeat(" ", 20<<20)+"]"),
		"413 PAYLOAD_TOO_LARGE", "closed")
	x.want("a batch of 2000 entries",
		t.send(ctx, t.alice, "POST", "/paid/submit/batch", "["+strings.Repeat("{},", 1999)+"{}]"),
		"413 PAYLOAD_TOO_LARGE")
	x.want("Content-Length: 1e15", t.raw(ctx, t.request("POST", "/paid/submit", "Content-Type: application/json",
		"Content-Length: 1000000000000000")+"{"), "413 PAYLOAD_TOO_LARGE")
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(bytes.Repeat([]byte(" "), 100<<20)) // a write to memory cannot fail
	_ = z.Close()
	x.want("a gzip bomb of 100 MiB",
		t.send(ctx, t.alice, "POST", "/paid/submit", bomb.String(), "Content-Encoding", "gzip"),
		"415 UNSUPPORTED_MEDIA_TYPE")
	x.want("a gzip bomb in a batch",
		t.send(ctx, t.alice, "POST", "/paid/submit/batch", bomb.String(), "Content-Encoding", "gzip"),
		"415 UNSUPPORTED_MEDIA_TYPE")
	x.note("a chunked body without end", t.endless(ctx, x))
}

// endless sends chunks until the server stops it, and returns what came back. It stops by itself far beyond every
// limit.
func (t *Target) endless(ctx context.Context, x *trial) string {
	conn, err := t.dial(ctx)
	if err != nil {
		return answer{err: err}.String()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second)) // a broken connection fails in the calls below
	_, _ = io.WriteString(conn, t.request("POST", "/paid/submit", "Content-Type: application/json",
		"Transfer-Encoding: chunked"))
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat(" ", 64<<10))
	for n := 0; ; n++ {
		if _, err := io.WriteString(conn, chunk); err != nil {
			var late net.Error
			if asTimeout(err, &late) {
				x.fail("a body without end: neither read nor ended for 20 s, after %d MiB", n>>4)
				return "nothing"
			}
			return "closed"
		}
		if n > 4096 {
			x.fail("a body of %d MiB is still being read", n>>4)
			return "nothing"
		}
	}
}

func evilJSON(ctx context.Context, t *Target, x *trial) {
	deep := func(n int) string { return `{"payload":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}" }
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"k%d":1,`, i)
		}
		return `{"payload":{` + b.String() + `"z":1}}`
	}
	for what, body := range map[string]string{
		"33 levels": deep(33), "30,000 levels": deep(15_000), "1001 members": keys(1001),
		"a number of 60 KB": `{"maxRetries":` + strings.Repeat("9",
			60_000) + `}`, "1e999999": `{"delaySeconds":1e999999}`,
		"a member twice":          `{"type":"SIMULATION","type":"SIMULATION"}`,
		"a member twice, escaped": `{"type":"SIMULATION","t\u0079pe":"X"}`,
		"twice inside":            `{"payload":{"a":{"b":1,"b":2}}}`,
		"invalid UTF-8":           "{\"payload\":\"\xff\xfe\"}", "a lone surrogate": `{"payload":"\ud800"}`,
		"a raw NUL":           "{\"payload\":\"\x00\"}",
		"something behind it": `{}{}`, "a second line": "{}\n{}",
		"a comment": `{/**/}`, "single quotes": `{'type':'X'}`, "NaN": `{"delaySeconds":NaN}`, "a BOM": "\ufeff{}",
		"a trailing comma": `{"maxRetries":1,}`, "cut off": `{"payload":{"a":`,
	} {
		x.want(what, t.send(ctx, t.alice, "POST", "/paid/submit", body), "400 INVALID_REQUEST")
	}
	for what, body := range map[string]string{"100,000 levels": deep(100_000), "1,000,000 members": keys(1_000_000),
		"a number of 10 MB": `{"maxRetries":` + strings.Repeat("9", 10<<20) + `}`} {
		x.want(what, t.send(ctx, t.alice, "POST", "/paid/submit", body), "413 PAYLOAD_TOO_LARGE", "closed")
		a := t.send(ctx, t.alice, "POST", "/paid/submit/batch", "["+body+"]")
		x.want(what+" in a batch", a, "202", "400 INVALID_REQUEST", "413 PAYLOAD_TOO_LARGE", "closed")
		if bytes.Contains(a.body, []byte(`"jobId":"0`)) {
			x.fail("%s in a batch: accepted", what)
		}
	}
}

func farAhead(ctx context.Context, t *Target, x *trial) {
	for _, at := range []string{"9999-12-31T23:59:59Z", "2100-01-01T00:00:00Z", "2026-13-45T99:99:99Z", "* * * * * *",
		"(a+)+$"} {
		x.want(`{"runAt":"`+at+`"}`, t.send(ctx, t.alice, "POST", "/paid/submit", `{"runAt":"`+at+`"}`),
			"400 INVALID_REQUEST")
	}
	// A time in the past means now.
	x.want("the year 0", t.send(ctx, t.alice, "POST", "/paid/submit", `{"runAt":"0000-01-01T00:00:00Z"}`), "202")
}

func edgeNumbers(ctx context.Context, t *Target, x *trial) {
	for _, m := range []string{
		`"delaySeconds":-1`, `"delaySeconds":1e18`, `"delaySeconds":1e999`, `"delaySeconds":"30"`, `"delaySeconds":NaN`,
		`"maxRetries":1000000000`, `"maxRetries":-1`, `"maxRetries":1.5`, `"maxRetries":1e1`,
		`"maxRetries":99999999999999999999`, `"maxRetries":-0`, `"maxRetries":true`,
	} {
		wanted := []string{"400 INVALID_REQUEST"}
		if m == `"maxRetries":-0` {
			wanted = append(wanted, "202")
		}
		x.want("{"+m+"}", t.send(ctx, t.alice, "POST", "/paid/submit", "{"+m+"}"), wanted...)
	}
	x.want("a step of 1e18 ms", t.send(ctx, t.alice, "POST", "/paid/submit",
		`{"payload":{"steps":[{"type":"SLEEP","durationMs":1000000000000000000}]}}`), "422 INVALID_PAYLOAD")
	x.want("a step of -1 ms", t.send(ctx, t.alice, "POST", "/paid/submit",
		`{"payload":{"steps":[{"type":"SLEEP","durationMs":-1}]}}`),
		"422 INVALID_PAYLOAD")
	x.want("a wait of -1 s", t.send(ctx, t.alice, "GET", "/result/poll?jobId="+nobodys+"&wait=-1s", ""),
		"400 INVALID_REQUEST")
	x.want("a wait of 1e9 s", t.send(ctx, t.alice, "GET", "/result/poll?jobId="+nobodys+"&wait=1000000000", ""),
		"400 INVALID_REQUEST")
}

func lookalikes(ctx context.Context, t *Target, x *trial) {
	for _, typ := range []string{"SIMULATION\u200b", "ＳIMULATION", "SİMULATION", "simulation", "SIMULATION ",
		"SIMUL\u0041\u0301TION", "CALLBACK"} {
		body, _ := json.Marshal(map[string]string{"type": typ})
		x.want(fmt.Sprintf("the type %q", typ), t.send(ctx, t.alice, "POST", "/paid/submit", string(body)),
			"400 INVALID_REQUEST",
			"422 UNKNOWN_JOB_TYPE")
	}
	for _, name := range []string{"alice\u200b", "\u202ealice", "a\r\nb", "", strings.Repeat("n", 101)} {
		body, _ := json.Marshal(map[string]string{"name": name, "role": "submit"})
		x.want(fmt.Sprintf("a key named %.12q", name), t.send(ctx, t.admin, "POST", "/admin/keys", string(body)), "400",
			"422")
	}
}

func charsets(ctx context.Context, t *Target, x *trial) {
	for _, kind := range []string{
		"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
		"application/json; charset=utf-7",
		"application/json; charset=utf-16", "application/json;;=,", "image/svg+json", "application/xml",
	} {
		x.want("Content-Type: "+kind, t.send(ctx, t.alice, "POST", "/paid/submit", "{}", "Content-Type", kind),
			"415 UNSUPPORTED_MEDIA_TYPE")
	}
	for _, coding := range []string{"gzip", "br", "deflate", "zstd", "identity, gzip", "x"} {
		x.want("Content-Encoding: "+coding, t.send(ctx, t.alice, "POST", "/paid/submit", "{}", "Content-Encoding", coding),
			"415 UNSUPPORTED_MEDIA_TYPE")
	}
}
