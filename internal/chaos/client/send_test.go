package client

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

const anID = "019de340-01fe-7a58-be69-567cd7d6b700"

func newLoad(t *testing.T, o Options, bases ...string) *Load {
	t.Helper()
	o.Bases = func() []string { return bases }
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func dice() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// A client calls a job refused only if an answer says so or no server was reached, and accepted only if an answer
// says so.
func TestFates(t *testing.T) {
	t.Parallel()
	body := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, text)
		}
	}
	for _, tc := range []struct {
		name   string
		server http.HandlerFunc // nil = no server listens
		fate   check.Fate
		id     job.ID
	}{
		{"accepted", body(202, `{"apiResponseData":{"jobId":"`+anID+`","currentJobStatus":"PENDING"}}`), check.OK, anID},
		{"refused for room", body(503, `{"errorCode":"QUEUE_FULL"}`), check.Fail, ""},
		{"refused as wrong", body(422, `{"errorCode":"INVALID_PAYLOAD"}`), check.Fail, ""},
		{"too many", body(429, `{"errorCode":"RATE"}`), check.Fail, ""},
		{"somebody else's 503", body(503, `{}`), check.Unknown, ""},
		{"unknown to the server", body(504, `{"errorCode":"OUTCOME_UNKNOWN","jobId":"`+anID+`"}`), check.Unknown, anID},
		{"a mistake inside", body(500, `{"errorCode":"INTERNAL"}`), check.Unknown, ""},
		{"half an answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(202)
			fmt.Fprint(w, `{"apiResponseData":{"jobId":"`)
		}, check.Unknown, ""},
		{"cut after it was sent", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, check.Unknown,
			""},
		{"no answer in time", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // until the body is read the server does not notice that a client is gone
			<-r.Context().Done()
		}, check.Unknown, ""},
		{"nobody listens", nil, check.Fail, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := newLoad(t, Options{Timeout: 300 * time.Millisecond}, at(t, tc.server))
			w := l.wish(job.Paid, 0, dice())
			l.submit(t.Context(), l.Bases()[0], &w)
			if ops := l.Ops(); len(ops) != 1 || ops[0].Fate != tc.fate || ops[0].ID != tc.id {
				t.Errorf("%+v", ops)
			}
		})
	}
}

// at returns the address of a server with this handler; for nil, an address at which no server listens.
func at(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	if h != nil {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// A submit is not taken for refused if its connection breaks, the transport repeats it by itself, and no server
// listens any more. The server may have executed the first try.
func TestLostConnectionIsNotARefusal(t *testing.T) {
	t.Parallel()
	var seen atomic.Int32
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if seen.Add(1) == 1 {
			fmt.Fprint(w, `{}`)
			return
		}
		_ = s.Listener.Close()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(s.Close)
	l := newLoad(t, Options{Mix: Mix{Once: 1}}, s.URL)
	l.poll(t.Context(), "p", anID, dice()) // opens the connection that the submit uses again
	w := l.wish(job.Paid, 0, dice())
	l.submit(t.Context(), s.URL, &w)
	if w.op.Fate != check.Unknown || seen.Load() != 2 {
		t.Errorf("%s after %d requests", w.op.Fate, seen.Load())
	}
}

// Each entry of a batch has its own fate. An entry without an answer is submitted again if it has an
// Idempotency-Key.
func TestBatchEntries(t *testing.T) {
	t.Parallel()
	traces := make(chan string, 2)
	s := at(t, func(w http.ResponseWriter, r *http.Request) {
		traces <- r.Header.Get("X-Trace-Id")
		w.WriteHeader(202)
		if r.Header.Get("Idempotency-Key") != "" {
			fmt.Fprint(w, `{"apiResponseData":{"jobId":"again"}}`)
			return
		}
		fmt.Fprint(w, `{"apiResponseData":[{"jobId":"one"},{"errorCode":"QUEUE_FULL"},{"jobId":"three",`+
			`"errorCode":"OUTCOME_UNKNOWN"}]}`)
	})
	l := newLoad(t, Options{Mix: Mix{Once: 1}}, s)
	wishes := []wish{l.wish(job.Paid, 0, dice()), l.wish(job.Paid, 0, dice()), l.wish(job.Paid, 0, dice())}
	l.batch(t.Context(), s, wishes, dice())
	ops, sent := l.Ops(), []string{<-traces, <-traces}
	if len(ops) != 4 {
		t.Fatalf("%d ops", len(ops))
	}
	for i, want := range []struct {
		fate check.Fate
		id   job.ID
	}{{check.OK, "one"}, {check.Fail, ""}, {check.Unknown, "three"}, {check.OK, "again"}} {
		if ops[i].Fate != want.fate || ops[i].ID != want.id || ops[i].Trace != sent[i/3] || ops[i].Server != s {
			t.Errorf("%d: %+v, want %v", i, ops[i], want)
		}
	}
	if ops[3].Key != ops[2].Key || ops[3].Once != ops[2].Once || ops[0].Trace != ops[2].Trace {
		t.Errorf("%+v", ops)
	}
}

// In the history of a killed load, a request without an answer has an unknown fate, and a line that was cut off is
// left out.
func TestHistoryOfAKilledLoad(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history")
	l := newLoad(t, Options{History: path}, at(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `W/"COMPLETED-1-0-2"`)
		fmt.Fprint(w, `{"apiResponseData":{"jobId":"`+anID+`","currentJobStatus":"COMPLETED","result": {"a" : 1}}}`)
	}))
	w := l.wish(job.Paid, 0, dice())
	l.submit(t.Context(), l.Bases()[0], &w)
	for range 5 {
		l.poll(t.Context(), "p", anID, dice())
	}
	l.change(t.Context(), l.Bases()[0], http.MethodDelete, "/api/jobs/"+anID, "", &check.Op{Kind: "cancel", ID: anID})
	unanswered := l.wish(job.Public, 0, dice())
	unanswered.op.Fate, unanswered.op.Sent = check.Unknown, time.Now()
	l.asked(&unanswered.op)
	if _, err := l.file.WriteString(`{"done":{"Ki`); err != nil {
		t.Fatal(err)
	}
	ops, polls, err := ReadHistory(path)
	if err != nil || len(ops) != 3 || len(polls) != 2 {
		t.Fatalf("%d ops, %d polls: %v", len(ops), len(polls), err)
	}
	if ops[0].Fate != check.OK || ops[0].ID != anID || ops[1].Kind != "cancel" || ops[2].Key != unanswered.op.Key ||
		ops[2].Fate != check.Unknown {
		t.Errorf("%+v", ops)
	}
	if base := l.Bases()[0]; ops[0].Server != base || ops[1].Server != base {
		t.Errorf("sent to %s, the history says %s and %s", base, ops[0].Server, ops[1].Server)
	}
	if p := polls[1]; p.Status != job.Completed || p.Generation != 2 || p.ResultSum != Sum([]byte(`{"a":1}`)) ||
		!polls[0].At.Before(p.At) {
		t.Errorf("%+v", p)
	}
	if kept := l.Polls(); len(kept) != 2 ||
		!slices.EqualFunc(l.Ops(), ops[:2],
			func(x, y check.Op) bool { return x.Key == y.Key && x.Fate == y.Fate && x.Sent.Equal(y.Sent) }) {
		t.Errorf("in memory: %d polls, %+v", len(kept), l.Ops())
	}
}
