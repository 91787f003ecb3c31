package handlers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/tierq/tierq/internal/fuzz"
	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// inner matches texts that no user should see: names of types and packages, tierq's own and the standard
// library's.
var inner = regexp.MustCompile(`\b(handlers|job|errors|strconv|time|url|mail|mime|textproto|reflect)\.[A-Z]|json:|goroutine|\.go:\d|\bnil\b`)

// refusedWell checks what the refusal of a payload promises: it is a job.ErrBadPayload, it names fields, each part
// is short, and it shows no internals. Parts of sent may be repeated.
func refusedWell(t *testing.T, sent string, err error) {
	t.Helper()
	if !errors.Is(err, job.ErrBadPayload) {
		t.Errorf("refused with %v", err)
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		field, reason, _ := strings.Cut(line, ": ")
		if !strings.HasPrefix(field, "payload") || reason == "" || len(reason) > 300 {
			t.Errorf("refused with the line %.500q", line)
		}
		if m := inner.FindString(line); m != "" && !strings.Contains(sent, m) {
			t.Errorf("refused with %q, which says %q", line, m)
		}
	}
}

func payloadTarget(
	f *testing.F, r *handler.Registry, typ string, taken func(t *testing.T, payload string), seeds ...string,
) {
	fuzz.Text(f, func(t *testing.T, payload string) {
		err := r.Check(typ, []byte(payload))
		if again := r.Check(typ, []byte(payload)); (again == nil) != (err == nil) ||
			err != nil && again.Error() != err.Error() {
			t.Errorf("judged %v, then %v", err, again)
		}
		if err != nil {
			refusedWell(t, payload, err)
		} else if payload != "" {
			taken(t, payload)
		}
	}, append(seeds, "", "null", "{}", "[]", `{"a":{"b":[1,2]}}`, `{"a":1}{}`, `"text"`, "[[[[[[", "{\"\xff\":1}",
		`{"a":1e999999}`,
		`{"`+strings.Repeat("unknown", 60)+`":1}`,
		`{"title":`+strings.Repeat("9", 300)+`,"to":1,"steps":[{"durationMs":`+strings.Repeat("9",
			300)+`}]}`)...)
}

// readAs returns the payload as the handler gets it.
func readAs[T any](t *testing.T, payload string) (in T) {
	t.Helper()
	if err := json.Unmarshal([]byte(payload), &in); err != nil {
		t.Fatalf("it was taken, and cannot be read: %v", err)
	}
	return in
}

// Accepted steps are within their limits, and are accepted again after they are encoded.
func FuzzSimulation(f *testing.F) {
	f.Attr("proves", "A61")
	r := handler.NewRegistry()
	Register(r)
	payloadTarget(f, r, "SIMULATION", func(t *testing.T, payload string) {
		in := readAs[Simulation](t, payload)
		total := int64(0)
		for _, s := range in.Steps {
			for _, n := range []*int64{s.DurationMs, s.LatencyMs, s.Iterations} {
				if n != nil {
					total += *n
				}
				if n != nil && (*n < 0 || *n > maxIterations) {
					t.Errorf("a step asks for %d", *n)
				}
			}
			if _, known := kinds[s.Type]; !known || s.Message != nil && len(*s.Message) > maxMessage {
				t.Errorf("a step is %+v", s)
			}
		}
		if len(in.Steps) > maxSteps || total > maxSteps*maxIterations {
			t.Errorf("%d steps ask for %d", len(in.Steps), total)
		}
		text, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Check("SIMULATION", text); err != nil {
			t.Errorf("written as %s it is refused: %v", text, err)
		}
	}, `{"steps":[{"type":"SLEEP","durationMs":100},{"type":"LOG","message":"hi"},{"type":"COMPUTE","iterations":1000},`+
		`{"type":"HTTP_CALL","latencyMs":50},{"type":"FAIL","message":"boom"}]}`,
		`{"steps":[{"type":"SLEEP","durationMs":-1}]}`, `{"steps":[{"type":"SLEEP","durationMs":1e18}]}`,
		`{"steps":[{"type":"SLEEP","durationMs":9223372036854775808}]}`, `{"steps":[]}`,
		`{"steps":[{"type":"EXEC","message":"id"}]}`, `{"steps":null}`, `{"Steps":[{"TYPE":"FAIL"}]}`)
}

