package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// downstream is an endpoint of a test: its two functions answer, and it records the methods of its calls.
type downstream struct {
	*httptest.Server
	mu     sync.Mutex
	calls  []string
	lookup func(call int) (status int, body string)
	submit func(call int) (status int, body string)
	after  string // the Retry-After of all answers
}

func always(status int, body string) func(int) (int, string) {
	return func(int) (int, string) { return status, body }
}

var unknownThere = always(404, "")

func endpoint(t *testing.T, d *downstream) *downstream {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(how *func(int) (int, string)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			d.mu.Lock()
			defer d.mu.Unlock()
			said := r.Method
			if r.Method == http.MethodPost {
				body, _ := io.ReadAll(r.Body)
				said += " " + string(body)
			} else if id := r.PathValue("id"); id != "doc/1" {
				said += " " + id
			}
			n := 0
			for _, c := range d.calls {
				if c[:3] == said[:3] {
					n++
				}
			}
			d.calls = append(d.calls, said)
			status, body := (*how)(n)
			w.Header().Set("Retry-After", d.after)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	mux.HandleFunc("GET /base/documents/{id}", answer(&d.lookup))
	mux.HandleFunc("POST /base/documents", answer(&d.submit))
	d.Server = httptest.NewServer(mux)
	t.Cleanup(d.Close)
	return d
}

// honest knows a document after it has received the document, and then signals the test.
func honest(t *testing.T, got chan<- struct{}) *downstream {
	d := &downstream{submit: func(int) (int, string) { got <- struct{}{}; return 202, "" }}
	d.lookup = func(int) (int, string) {
		if slices.ContainsFunc(d.calls, func(c string) bool { return strings.HasPrefix(c, "POST") }) {
			return 200, `{"status":"MANAGED"}`
		}
		return 404, ""
	}
	return endpoint(t, d)
}

func (d *downstream) heard() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var methods []string
	for _, c := range d.calls {
		methods = append(methods, strings.Fields(c)[0])
	}
	return strings.Join(methods, " ")
}

// delivery is a FORWARD_DOCUMENT job over its attempts: each attempt finds the checkpoint of the one before.
type delivery struct {
	t     *testing.T
	types *handler.Registry
	in    Forward
	saved []byte
	save  func(context.Context, []byte) error // nil = saves succeed
	saves int

	waited time.Duration // since the job's first attempt
	note   string        // of the last result
}

func deliver(t *testing.T, to ...*downstream) *delivery {
	d := &delivery{t: t, types: outgoingTypes(wire{}), in: Forward{DocumentID: "doc/1", ContentType: "text/plain",
		Body: json.RawMessage(`"hello"`)}}
	for _, e := range to {
		d.in.Endpoints = append(d.in.Endpoints, e.URL+"/base/")
	}
	return d
}

var firstTried = time.Date(2026, 5, 1, 11, 31, 57, 0, time.UTC)

// attempt runs the handler once and returns the endpoints' statuses.
func (d *delivery) attempt() (string, error) {
	d.t.Helper()
	payload, err := json.Marshal(d.in)
	if err != nil {
		d.t.Fatal(err)
	}
	run := handler.Run{
		ID:           theJob,
		Attempt:      1,
		FirstTriedAt: firstTried,
		StartedAt:    firstTried.Add(d.waited),
		Saved:        d.saved,
		Save: func(ctx context.Context, text []byte) error {
			d.saves++
			if d.save != nil {
				return d.save(ctx, text)
			}
			d.saved = slices.Clone(text)
			return nil
		},
	}
	result, err := d.types.Run(handler.WithRun(d.t.Context(), run), "FORWARD_DOCUMENT", payload)
	if err != nil {
		return "", err
	}
	var out Forwarded
	if err := json.Unmarshal(result, &out); err != nil {
		d.t.Fatal(err)
	}
	d.note = out.Note
	var statuses []string
	for i, e := range out.Endpoints {
		if e.URL != d.in.Endpoints[i] {
			d.t.Errorf("endpoint %d is %s", i, e.URL)
		}
		statuses = append(statuses, string(e.Status))
	}
	return strings.Join(statuses, " "), nil
}

