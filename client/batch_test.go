package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tierq/tierq/client/internal/fake"
)

// batchSizes records the number of entries and bytes of each batch request.
func batchSizes(t *testing.T, s *fake.Server, then func(n int) fake.Fault) *[]string {
	t.Helper()
	var sizes []string
	s.Faults(func(n int, r *http.Request) fake.Fault {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var entries []json.RawMessage
		if err := json.Unmarshal(body, &entries); err != nil {
			t.Error(err)
		}
		if len(body) > maxBatchBytes {
			t.Errorf("a request of %d bytes", len(body))
		}
		sizes = append(sizes, fmt.Sprint(len(entries)))
		return then(n)
	})
	return &sizes
}

func fine(int) fake.Fault { return fake.Fault{} }

func many(n int) []Submission {
	list := make([]Submission, n)
	for i := range list {
		list[i] = Submission{Type: "REPORT", Payload: map[string]int{"n": i}}
	}
	return list
}

func TestSubmitBatch_CutsLongLists(t *testing.T) {
	s, c := newServer(t)
	sizes := batchSizes(t, s, fine)
	out, err := c.SubmitBatch(soon(t), Public, many(2500))
	if err != nil || fmt.Sprint(*sizes) != "[1000 1000 500]" {
		t.Fatalf("%v, requests of %v", err, *sizes)
	}
	for i, j := range s.Jobs() {
		if out[i].Err != nil || out[i].JobID != j.ID || out[i].Status != Pending ||
			string(j.Payload) != fmt.Sprintf(`{"n":%d}`, i) || j.Tier != "PUBLIC" {
			t.Fatalf("outcome %d: %+v of %+v", i, out[i], j)
		}
	}
}

