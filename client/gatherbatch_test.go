package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/client/internal/fake"
)

// together makes submits that go in one batch: the first request of the road is alone, the second is theirs.
func together(t *testing.T, r *road, c *Client, list ...Submission) []*later {
	var wait sync.WaitGroup
	r.submit(&wait, c, t.Context(), 0, Paid, Submission{})
	got := make([]*later, len(list))
	for i, s := range list {
		got[i] = r.submit(&wait, c, t.Context(), milli+time.Duration(i), Paid, s) // in this order
	}
	wait.Wait()
	return got
}

// batches gives the nth batch and the single submits after it a fault; 0 = every batch.
func batches(s *fake.Server, nth int, f fake.Fault, alone fake.Fault) {
	seen := 0
	s.Faults(func(_ int, r *http.Request) fake.Fault {
		switch {
		case strings.HasSuffix(r.URL.Path, "/batch"):
			if seen++; nth == 0 || seen == nth {
				return f
			}
		case seen > 0:
			return alone
		}
		return fake.Fault{}
	})
}

// A refused job of a batch has the error that it has alone, and the other jobs are accepted.
func TestGather_EachOnItsOwn(t *testing.T) {
	s, plain := newServer(t, WithTries(1))
	refused := []Submission{{Type: "NO_SUCH_TYPE"}, {Type: "TOO_MANY"}, {Type: "OTHER", IdempotencyKey: "k"}}
	if _, err := plain.SubmitJob(soon(t), Paid, Submission{IdempotencyKey: "k"}); err != nil {
		t.Fatal(err)
	}
	var want []*Error
	for _, one := range refused {
		_, err := plain.SubmitJob(soon(t), Paid, one)
		e, _ := errors.AsType[*Error](err)
		if e == nil {
			t.Fatal(err)
		}
		want = append(want, e)
	}
	synctest.Test(t, func(t *testing.T) {
		r, c := newRoad(s, 10*milli, WithTries(1))
		got := together(t, r, c, append(refused, Submission{}, Submission{IdempotencyKey: "k"}, Submission{})...)
		if r.String() != "0s paid/submit, 10ms paid/submit/batch 6" {
			t.Errorf("sent %s", r)
		}
		for i, w := range want {
			e, _ := errors.AsType[*Error](got[i].err)
			if e == nil || e.Key == "" || got[i].JobID != "" {
				t.Fatalf("%v: %v", w, got[i].err)
			}
			w.Key, w.TraceID, e.Key, e.TraceID = "", "", "", ""
			if !reflect.DeepEqual(e, w) || got[i].err.Error() != "submit: "+w.Error() {
				t.Errorf("%#v, alone %#v", e, w)
			}
		}
		if got[3].err != nil || got[4].err != nil || !got[4].Replayed || got[5].err != nil || len(s.Jobs()) != 4 {
			t.Errorf("the others: %+v, %+v, %+v; %d jobs", got[3], got[4], got[5], len(s.Jobs()))
		}
	})
}

// An entry's own Retry-After counts, not the longest of the batch.
func TestGather_RetryAfterOfEach(t *testing.T) {
	const body = `{"apiResponseData":[
		{"errorCode":"QUEUE_FULL","message":"m","detail":"d","retryAfter":2},
		{"errorCode":"RATE_LIMITED","message":"m","detail":"the quota","retryAfter":40},
		{"errorCode":"INVALID_PAYLOAD","message":"m","detail":"d"},
		{"errorCode":"OUTCOME_UNKNOWN","jobId":"j","message":"m","detail":"d"},
		{"jobId":"x","currentJobStatus":"SCHEDULED","retryAfter":30},
		{"errorCode":"PAYLOAD_TOO_LARGE","message":"m","detail":"the entry has more than 9 bytes"}]}`
	for _, tries := range []int{1, 2} {
		s, _ := newServer(t)
		batches(s, 1, fake.Fault{Status: 202, RetryAfter: "40", Type: "application/json", Body: body}, fake.Fault{})
		synctest.Test(t, func(t *testing.T) {
			r, c := newRoad(s, 10*milli, WithTries(tries))
			got := together(t, r, c, Submission{Type: "A"}, Submission{Type: "B"}, Submission{}, Submission{}, Submission{},
				Submission{}) // the last one is not too large alone
			text := ""
			for _, l := range got {
				e, _ := errors.AsType[*Error](l.err)
				if l.err == nil {
					text += fmt.Sprintf("accepted, %v, at %v; ", l.RetryAfter, l.at)
					continue
				}
				text += fmt.Sprintf("%d %s %v %t at %v; ", e.Status, e.JobID, e.RetryAfter, e.Unknown, l.at)
			}
			want := []string{"503  2s false at 20ms; 429  40s false at 20ms; 422  0s false at 20ms; 504 j 0s true at 20ms; " +
				"accepted, 30s, at 20ms; accepted, 1s, at 30ms; ",
				"accepted, 1s, at 2.03s; accepted, 1s, at 40.03s; 422  0s false at 20ms; accepted, 1s, at 30ms; " +
					"accepted, 30s, at 20ms; accepted, 1s, at 30ms; "}[tries-1]
			if text != want {
				t.Errorf("%d tries: %s", tries, text)
			}
		})
	}
}

