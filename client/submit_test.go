package client

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/client/internal/fake"
)

// A program needs one dependency and two lines for a first job: the server's address, and submit(type, map).
func TestFirstJob(t *testing.T) {
	t.Attr("proves", "S1-P6")
	s, _ := newServer(t)

	c := New(s.URL)
	id, err := c.Submit(soon(t), Paid, "SEND_EMAIL", map[string]any{"to": "ada@example.com", "subject": "a < b"})

	t.Cleanup(c.Close)
	if err != nil {
		t.Fatal(err)
	}
	jobs := s.Jobs()
	if len(jobs) != 1 || jobs[0].ID != id || jobs[0].Tier != "PAID" || jobs[0].Type != "SEND_EMAIL" {
		t.Fatalf("id %s, jobs %+v", id, jobs)
	}
	if got := string(jobs[0].Payload); got != `{"subject":"a < b","to":"ada@example.com"}` {
		t.Errorf("payload %s", got)
	}
}

func TestSubmit_SendsEveryOption(t *testing.T) {
	s, c := newServer(t, WithToken("tq_1_secret"), WithUserAgent("bank/1.0"))
	headers := make(chan http.Header, 2)
	s.Faults(func(_ int, r *http.Request) fake.Fault { headers <- r.Header.Clone(); return fake.Fault{} })
	at := time.Date(2026, 12, 1, 9, 0, 0, 0, time.FixedZone("", 3600))
	_, err := c.Submit(soon(t), "Gold_2", "REPORT", json.RawMessage(`{"b":1,"a":2}`),
		IdempotencyKey("order-7"), MaxRetries(0), RunAt(at), CallbackURL("https://example.com/hook"), TraceID("trace-1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Submit(soon(t), Public, "", nil, Delay(1500*time.Microsecond)); err != nil {
		t.Fatal(err)
	}
	jobs := s.Jobs()
	for i, want := range []fake.Job{
		{Tier: "GOLD_2", Key: "order-7", Trace: "trace-1",
			Body: `{"type":"REPORT","payload":{"b":1,"a":2},"maxRetries":0,"runAt":"2026-12-01T08:00:00Z",` +
				`"callbackUrl":"https://example.com/hook"}`},
		{Tier: "PUBLIC", Key: jobs[1].Key, Body: `{"delaySeconds":0.002}`},
	} {
		if got := jobs[i]; got.Tier != want.Tier || got.Key != want.Key || got.Trace != want.Trace || got.Body != want.Body {
			t.Errorf("job %d: %+v", i, got)
		}
	}
	if len(jobs[1].Key) < 26 { // base 32: 130 bits
		t.Errorf("key of its own: %q", jobs[1].Key)
	}
	h := <-headers
	if h.Get("Authorization") != "Bearer tq_1_secret" || h.Get("User-Agent") != "bank/1.0" ||
		h.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", h)
	}
}

func TestSubmitJob_SaysWhatTheServerSays(t *testing.T) {
	s, c := newServer(t)
	first, err := c.SubmitJob(soon(t), Unpaid, Submission{IdempotencyKey: "k"})
	if err != nil || first.Status != Pending || first.Replayed || first.RetryAfter != time.Second ||
		first.TraceID != "trace-of-"+first.JobID {
		t.Errorf("%+v, %v", first, err)
	}
	again, err := c.SubmitJob(soon(t), Unpaid, Submission{IdempotencyKey: "k"})
	if err != nil || again.JobID != first.JobID || !again.Replayed {
		t.Errorf("again: %+v, %v", again, err)
	}
	_, err = c.SubmitJob(soon(t), Unpaid, Submission{IdempotencyKey: "k", Type: "REPORT"})
	if !errors.Is(err, ErrMismatch) || len(s.Jobs()) != 1 {
		t.Errorf("another job under the key: %v, %d jobs", err, len(s.Jobs()))
	}
}

