package handlers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

func TestSendWebhook(t *testing.T) {
	t.Attr("proves", "S1-P4 S4-M4")
	url, last := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"got": true} `)
	})
	r := outgoingTypes(wire{})
	send := func(fields string) heard {
		t.Helper()
		result, err := r.Run(running(t), "SEND_WEBHOOK", []byte(`{"url":"`+url+`/hook"`+fields+`}`))
		if err != nil || string(result) != `{"status":202,"body":{"got":true}}` {
			t.Fatalf("%s: %s, %v", fields, result, err)
		}
		return last()
	}
	got := send(`,"body":{"a": [1, 1e400]},"headers":{"authorization":"Bearer x","X-Mine":"yes"},"timeoutSeconds":5`)
	want := map[string]string{
		"Content-Type": "application/json", "Webhook-Id": string(theJob) + "-r2", "X-Job-Attempt": "3",
		"X-Trace-Id":    "the-trace",
		"Authorization": "Bearer x", "X-Mine": "yes",
	}
	for name, value := range want {
		if got.header.Get(name) != value {
			t.Errorf("%s = %q, want %q", name, got.header.Get(name), value)
		}
	}
	if first := messageID(handler.Run{ID: theJob, Generation: 1}); first != string(theJob) {
		t.Errorf("the first life's id is %q", first)
	}
	if got.method != "POST" || got.body != `{"a": [1, 1e400]}` {
		t.Errorf("%s %s", got.method, got.body)
	}
	for fields, body := range map[string]string{"": "{}", `,"body":null`: "null", `,"body":"text"`: `"text"`,
		`,"body":7`: "7"} {
		if got := send(fields); got.body != body {
			t.Errorf("%q was sent as %q, want %q", fields, got.body, body)
		}
	}
	if got := send(`,"headers":{"Content-Type":"application/cloudevents+json"}`); got.header.Get("Content-Type") != "application/cloudevents+json" {
		t.Errorf("Content-Type = %q", got.header.Get("Content-Type"))
	}
}

// Answers over a real connection give these errors. TestJudged covers the other statuses.
func TestSendWebhookFails(t *testing.T) {
	t.Attr("proves", "S1-P4")
	url, _ := listen(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/busy":
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/gone":
			w.WriteHeader(http.StatusGone)
		case "/moved":
			http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
		case "/slow":
			<-r.Context().Done()
		default:
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	plain := handler.Verdict{RetryAfter: -1}
	r := outgoingTypes(wire{})
	for path, want := range map[string]struct {
		text    string
		verdict handler.Verdict
	}{
		"/busy?token=secret": {"127.0.0.1 answered 429", handler.Verdict{RetryAfter: 2 * time.Minute}},
		"/gone":              {"127.0.0.1 answered 410", handler.Verdict{Permanent: true, RetryAfter: -1}},
		"/moved":             {"127.0.0.1 answered 307", handler.Verdict{Permanent: true, RetryAfter: -1}},
		"/broken":            {"127.0.0.1 answered 502", plain},
		"/slow":              {"call 127.0.0.1: no answer", plain},
	} {
		limit := 60
		if path == "/slow" {
			limit = 1
		}
		_, err := r.Run(running(t), "SEND_WEBHOOK", fmt.Appendf(nil, `{"url":"%s%s","timeoutSeconds":%d}`, url, path, limit))
		if err == nil || err.Error() != want.text || handler.Judge(err) != want.verdict {
			t.Errorf("%s: %v, %+v, want %+v", path, err, handler.Judge(err), want)
		}
	}
}

func TestJudged(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	const final = -2
	for _, c := range []struct {
		status int
		after  string
		want   time.Duration // RetryAfter; -1: the tier's backoff; final: permanent; 0: delivered
	}{
		{200, "", 0}, {204, "60", 0}, {299, "", 0},
		{429, "", -1}, {503, "soon", -1}, {429, "-5", -1}, {503, "1.5", -1},
		{429, "5", 5 * time.Second}, {503, "0", time.Second}, {503, "3600", time.Hour}, {503, "3601", time.Hour}, {429,
			"99999999999999999999999", time.Hour},
		{429, "Fri, 01 May 2026 12:00:30 GMT", 30 * time.Second}, {503, "Fri, 01 May 2026 11:00:00 GMT", time.Second}, {503,
			"Sat, 02 May 2026 12:00:00 GMT", time.Hour},
		{408, "5", -1}, {425, "", -1}, {500, "5", -1}, {502, "", -1}, {504, "", -1}, {599, "", -1},
		{400, "", final}, {401, "", final}, {404, "5", final}, {410, "", final}, {422, "", final},
		{301, "", final}, {304, "", final}, {101, "", final},
	} {
		h := http.Header{}
		if c.after != "" {
			h.Set("Retry-After", c.after)
		}
		err := judged("host", Response{Status: c.status, Header: h}, now)
		v := handler.Judge(err)
		ok := err != nil && v == handler.Verdict{RetryAfter: c.want}
		switch c.want {
		case 0:
			ok = err == nil
		case final:
			ok = err != nil && v.Permanent
		}
		if !ok {
			t.Errorf("%d, Retry-After %q: %v, %+v, want %v", c.status, c.after, err, v, c.want)
		}
	}
}

func TestKeptAnswer(t *testing.T) {
	t.Attr("proves", "A52")
	deep := strings.Repeat("[", 33) + strings.Repeat("]", 33)
	for _, c := range []struct{ body, want string }{
		{"", "null"}, {" \r\n", "null"}, {` {"a": "<"} `, `{"a":"\u003c"}`}, {"7", "7"}, {"null", "null"},
		{`"[[\"["`, `"[[\"["`},
		{"plain", `"plain"`}, {"{", `"{"`}, {"\xff\xfe", `"` + "\uFFFD" + `"`},
		{`"` + "\xff" + `"`, `"\"` + "\uFFFD" + `\""`},
		{deep[1 : len(deep)-1], deep[1 : len(deep)-1]}, {deep, `"` + deep + `"`}, {"[]]", `"[]]"`},
	} {
		if got := string(kept(Response{Body: []byte(c.body)})); got != c.want {
			t.Errorf("%q is kept as %s, want %s", c.body, got, c.want)
		}
	}
	if got := string(kept(Response{Body: []byte("[1,2]"), Truncated: true})); got != `"[1,2]"` {
		t.Errorf("a cut body is kept as %s", got)
	}
	for _, piece := range []string{"x", "<", "\x01", "ä", "\xffx", "[1],"} {
		got := kept(Response{Body: []byte("\"" + strings.Repeat(piece, 64<<10))})
		encoded, err := json.Marshal(Delivered{Status: 200, Body: got})
		if err != nil || len(got) > maxKept || len(got) < maxKept-200 || len(encoded) > maxKept+100 {
			t.Errorf("64 Ki of %q are kept in %d bytes, %v", piece, len(got), err)
		}
	}
}

func TestWebhookRefuses(t *testing.T) {
	t.Attr("proves", "S1-P4")
	r := outgoingTypes(wire{closed: func(url string) error {
		if strings.Contains(url, "private") {
			return errors.New("leads inside")
		}
		return nil
	}})
	const url = `"url":"https://example.com/"`
	many := make([]string, maxHeaders+1)
	big := make([]string, 5)
	for i := range many {
		many[i] = fmt.Sprintf(`"X-%d":""`, i)
	}
	for i := range big {
		big[i] = fmt.Sprintf(`"X-%d":"%s"`, i, strings.Repeat("x", maxHeaderValue))
	}
	header := func(name, value string) string {
		headers, err := json.Marshal(map[string]string{name: value})
		if err != nil {
			t.Fatal(err)
		}
		return `{` + url + `,"headers":` + string(headers) + `}`
	}
	cases := map[string]string{
		``: "payload.url", `{}`: "payload.url", `{"url":"ftp://example.com"}`: "payload.url", `{"url":7}`: "payload.url",
		`{"url":"http://private.example"}`:                          "payload.url",
		`{` + url + `,"method":"GET"}`:                              "payload",
		`{` + url + `,"timeoutSeconds":0}`:                          "payload.timeoutSeconds",
		`{` + url + `,"timeoutSeconds":301}`:                        "payload.timeoutSeconds",
		`{` + url + `,"timeoutSeconds":1.5}`:                        "payload.timeoutSeconds",
		`{` + url + `,"headers":{` + strings.Join(many, ",") + `}}`: "payload.headers",
		`{` + url + `,"headers":{` + strings.Join(big, ",") + `}}`:  "payload.headers",
		`{` + url + `,"headers":{"X-A":"1","x-a":"2"}}`:             "",
		`{` + url + `,"headers":{"X-A":7}}`:                         "payload.headers",
		header("bad name", ""):                                      "payload.headers",
		header("", ""):                                              "payload.headers",
		header("X-A\r\nB", ""):                                      "payload.headers",
		header("X-A", "a\r\nB: c"):                                  "payload.headers.X-A",
		header("X-A", "ä"):                                          "payload.headers.X-A",
		header("X-A", "\x00"):                                       "payload.headers.X-A",
		header("X-A", strings.Repeat("x", maxHeaderValue+1)):        "payload.headers.X-A",
	}
	for _, name := range []string{
		"host", "Content-Length", "CONNECTION", "Transfer-Encoding", "te", "Upgrade", "Expect", "Accept-Encoding",
		"Content-Encoding",
		"Webhook-Id", "webhook-signature", "X-Job-Attempt",
		"traceparent", "X-Trace-Id", "Proxy-Authorization", "Proxy", "X-Forwarded-For", "User-Agent",
	} {
		cases[header(name, "1")] = "payload.headers." + name
	}
	for payload, field := range cases {
		err := r.Check("SEND_WEBHOOK", []byte(payload))
		var wrong *handler.PayloadError
		if !errors.As(err, &wrong) || field != "" && wrong.Field != field {
			t.Errorf("%.80s: %v, want a PayloadError of %q", payload, err, field)
		}
	}
	for _, payload := range []string{`{` + url + `}`, header("X-A", "a\tb"), header("Authorization", "Basic eDp5"),
		header("Cookie",
			"a=b"), `{` + url + `,"headers":{},"timeoutSeconds":300}`} {
		if err := r.Check("SEND_WEBHOOK", []byte(payload)); err != nil {
			t.Errorf("%s: %v", payload, err)
		}
	}
	if !slices.Equal(r.Types(), []string{"FORWARD_DOCUMENT", "SEND_WEBHOOK"}) {
		t.Errorf("types = %v", r.Types())
	}
}