// A submit makes one job and its caller gets the job's id, whichever answer to a batch is lost or refuses the batch.
func TestGather_NeverDoubles(t *testing.T) {
	html := fake.Fault{Status: 202, Type: "text/html", Body: "<h1>Welcome to the hotel</h1>"}
	for name, f := range map[string]fake.Fault{
		"dropped before": {DropBefore: true}, "dropped after": {DropAfter: true}, "answer cut": {CutAnswer: true},
		"silent": {Silent: true}, "502 after": {StatusDone: 502}, "504 after": {StatusDone: 504, Code: "OUTCOME_UNKNOWN"},
		"503": {Status: 503, Code: "SYSTEM_UNHEALTHY"}, "429": {Status: 429, Code: "RATE_LIMITED", RetryAfter: "1"},
		"413": {Status: 413, Code: "PAYLOAD_TOO_LARGE"}, "413 of a proxy": {Status: 413, Type: "text/html", Body: "large"},
		"500 after": {StatusDone: 500, Code: "INTERNAL"}, "400": {Status: 400, Code: "INVALID_REQUEST"}, "no answer": html,
		"404": {Status: 404, Type: "text/html", Body: "no such address"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := newServer(t, Gather(true), WithTimeout(300*time.Millisecond))
			batches(s, 1, f, fake.Fault{})
			ids := make([]string, 50)
			var wait sync.WaitGroup
			for i := range ids {
				wait.Go(func() {
					var err error
					if ids[i], err = c.Submit(soon(t), Paid, typeOf(i), nil); err != nil {
						t.Error(err)
					}
				})
			}
			wait.Wait()
			types := map[string]string{}
			for _, j := range s.Jobs() {
				types[j.ID] = j.Type
			}
			for i, id := range ids {
				if types[id] != typeOf(i) {
					t.Errorf("submit %d: the job %s of type %s", i, id, types[id])
				}
			}
			if len(types) != len(ids) {
				t.Errorf("%d jobs of %d submits", len(types), len(ids))
			}
			if !strings.Contains(fmt.Sprint(s.Seen()), "/batch") {
				t.Errorf("no batch among %v", s.Seen())
			}
		})
	}
}