// One endpoint takes the document, one is busy at first, one refuses. The busy one chooses the time of the next
// attempt, and no endpoint gets the document twice.
func TestForward(t *testing.T) {
	t.Attr("proves", "S3-I13 S3-I14 S3-Q5 S3-I3 S3-I11 S3-S9 S3-S13")
	takes := endpoint(t, &downstream{lookup: unknownThere, submit: always(201, `{"status":"MANAGED"}`)})
	busy := endpoint(t, &downstream{lookup: unknownThere, after: "90", submit: func(call int) (int, string) {
		if call == 0 {
			return 503, ""
		}
		return 202, ""
	}})
	refuses := endpoint(t, &downstream{lookup: unknownThere, submit: always(422, `{"detail":"too long"}`)})
	d := deliver(t, takes, busy, refuses)
	_, err := d.attempt()
	if v := handler.Judge(err); v.Later != 90*time.Second || v.Permanent {
		t.Fatalf("first attempt: %v, %+v, want later in 90 s", err, v)
	}
	got, err := d.attempt()
	if err != nil || got != "MANAGED SUBMITTED REJECTED" {
		t.Errorf("second attempt: %s, %v", got, err)
	}
	if takes.heard() != "GET POST" || busy.heard() != "GET POST GET POST" || refuses.heard() != "GET POST" {
		t.Errorf("called: %q, %q, %q", takes.heard(), busy.heard(), refuses.heard())
	}
	if want := `POST {"documentId":"doc/1","contentType":"text/plain","body":"hello"}`; takes.calls[1] != want ||
		takes.calls[0] != "GET" {
		t.Errorf("called %q, want %q", takes.calls, want)
	}
}

// After a crash following any answer, the next attempt continues from the checkpoint. Without a checkpoint the
// lookups find the submitted documents.
func TestForwardAfterCrash(t *testing.T) {
	t.Attr("proves", "S3-I14")
	crash := errors.New("the process died")
	for _, keeps := range []int{0, 1, 2} { // the number of saves that reach the store before the crash
		got := make(chan struct{}, 10)
		a, b := honest(t, got), honest(t, got)
		d := deliver(t, a, b)
		d.save = func(_ context.Context, text []byte) error {
			if d.saves > keeps {
				if keeps == 0 { // the crash comes when both endpoints have the document and nothing is saved
					<-got
					<-got
				}
				return fmt.Errorf("%w: %w", handler.ErrLeaseLost, crash)
			}
			d.saved = slices.Clone(text)
			return nil
		}
		if _, err := d.attempt(); keeps == 0 && !errors.Is(err, handler.ErrLeaseLost) {
			t.Errorf("with %d saves: %v", keeps, err)
		}
		d.save = nil
		if got, err := d.attempt(); err != nil || got != "MANAGED MANAGED" {
			t.Errorf("after the crash: %s, %v", got, err)
		}
		for _, e := range []*downstream{a, b} {
			if n := strings.Count(e.heard(), "POST"); n != 1 {
				t.Errorf("with %d saves: submitted %d times", keeps, n)
			}
		}
		before := a.heard() + b.heard()
		if got, err := d.attempt(); err != nil || got != "MANAGED MANAGED" || a.heard()+b.heard() != before {
			t.Errorf("all ended: %s, %v, called %q", got, err, a.heard()+b.heard())
		}
	}
}