// An accepted webhook becomes one request: to the URL's host, with the user's headers and no other header from the
// user.
func FuzzWebhook(f *testing.F) {
	f.Attr("proves", "A37 A38 A39 A54")
	payloadTarget(f, outgoingTypes(wire{}), "SEND_WEBHOOK", func(t *testing.T, payload string) {
		in := readAs[Webhook](t, payload)
		u, err := handler.ReadURL(in.URL)
		if err != nil {
			t.Fatalf("it goes to %q: %v", in.URL, err)
		}
		r := &http.Request{Method: "POST", URL: u, Header: headersOf(in.Headers), Host: u.Host}
		var sent bytes.Buffer
		if err := r.Write(&sent); err != nil {
			t.Fatalf("it cannot be sent: %v", err)
		}
		read, err := http.ReadRequest(bufio.NewReader(&sent))
		if err != nil {
			t.Fatalf("it was sent as %q: %v", sent.String(), err)
		}
		own := map[string]bool{"User-Agent": true, "Content-Length": true}
		for name, values := range read.Header {
			if !own[name] && (len(values) != 1 || len(r.Header[name]) != 1 ||
				values[0] != strings.Trim(r.Header[name][0], " \t")) ||
				isReserved(name) && !own[name] {
				t.Errorf("%s: %q arrives, %q was asked for", name, values, r.Header[name])
			}
		}
		if read.Host != u.Host || read.RequestURI != u.RequestURI() {
			t.Errorf("it goes to %q %q", read.Host, read.RequestURI)
		}
	}, `{"url":"https://example.org/hook","body":{"a":[1,1e400]},"headers":{"authorization":"Bearer x","X-Mine":"yes"},`+
		`"timeoutSeconds":5}`,
		`{"url":"http://example.org","headers":{"Host":"evil"}}`,
		`{"url":"http://example.org","headers":{"X":"a\r\nHost: evil"}}`,
		`{"url":"http://example.org","headers":{"A b":"c","x":"1","X":"2"}}`,
		`{"url":"gopher://example.org:25/_x"}`, `{"url":"http://a@b"}`, `{"url":"http://evil#@good"}`,
		`{"url":"http://example.org","timeoutSeconds":301}`, `{"url":"http://example.org","body":null}`)
}

// An accepted mail goes to plain addresses, with a subject of one line.
func FuzzEmail(f *testing.F) {
	f.Attr("proves", "A55")
	r := handler.NewRegistry()
	RegisterMail(r, nil)
	payloadTarget(f, r, "SEND_EMAIL", func(t *testing.T, payload string) {
		in := readAs[Email](t, payload)
		seen := map[string]bool{}
		for _, to := range in.To {
			if handler.ReadAddress(to) != nil || seen[to] {
				t.Errorf("it goes to %q", in.To)
			}
			seen[to] = true
		}
		if len(in.To) < 1 || len(in.To) > maxRecipients || in.Subject == "" ||
			strings.ContainsFunc(in.Subject, unicode.IsControl) ||
			strings.Contains(in.Body+in.HTML, "\x00") {
			t.Errorf("taken: %+v", in)
		}
		text, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Check("SEND_EMAIL", text); err != nil {
			t.Errorf("written as %s it is refused: %v", text, err)
		}
	}, `{"to":"a@b.example","subject":"Hello","body":"Text","html":"<p>Text</p>"}`,
		`{"to":["a@b","c@d"],"subject":"x","body":"y"}`,
		`{"to":"a@b\r\nBcc: c@d","subject":"x","body":"y"}`,
		`{"to":"\"x> RCPT TO:<y\"@z","subject":"x","body":"y"}`, `{"to":"a@b","subject":"x\r\nBcc: c@d","body":"y"}`,
		`{"to":"a@b","subject":"\u0085","body":"y\u0000"}`, `{"to":[],"subject":"x","body":"y"}`,
		`{"to":{"a":"b"},"subject":"x","body":"y"}`, `{"to":["a@b","a@b"],"subject":"=?utf-8?q?=0d=0a?=","body":"y"}`)
}