// A submit makes one job and the caller gets its id, whichever message is lost.
func TestSubmit_NeverDoubles(t *testing.T) {
	t.Attr("proves", "S1-P6")
	for name, f := range map[string]fake.Fault{
		"dropped before":   {DropBefore: true},
		"dropped after":    {DropAfter: true},
		"answer cut":       {CutAnswer: true},
		"silent":           {Silent: true},
		"502 after":        {StatusDone: 502},
		"503":              {Status: 503, Code: "SYSTEM_UNHEALTHY"},
		"503 of a proxy":   {Status: 503, Type: "text/html", Body: "<h1>away</h1>"},
		"504 after":        {StatusDone: 504, Code: "OUTCOME_UNKNOWN"},
		"429":              {Status: 429, Code: "RATE_LIMITED"},
		"503 with a wait":  {Status: 503, Code: "QUEUE_FULL", RetryAfter: "0"},
		"503 with a date":  {Status: 503, Code: "QUEUE_FULL", RetryAfter: "Fri, 01 May 2026 11:31:57 GMT"},
		"503 with nothing": {Status: 503, Code: "QUEUE_FULL", RetryAfter: "soon"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := newServer(t, WithTimeout(300*time.Millisecond))
			s.Faults(firstOnly(3, f))
			id, err := c.Submit(soon(t), Paid, "SEND_EMAIL", map[string]any{"to": "ada@example.com"})
			if err != nil {
				t.Fatal(err)
			}
			if jobs := s.Jobs(); len(jobs) != 1 || jobs[0].ID != id {
				t.Errorf("id %s, jobs %+v", id, jobs)
			}
			if n := len(s.Seen()); n < 4 {
				t.Errorf("%d requests: nothing was tried again", n)
			}
		})
	}
}

// A submit during a short outage succeeds, and makes one job.
func TestSubmit_OverARestart(t *testing.T) {
	s := fake.New()
	defer s.Close()
	addr := strings.TrimPrefix(s.URL, "http://")
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := front.Addr().String()
	front.Close() // the port is free, so connections are refused

	refused := make(chan struct{})
	var once sync.Once
	c := New("http://"+at, WithTries(100), WithBackoff(5*time.Millisecond, 50*time.Millisecond))
	defer c.Close()
	inner := c.http.Transport
	c.http.Transport = wire(func(r *http.Request) (*http.Response, error) {
		resp, err := inner.RoundTrip(r)
		if err != nil {
			once.Do(func() { close(refused) })
		}
		return resp, err
	})
	up := make(chan *http.Server, 1)
	go func() {
		<-refused
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Error(err)
		}
		server := &http.Server{Handler: s}
		up <- server
		_ = server.Serve(l) // until the test closes it
	}()
	_, err = c.Submit(soon(t), Paid, "REPORT", nil)
	server := <-up
	defer server.Close()
	if err != nil || len(s.Jobs()) != 1 {
		t.Errorf("%v, %d jobs at %s", err, len(s.Jobs()), addr)
	}
}

func TestSubmit_RefusalsAreFinal(t *testing.T) {
	for status, sentinel := range map[int]error{
		400: ErrInvalid, 401: ErrUnauthorized, 403: ErrUnauthorized, 404: ErrNotFound, 405: nil, 409: ErrConflict,
		413: ErrInvalid, 415: nil,
		422: ErrInvalid, 500: nil, 301: nil, 307: nil,
	} {
		s, c := newServer(t)
		s.Faults(firstOnly(9, fake.Fault{Status: status, Code: "SOME_CODE", RetryAfter: "1"}))
		_, err := c.Submit(soon(t), Paid, "SEND_EMAIL", nil)
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Status != status || e.Code != "SOME_CODE" || e.Detail != "why SOME_CODE" ||
			e.TraceID != "trace-of-a-refusal" || len(e.Fields) != 1 {
			t.Errorf("%d: %v", status, err)
		}
		if sentinel != nil && !errors.Is(err, sentinel) {
			t.Errorf("%d is not %v", status, sentinel)
		}
		if errors.Is(err, ErrOutcomeUnknown) != (status == 500) {
			t.Errorf("%d: %v", status, err)
		}
		if n := len(s.Seen()); n != 1 {
			t.Errorf("%d: asked %d times", status, n)
		}
	}
}