// A document that an endpoint knows already is not submitted. A document that it acknowledged is only looked up.
func TestForwardLooksUpFirst(t *testing.T) {
	t.Attr("proves", "S3-I14 S3-S5 S3-S7 S3-S8")
	has := endpoint(t, &downstream{lookup: always(200, `{"status":"MANAGED"}`)})
	has2 := endpoint(t, &downstream{lookup: always(200, `{"status":"queued"}`)})
	lost := endpoint(t, &downstream{lookup: unknownThere, submit: always(202, "")})
	down := endpoint(t, &downstream{lookup: always(500, "")})
	d := deliver(t, has, has2, lost, down)
	_, err := d.attempt()
	if err == nil || err.Error() != "1 of 4 endpoints failed: 127.0.0.1 answered 500" ||
		handler.Judge(err) != (handler.Verdict{RetryAfter: -1}) {
		t.Fatalf("first attempt: %v", err)
	}
	down.lookup = always(404, "")
	down.submit = always(409, `{"message":"here\nalready"}`)
	if got, err := d.attempt(); err != nil || got != "MANAGED SUBMITTED SUBMITTED SUBMITTED" {
		t.Errorf("second attempt: %s, %v", got, err)
	}
	if has.heard() != "GET" || has2.heard() != "GET GET" || lost.heard() != "GET POST GET" ||
		down.heard() != "GET GET POST" {
		t.Errorf("called: %q, %q, %q, %q", has.heard(), has2.heard(), lost.heard(), down.heard())
	}
}

func TestForwardFails(t *testing.T) {
	t.Attr("proves", "S3-S6 S3-S10 S3-S13")
	down := endpoint(t, &downstream{lookup: unknownThere, submit: always(502, "")})
	busy := endpoint(t, &downstream{lookup: always(429, ""), after: "7"})
	refuses := endpoint(t, &downstream{lookup: unknownThere, submit: always(400, "")})
	closed := endpoint(t, &downstream{})
	closed.Close()

	if _, err := deliver(t, down, busy).attempt(); handler.Judge(err).RetryAfter != 7*time.Second ||
		handler.Judge(err).Later > 0 {
		t.Errorf("one down, one busy: %v, want a retry when the busy one asks", err)
	}
	if _, err := deliver(t, closed, refuses).attempt(); err == nil || handler.Judge(err).Permanent ||
		!strings.Contains(err.Error(), "1 of 2 endpoints failed: 127.0.0.1 no answer") {
		t.Errorf("one is not there: %v, want a retry", err)
	}
	_, err := deliver(t, refuses).attempt()
	if !handler.Judge(err).Permanent || err.Error() != "every endpoint rejects the document: 127.0.0.1 answered 400" {
		t.Errorf("all refuse: %v, want no retry", err)
	}
	d := deliver(t, refuses)
	d.types = outgoingTypes(wire{closed: func(string) error { return errors.New("leads inside") }})
	if _, err := d.attempt(); !handler.Judge(err).Permanent {
		t.Errorf("refused by the guard: %v, want no retry", err)
	}
}

// A checkpoint that could not be saved does not fail the job if all endpoints have ended: the result has all
// statuses. Otherwise the next attempt looks all documents up again.
func TestForwardUnsaved(t *testing.T) {
	takes := endpoint(t, &downstream{lookup: unknownThere, submit: always(202, "")})
	d := deliver(t, takes)
	d.save = func(context.Context, []byte) error { return job.ErrUnavailable }
	if got, err := d.attempt(); err != nil || got != "SUBMITTED" {
		t.Errorf("%s, %v", got, err)
	}
	busy := endpoint(t, &downstream{lookup: always(503, "")})
	d.in.Endpoints = append(d.in.Endpoints, busy.URL+"/base")
	if _, err := d.attempt(); handler.Judge(err).Later != defaultWait || !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("with a busy one: %v", err)
	}
}

func TestForwardEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel(handler.ErrDraining)
		<-r.Context().Done()
	}))
	defer hangs.Close()
	_, err := outgoingTypes(wire{}).Run(ctx, "FORWARD_DOCUMENT",
		[]byte(`{"documentId":"1","contentType":"a/b","body":1,"endpoints":["`+hangs.URL+`"]}`))
	if !errors.Is(err, handler.ErrDraining) {
		t.Errorf("error = %v, want the cause", err)
	}
}