func TestSubmitBatch_CutsAtBytesAndTraces(t *testing.T) {
	s, c := newServer(t)
	sizes := batchSizes(t, s, fine)
	large := Submission{Payload: strings.Repeat("x", 5<<20)}
	if _, err := c.SubmitBatch(soon(t), Paid,
		[]Submission{large, large, large, large, {TraceID: "a"}, {TraceID: "a"}, {TraceID: "b"}}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(*sizes) != "[3 1 2 1]" {
		t.Errorf("requests of %v", *sizes)
	}
	for i, trace := range []string{"", "", "", "", "a", "a", "b"} {
		if j := s.Jobs()[i]; j.Trace != trace {
			t.Errorf("job %d has the trace %q", i, j.Trace)
		}
	}
	if out, err := c.SubmitBatch(soon(t), Paid, nil); err != nil || len(out) != 0 {
		t.Errorf("nothing: %v, %v", out, err)
	}
}

// The server accepts or refuses each submission separately. The client sends temporarily refused ones again,
// without the others, and does not repeat final refusals.
func TestSubmitBatch_EachOnItsOwn(t *testing.T) {
	s, c := newServer(t, WithTries(3))
	sizes := batchSizes(t, s, fine)
	out, err := c.SubmitBatch(soon(t), Paid,
		[]Submission{{IdempotencyKey: "k"}, {Type: "NO_SUCH_TYPE"}, {Type: "TOO_MANY"}, {IdempotencyKey: "k"},
			{Type: "REPORT"}})
	if err != nil || fmt.Sprint(*sizes) != "[5 1 1]" || len(s.Jobs()) != 2 {
		t.Fatalf("%v, requests of %v, %d jobs", err, *sizes, len(s.Jobs()))
	}
	if out[0].Err != nil || out[3].Err != nil || !out[3].Replayed || out[3].JobID != out[0].JobID || out[4].Err != nil {
		t.Errorf("accepted ones: %+v", out)
	}
	e, _ := errors.AsType[*Error](out[1].Err)
	if e == nil || e.Status != 422 || e.Code != "UNKNOWN_JOB_TYPE" || len(e.Fields) != 1 || !errors.Is(e, ErrInvalid) ||
		errors.Is(e, ErrOutcomeUnknown) {
		t.Errorf("the refused one: %v", out[1].Err)
	}
	if !errors.Is(out[2].Err, ErrQueueFull) || errors.Is(out[2].Err, ErrOutcomeUnknown) {
		t.Errorf("the one without room: %v", out[2].Err)
	}
}

// A submission that is too large for any request is refused alone. A server in between may take less than 16 MiB.
func TestSubmitBatch_TooLarge(t *testing.T) {
	s, c := newServer(t)
	most := int64(maxBatchBytes)
	s.Faults(func(_ int, r *http.Request) fake.Fault {
		if r.ContentLength > most {
			return fake.Fault{Status: http.StatusRequestEntityTooLarge}
		}
		return fake.Fault{}
	})
	list := append(many(3), Submission{Payload: strings.Repeat("x", maxBatchBytes)}, Submission{}, Submission{})
	for range 2 {
		out, err := c.SubmitBatch(soon(t), Paid, list)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range out {
			if (o.Err == nil) != (i != 3) || i == 3 && !errors.Is(o.Err, ErrInvalid) {
				t.Errorf("at most %d bytes: outcome %d is %+v", most, i, o)
			}
		}
		most = 200 // two submissions
	}
	if n := len(s.Jobs()); n != 10 {
		t.Errorf("%d jobs", n)
	}
}

func TestSubmitBatch_NeverDoubles(t *testing.T) {
	t.Attr("proves", "S1-P6")
	for name, f := range map[string]fake.Fault{
		"dropped after": {DropAfter: true}, "answer cut": {CutAnswer: true}, "502 after": {StatusDone: 502},
		"503": {Status: 503, Code: "SYSTEM_UNHEALTHY"},
	} {
		s, c := newServer(t)
		s.Faults(firstOnly(2, f))
		out, err := c.SubmitBatch(soon(t), Paid, many(50))
		if err != nil || len(s.Jobs()) != 50 {
			t.Fatalf("%s: %v, %d jobs", name, err, len(s.Jobs()))
		}
		for i, j := range s.Jobs() {
			if out[i].Err != nil || out[i].JobID != j.ID {
				t.Errorf("%s: outcome %d: %+v", name, i, out[i])
			}
		}
	}
}

// After an error the outcomes show how far the call came: accepted, perhaps accepted, never sent.
func TestSubmitBatch_SaysHowFarItCame(t *testing.T) {
	s, c := newServer(t, WithTries(2))
	batchSizes(t, s, func(n int) fake.Fault { return fake.Fault{DropAfter: n > 1} })
	list := many(2100)
	out, err := c.SubmitBatch(soon(t), Paid, list)
	if !errors.Is(err, ErrOutcomeUnknown) || len(out) != 2100 {
		t.Fatalf("%v, %d outcomes", err, len(out))
	}
	if out[999].Err != nil || !errors.Is(out[1000].Err, ErrOutcomeUnknown) || !errors.Is(out[1999].Err, ErrUnavailable) ||
		out[2000].Err != ErrNotSent { //nolint:errorlint // it is promised bare
		t.Errorf("%v; %v; %v; %v", out[999].Err, out[1000].Err, out[1999].Err, out[2000].Err)
	}
	s.Faults(nil)
	for i := range list {
		if e, ok := errors.AsType[*Error](out[i].Err); ok {
			list[i].IdempotencyKey = e.Key
		}
	}
	out, err = c.SubmitBatch(soon(t), Paid, list[1000:])
	if err != nil || !out[0].Replayed || out[1000].Replayed || len(s.Jobs()) != 2100 {
		t.Errorf("the same keys: %v, %d jobs", err, len(s.Jobs()))
	}
}

func TestSubmitBatch_NothingIsSent(t *testing.T) {
	s, c := newServer(t)
	if out, err := c.SubmitBatch(soon(t), Paid, []Submission{{}, {Payload: func() {}}}); err == nil || out != nil ||
		!strings.Contains(err.Error(), "submission 1") {
		t.Errorf("%v, %v", out, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if out, err := c.SubmitBatch(ended, Paid, []Submission{{}}); !errors.Is(err, context.Canceled) ||
		errors.Is(out[0].Err, ErrOutcomeUnknown) {
		t.Errorf("%v, %v", out, err)
	}
	if len(s.Seen()) != 0 {
		t.Errorf("sent %v", s.Seen())
	}
}

func TestSubmitBatch_AnAnswerOfAnotherLength(t *testing.T) {
	s, c := newServer(t)
	s.Faults(firstOnly(1, fake.Fault{Status: 202, Type: "application/json", Body: `{"apiResponseData":[]}`}))
	out, err := c.SubmitBatch(soon(t), Paid, many(2))
	if !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(out[1].Err, ErrOutcomeUnknown) {
		t.Errorf("%v, %v", out, err)
	}
}