// A batch that is refused as a whole says nothing about its submits: each goes alone and has its own answer. An
// answer that is lost, or 502, 503 or 504, is each caller's own.
func TestGather_ARefusedBatch(t *testing.T) {
	const unknown = `{"errorCode":"INVALID_REQUEST","message":"m","detail":"d",
		"errors":[{"field":"traceId","reason":"unknown field"}]}`
	older := fake.Fault{Status: 202, Type: "application/json",
		Body: `{"apiResponseData":[{"errorCode":"INVALID_REQUEST","message":"m","detail":"d"},` + unknown + `,` + unknown +
			`]}`}
	for name, tc := range map[string]struct {
		batch, alone  fake.Fault
		requests      string // after the first
		err           error  // of each submit
		unknown       bool
		pause         time.Duration
		most, answers int // answers: the milliseconds until the callers have theirs
	}{
		"400": {fake.Fault{Status: 400}, fake.Fault{}, "3 alone", nil, false, time.Second, 1000, 30},
		"429, the submits too": {fake.Fault{Status: 429, RetryAfter: "5"}, fake.Fault{Status: 429, RetryAfter: "5"},
			"3 alone", ErrRateLimited, false, 5 * time.Second, 1000, 30},
		"413": {fake.Fault{Status: 413}, fake.Fault{}, "3 alone", nil, false, 0, 2, 30},
		"500, then refused": {fake.Fault{StatusDone: 500}, fake.Fault{Status: 400}, "3 alone", ErrInvalid, true,
			time.Second, 1000, 30},
		"400, then refused": {fake.Fault{Status: 400}, fake.Fault{Status: 400}, "3 alone", ErrInvalid, false,
			time.Second, 1000, 30},
		"an older server": {older, fake.Fault{}, "3 alone", nil, false, time.Second, 1000, 30},
		"503":             {fake.Fault{Status: 503}, fake.Fault{}, "", ErrUnavailable, false, 0, 1000, 20},
		"504":             {fake.Fault{Status: 504}, fake.Fault{}, "", ErrUnavailable, true, 0, 1000, 20},
		"lost":            {fake.Fault{DropAfter: true}, fake.Fault{}, "", ErrUnavailable, true, 0, 1000, 10},
	} {
		s, _ := newServer(t)
		batches(s, 1, tc.batch, tc.alone)
		synctest.Test(t, func(t *testing.T) {
			r, c := newRoad(s, 10*milli, WithTries(1))
			got := together(t, r, c, Submission{}, Submission{}, Submission{})
			want := "0s paid/submit, 10ms paid/submit/batch 3"
			if tc.requests != "" {
				want += ", 20ms paid/submit, 20ms paid/submit, 20ms paid/submit"
			}
			if r.String() != want {
				t.Errorf("%s: sent %s", name, r)
			}
			keys := map[string]bool{}
			for _, l := range got {
				if e, ok := errors.AsType[*Error](l.err); ok && (keys[e.Key] || e.Key == "") {
					t.Errorf("%s: the key %q twice", name, e.Key)
				} else if ok {
					keys[e.Key] = true
				}
				if !errors.Is(l.err, tc.err) || errors.Is(l.err, ErrOutcomeUnknown) != tc.unknown ||
					l.at != time.Duration(tc.answers)*milli {
					t.Errorf("%s: %v at %v", name, l.err, l.at)
				}
			}
			if pause := max(c.gather.paused.Sub(r.began.Add(20*milli)), 0); pause != tc.pause || c.gather.most != tc.most {
				t.Errorf("%s: a pause of %v, batches of %d", name, pause, c.gather.most)
			}
		})
	}
}

// After a server has refused a batch, the client sends submits alone for a while. After the server has refused a batch
// as too large, the client sends smaller batches, which grow again.
func TestGather_RecoversFromRefusals(t *testing.T) {
	s, _ := newServer(t)
	batches(s, 1, fake.Fault{Status: 429, RetryAfter: "3"}, fake.Fault{})
	synctest.Test(t, func(t *testing.T) {
		r, c := newRoad(s, 10*milli)
		var wait sync.WaitGroup
		for _, at := range []time.Duration{0, time.Second, 4 * time.Second} {
			r.submit(&wait, c, t.Context(), at, Paid, Submission{})
			for range 2 {
				r.submit(&wait, c, t.Context(), at+milli, Paid, Submission{})
			}
		}
		wait.Wait()
		if got := r.String(); got != "0s paid/submit, 10ms paid/submit/batch 2, 20ms paid/submit, 20ms paid/submit, "+
			"1s paid/submit, 1.001s paid/submit, 1.001s paid/submit, 4s paid/submit, 4.01s paid/submit/batch 2" {
			t.Errorf("sent %s", got)
		}
	})
	s, _ = newServer(t)
	batches(s, 1, fake.Fault{Status: 413}, fake.Fault{})
	synctest.Test(t, func(t *testing.T) {
		r, c := newRoad(s, 10*milli)
		together(t, r, c, make([]Submission, 6)...)
		together(t, r, c, make([]Submission, 6)...)
		together(t, r, c, make([]Submission, 6)...)
		text := ""
		for _, q := range r.sent {
			text += fmt.Sprint(q.entries, " ")
		}
		if text != "0 6 0 0 0 0 0 0 0 3 3 0 4 2 " || len(s.Jobs()) != 21 {
			t.Errorf("batches of %s, %d jobs", text, len(s.Jobs()))
		}
	})
}

// The client without Gather sends every submit by itself.
func TestGather_Off(t *testing.T) {
	s, _ := newServer(t)
	for _, opts := range [][]Option{nil, {Gather(true), Gather(false)}} {
		c := New(s.URL, opts...)
		var wait sync.WaitGroup
		for range 20 {
			wait.Go(func() {
				if _, err := c.Submit(soon(t), Paid, "A", nil); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		c.Close()
	}
	if n := len(s.Seen()); n != 40 || strings.Contains(fmt.Sprint(s.Seen()), "batch") {
		t.Errorf("%d requests: %v", n, s.Seen())
	}
	c := New("no address", Gather(true))
	if _, err := c.Submit(context.Background(), Paid, "A", nil); err == nil || !strings.Contains(err.Error(), "address") {
		t.Errorf("no address: %v", err)
	}
}