// The outcome is unknown exactly if the server may have accepted the job. A repeat with the same key then finds
// the job.
func TestSubmit_OutcomeUnknown(t *testing.T) {
	for name, tc := range map[string]struct {
		faults  func(n int, r *http.Request) fake.Fault
		unknown bool
		is      error
		jobs    int
	}{
		"refused each time":  {firstOnly(9, fake.Fault{Status: 503, Code: "QUEUE_FULL"}), false, ErrQueueFull, 0},
		"lost each time":     {firstOnly(9, fake.Fault{DropAfter: true}), true, ErrUnavailable, 1},
		"lost, then refused": {lostThen(fake.Fault{Status: 503, Code: "SYSTEM_UNHEALTHY"}), true, ErrUnavailable, 1},
		"the server does not know": {firstOnly(9, fake.Fault{StatusDone: 504, Code: "OUTCOME_UNKNOWN"}), true, ErrUnavailable,
			1},
	} {
		s, c := newServer(t, WithTries(3))
		s.Faults(tc.faults)
		_, err := c.Submit(soon(t), Paid, "REPORT", map[string]any{"n": 1})
		if err == nil || errors.Is(err, ErrOutcomeUnknown) != tc.unknown || !errors.Is(err, tc.is) ||
			len(s.Jobs()) != tc.jobs || len(s.Seen()) != 3 {
			t.Errorf("%s: %v after %v, %d jobs", name, err, s.Seen(), len(s.Jobs()))
			continue
		}
		e, _ := errors.AsType[*Error](err)
		s.Faults(nil)
		again, err := c.SubmitJob(soon(t), Paid,
			Submission{Type: "REPORT", Payload: map[string]any{"n": 1}, IdempotencyKey: e.Key})
		if err != nil || again.Replayed != tc.unknown || len(s.Jobs()) != 1 {
			t.Errorf("%s: the same key: %+v, %v, %d jobs", name, again, err, len(s.Jobs()))
		}
	}
}

func lostThen(f fake.Fault) func(int, *http.Request) fake.Fault {
	return func(n int, _ *http.Request) fake.Fault {
		if n == 1 {
			return fake.Fault{DropAfter: true}
		}
		return f
	}
}

func TestSubmit_RefusesBeforeItSends(t *testing.T) {
	s, c := newServer(t)
	for name, submit := range map[string]func() error{
		"a payload that is no JSON": func() error { _, err := c.Submit(soon(t), Paid, "A", func() {}); return err },
		"a tier with a path":        func() error { _, err := c.Submit(soon(t), "../admin", "A", nil); return err },
		"no tier":                   func() error { _, err := c.Submit(soon(t), "", "A", nil); return err },
		"a negative delay":          func() error { _, err := c.Submit(soon(t), Paid, "A", nil, Delay(-1)); return err },
		"two times": func() error {
			_, err := c.Submit(soon(t), Paid, "A", nil, Delay(1), RunAt(time.Now()))
			return err
		},
		"a key with a line": func() error {
			_, err := c.Submit(soon(t), Paid, "A", nil, IdempotencyKey("a\r\nb: c"))
			return err
		},
		"a long key": func() error {
			_, err := c.Submit(soon(t), Paid, "A", nil, IdempotencyKey(strings.Repeat("k", 256)))
			return err
		},
		"a trace with a space": func() error { _, err := c.Submit(soon(t), Paid, "A", nil, TraceID("a b")); return err },
	} {
		if err := submit(); err == nil || errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(s.Seen()) != 0 {
		t.Errorf("sent %v", s.Seen())
	}
}
