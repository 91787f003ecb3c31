package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/fuzz"
	"github.com/tierq/tierq/internal/job"
)

func TestRedact(t *testing.T) {
	for _, c := range []struct{ text, names, want string }{
		{`{"to":"ada@example.org","n":1}`, "to", `{"to":"***","n":1}`},
		{`{ "to" : "ada" , "n" : 1.50e+3 }`, "to", `{ "to" : "***" , "n" : 1.50e+3 }`},
		{`{"to":{"a":[1,{"to":2}]},"x":[{"deep":{"TO":null}}]}`, "to", `{"to":"***","x":[{"deep":{"TO":"***"}}]}`},
		{`{"To":1,"tO":2,"to":3,"too":4}`, "to", `{"To":"***","tO":"***","to":"***","too":4}`},
		{`{"\u0074o":1,"a":"to","to":true}`, "to", `{"\u0074o":"***","a":"to","to":"***"}`},
		{`{"a":1,"b":2,"c":3}`, "a c", `{"a":"***","b":2,"c":"***"}`},
		{`["to",{"to":1},"to"]`, "to", `["to",{"to":"***"},"to"]`},
		{`"to"`, "to", `"to"`},
		{`12`, "to", `12`},
		{`{"a":1}`, "", `{"a":1}`},
		{`{"a":1}`, "*", `"***"`},
		{`{"a":1}`, "a *", `"***"`},
		{``, "*", ``},
		{`{"to":1`, "to", `"***"`},
		{`{"x":"secret"`, "to", `"***"`},
		{`not JSON: secret`, "to", `"***"`},
		{`{"to":tru}`, "to", `"***"`},
		{`{"x":1}{"to":2}`, "to", `{"x":1}{"to":"***"}`},
		{strings.Repeat(`{"a":`, 20000) + `"secret"`, "to", `"***"`},
		{`{"` + "\xff" + `":1,"to":2}`, "to", `{"` + "\xff" + `":1,"to":"***"}`},
		{`{"K":1}`, "\u212a", `{"K":"***"}`},
	} {
		if got := string(redact([]byte(c.text), strings.Fields(c.names))); got != c.want {
			t.Errorf("%.100s without %q: %.100s, want %s", c.text, c.names, got, c.want)
		}
	}
}