// An accepted document is laid out, or is refused as too long, within the limits of time and size.
func FuzzDocument(f *testing.F) {
	f.Attr("proves", "A23")
	r := handler.NewRegistry()
	RegisterDocuments(r, nil, nil)
	payloadTarget(f, r, "GENERATE_PDF", func(t *testing.T, payload string) {
		if len(payload) > 2000 { // other tests cover long ones, whose layout is slow
			return
		}
		body, err := render(t.Context(), readAs[Document](t, payload), time.Unix(1, 0))
		switch {
		case err != nil && !handler.Judge(err).Permanent:
			t.Errorf("laid out again and again: %v", err)
		case err == nil && (!bytes.HasPrefix(body, []byte("%PDF-")) || len(body) > 4<<20):
			t.Errorf("%d bytes, %.10q", len(body), body)
		}
	}, `{"title":"Report","paragraphs":["One.","Two."],"table":{"header":["a","b"],"rows":[["x",1],[null,true]]}}`,
		`{"title":"漢字 \u202e \ud83d\ude00","paragraphs":["\u0000\r\n\t"]}`,
		`{"title":"x","table":{"header":[],"rows":[]}}`, `{"title":"x","table":{"header":["a"],"rows":[["x","y"]]}}`,
		`{"title":"x","table":{"header":["a"],"rows":[[{"b":1}]]}}`, `{"title":""}`)
}

// The window of an accepted report begins before it ends, and is a month at most.
func FuzzReport(f *testing.F) {
	f.Attr("proves", "A21")
	r := handler.NewRegistry()
	RegisterDocuments(r, nil, nil)
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	payloadTarget(f, r, "REPORT", func(t *testing.T, payload string) {
		in := readAs[Report](t, payload)
		if from, to := in.window(now); to.Sub(from) > maxWindow ||
			in.Format != "" && in.Format != "csv" && in.Format != "pdf" {
			t.Errorf("%s to %s as %q", from, to, in.Format)
		}
	}, `{"kind":"jobs","from":"2026-04-01T00:00:00Z","to":"2026-04-02T00:00:00Z","format":"csv"}`,
		`{"from":"2026-04-01T00:00:00+14:00"}`,
		`{"to":"0001-01-01T00:00:00Z"}`,
		`{"from":"9999-12-31T23:59:59Z"}`, `{"from":"2026-04-02T00:00:00Z","to":"2026-04-01T00:00:00Z"}`,
		`{"from":"2026-02-30T00:00:00Z"}`,
		`{"kind":"users"}`, `{"format":"exe"}`)
}

// An accepted document is looked up at the named hosts, under a path that ends in its id.
func FuzzForward(f *testing.F) {
	f.Attr("proves", "A38 A39")
	payloadTarget(f, outgoingTypes(wire{}), "FORWARD_DOCUMENT", func(t *testing.T, payload string) {
		in := readAs[Forward](t, payload)
		for _, e := range in.Endpoints {
			named, err := handler.ReadURL(e)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range []string{lookupURL(e, in.DocumentID), submitURL(e)} {
				u, err := url.Parse(call)
				if err != nil || u.Host != named.Host || u.RawQuery != "" || u.Fragment != "" {
					t.Fatalf("%q is called as %q, %v", e, call, err)
				}
			}
			u, _ := url.Parse(lookupURL(e, in.DocumentID))
			if !strings.HasSuffix(u.Path, "/documents/"+in.DocumentID) {
				t.Errorf("%q is asked for as %q", in.DocumentID, u.Path)
			}
		}
	}, `{"documentId":"doc/1","contentType":"application/json","body":{"a":1},"endpoints":["https://example.org",`+
		`"http://b.example/base/"]}`,
		`{"documentId":"..","contentType":"a/b","body":1,"endpoints":["http://a"]}`,
		`{"documentId":"a?b#c%2f","contentType":"a/b","body":null,"endpoints":["http://a/"]}`,
		`{"documentId":"x","contentType":"a/b","body":1,"endpoints":["http://a?x=y"]}`,
		`{"documentId":"x","contentType":"a\r\nb","body":1,"endpoints":["http://a","http://a/"]}`)
}