func TestOriginsOnly(t *testing.T) {
	t.Attr("proves", "A11")
	for text, want := range map[string]string{
		``: ``,
		`{"url":"https://u:p@a.example:8443/x?y=z#f","n":1.50e+3}`: `{"url":"https://a.example:8443","n":1.50e+3}`,
		`{ "endpoints" : [ "http://a/x" , "http://[::1]/y" ] }`:    `{ "endpoints" : [ "http://a" , "http://[::1]" ] }`,
		`{"endpoints":[{"url":"http://a/x",` +
			`"detail":"http://a/x"}]}`: `{"endpoints":[{"url":"http://a","detail":"http://a/x"}]}`,
		`{"event":{"data":{"result":{"URL":"http://a/x"}}}}`: `{"event":{"data":{"result":{"URL":"http://a"}}}}`,
		`{"\u0075rl":"http:\/\/a\/x"}`:                       `{"\u0075rl":"http://a"}`,
		`{"url":"no address"}`:                               `{"url":"***"}`,
		`{"url":"***","body":"url"}`:                         `{"url":"***","body":"url"}`,
		`{"url":7,"x":["http://a/x"],"y":"http://a/x"}`:      `{"url":7,"x":["http://a/x"],"y":"http://a/x"}`,
		`{"url":"http://a/x"`:                                `"***"`,
		`http://a/x`:                                         `"***"`,
		`"http://a/x"`:                                       `"http://a/x"`,
	} {
		if got := string(originsOnly([]byte(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// For any stored text, no value of a redacted member remains, and a text that is not JSON is hidden whole.
func FuzzRedact(f *testing.F) {
	f.Attr("proves", "A11")
	fuzz.Text(f, func(t *testing.T, text string) {
		out := redact([]byte(text), []string{"to"})
		if !json.Valid([]byte(text)) {
			return
		}
		d := json.NewDecoder(bytes.NewReader(out))
		d.UseNumber() // some numbers do not fit into a float64
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%q became %q: %v", text, out, err)
		}
		if left := below("to", v); left != nil {
			t.Errorf("%q became %q", text, out)
		}
		if again := redact(out, []string{"to"}); !bytes.Equal(again, out) {
			t.Errorf("%q, and again %q", out, again)
		}
	}, `{"to":"x","a":[{"TO":1}]}`, `[]`, `{"a":{"to":{}}}`, `{"to":`, `"\u0074o"`, `{"\u0074o":[1,2]}`)
}

// below returns a value that a member with this name has anywhere in v and that is not hidden; nil if there is
// none.
func below(name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for n, inner := range v {
			if strings.EqualFold(n, name) && inner != veiled {
				return inner
			}
			if left := below(name, inner); left != nil {
				return left
			}
		}
	case []any:
		for _, inner := range v {
			if left := below(name, inner); left != nil {
				return left
			}
		}
	}
	return nil
}

// secretly fills the rooms with one job of a type. Its payload, result and errors contain secrets.
func (r *rooms) secretly(typ string) {
	j := job.Job{
		ID: knownID, Type: typ, Tier: job.Paid, Status: job.Failed, Attempt: 2, Generation: 1, Owner: theirs,
		ArrivedAt: aMoment, EndedAt: aMoment,
		Options: job.Options{CallbackURL: "https://x.example/e3rror"},
		Payload: []byte(`{"to":"s3cret","kind":"plain"}`), Result: []byte(`{"sent":[{"to":"s3cret"}],"kind":"plain"}`),
		Cause: job.HandlerError, LastError: "no such mailbox: e3rror", Note: "refused by e3rror",
	}
	r.find = func(job.ID) (job.Job, error) { return j, nil }
	r.attempts = []job.Attempt{
		{
			Number:  1,
			Outcome: "HANDLER_ERROR",
			Error:   "no such mailbox: e3rror",
		}, {Number: 2, Outcome: "LATER", Error: "e3rror says wait", Until: aMoment},
	}
	r.list = func(job.Filter, string, int) ([]job.Job, string, error) { return []job.Job{j}, "", nil }
	r.letters = []job.DeadLetter{{Job: j}}
	r.dead = func(job.Filter, string, int) ([]job.DeadLetter, string, error) {
		return []job.DeadLetter{{Job: j}}, "", nil
	}
	r.await = func(context.Context, job.ID, func(*job.Job) bool) (job.Job, error) { return j, nil }
	r.follow = func(_ context.Context, heard func(job.Job) error) error { return heard(j) }
	r.why = func() (Why, error) { return Why{Job: j}, nil }
	r.artifact = func() (io.ReadCloser, string, string, int64, error) {
		return io.NopCloser(strings.NewReader("s3cret")), "a.csv", "text/csv", 6, nil
	}
}

var lookedAt = []string{
	"/jobs/" + string(knownID), "/api/jobs/" + string(knownID), pollKnown, pollKnown + "&wait=1s",
	"/api/jobs/" + string(knownID) + "/events",
	"/api/jobs/" + string(knownID) + "/why", "/jobs/" + string(knownID) + "/artifact",
	"/admin/jobs", "/api/jobs", "/jobs/dead", "/admin/dead", "/admin/dead/export",
}

// A read-only key does not see redacted values wherever a payload, a result or an error is shown. Other keys see
// all of them. The payload of a callback contains values of its job, whose type may be redacted.
func TestRedact_OfCallbacks(t *testing.T) {
	t.Attr("proves", "A11")
	for hidden, want := range map[string]map[string]bool{
		"MAIL": {"s3cret": false, "t0ken": false, "example.com": true}, "": {"s3cret": true, "t0ken": false,
			"example.com": true},
	} {
		r := newRooms(t)
		if hidden != "" {
			r.deps.Redact = map[string][]string{hidden: {"to"}}
		}
		r.behind(callers["read-only"])
		j := job.Job{ID: knownID, Tier: job.Paid, Status: job.Failed, Attempt: 2, Generation: 1, ArrivedAt: aMoment,
			EndedAt: aMoment}
		j.Type, j.Payload = "CALLBACK",
			[]byte(`{"id":"x_1","url":"https://example.com/t0ken","event":{"data":{"type":"MAIL",`+
				`"result":{"accepted":["s3cret"]},"lastError":"s3cret"}}}`)
		r.find = func(job.ID) (job.Job, error) { return j, nil }
		body := r.do("GET", "/jobs/"+string(knownID), "").Body.String()
		for what, want := range want {
			if strings.Contains(body, what) != want {
				t.Errorf("with %q hidden, %s is shown: %v: %s", hidden, what, !want, body)
			}
		}
	}
}

func TestRedact_Everywhere(t *testing.T) {
	t.Attr("proves", "A11")
	for _, c := range []struct {
		who, typ              string
		secret, errors, plain bool // the parts of the job that may be seen
		file                  int
	}{
		{"admin", "MAIL", true, true, true, 200},
		{"open", "ALL", true, true, true, 200},
		{"read-only", "MAIL", false, true, true, 403},
		{"read-only", "ALL", false, false, false, 403},
		{"read-only", "OTHER", true, true, true, 200},
	} {
		r := newRooms(t)
		r.deps.Redact = map[string][]string{"MAIL": {"to", "subject"}, "ALL": {"*"}}
		r.behind(callers[c.who])
		var all strings.Builder
		for _, path := range lookedAt {
			r.secretly(c.typ)
			rec := r.do("GET", path, "")
			if want := map[bool]int{true: c.file, false: 200}[strings.HasSuffix(path, "artifact")]; rec.Code != want {
				t.Errorf("%s, %s, %s: %d, want %d: %s", c.who, c.typ, path, rec.Code, want, rec.Body)
			}
			all.WriteString(rec.Body.String())
			for what, may := range map[string]bool{"s3cret": c.secret, "e3rror": c.errors, "plain": c.plain} {
				if strings.Contains(rec.Body.String(), what) && !may {
					t.Errorf("%s, %s, %s: %q is shown: %s", c.who, c.typ, path, what, rec.Body)
				}
			}
		}
		for what, may := range map[string]bool{"s3cret": c.secret, "e3rror": c.errors, "plain": c.plain} {
			if may && !strings.Contains(all.String(), what) {
				t.Errorf("%s, %s: %q is shown nowhere", c.who, c.typ, what)
			}
		}
		if strings.Contains(r.log.String(), "s3cret") || strings.Contains(r.log.String(), "e3rror") {
			t.Errorf("logged: %s", &r.log)
		}
	}
}

// Markup in a user's text is returned as text, in a body that no browser takes for a page.
func TestMarkupIsText(t *testing.T) {
	t.Attr("proves", "A46")
	const markup = `<script>alert(1)</script>`
	j := job.Job{
		ID: knownID, Type: "SIMULATION", Tier: job.Paid, Status: job.Failed, Attempt: 1, Generation: 1, ArrivedAt: aMoment,
		EndedAt: aMoment.Add(time.Second),
		Payload: []byte(`{"a":"` + markup + `"}`), Result: []byte(`{"b":"` + markup + `"}`), Cause: job.HandlerError,
		LastError: markup, TraceID: "t",
	}
	r := newRooms(t)
	r.secretly("SIMULATION")
	r.find = func(job.ID) (job.Job, error) { return j, nil }
	r.attempts = []job.Attempt{{Number: 1, Outcome: "HANDLER_ERROR", Error: markup, Worker: markup}}
	r.list = func(job.Filter, string, int) ([]job.Job, string, error) { return []job.Job{j}, "", nil }
	r.letters = []job.DeadLetter{{Job: j}}
	r.dead = func(job.Filter, string, int) ([]job.DeadLetter, string, error) {
		return []job.DeadLetter{{Job: j}}, "", nil
	}
	r.await = func(context.Context, job.ID, func(*job.Job) bool) (job.Job, error) { return j, nil }
	r.follow = func(_ context.Context, heard func(job.Job) error) error { return heard(j) }
	r.artifact = func() (io.ReadCloser, string, string, int64, error) {
		return io.NopCloser(strings.NewReader(markup)), `x".html`, "application/octet-stream", int64(len(markup)), nil
	}
	for _, path := range lookedAt {
		rec := r.do("GET", path, "")
		h := rec.Header()
		kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
		switch {
		case strings.HasSuffix(path, "artifact"):
			if !strings.HasPrefix(h.Get("Content-Disposition"), "attachment; ") {
				t.Errorf("a file is shown, not saved: %v", h)
			}
		case kind != "application/json" && kind != "text/event-stream" && kind != "application/x-ndjson":
			t.Errorf("%s: %q", path, kind)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %v", path, h)
		}
		if kind != "application/json" || strings.HasSuffix(path, "why") {
			continue
		}
		var body any
		if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if text, _ := json.Marshal(body); !strings.Contains(string(text), `\u003cscript\u003ealert(1)\u003c/script\u003e`) {
			t.Errorf("%s: not as it was: %s", path, rec.Body)
		}
	}
	for _, body := range []string{`{"type":"` + markup + `"}`, `{"` + markup + `":1}`, `{"payload":` + markup + `}`} {
		rec := r.post(body)
		if rec.Code != 400 || rec.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", body, rec.Code, rec.Header())
		}
	}
}
