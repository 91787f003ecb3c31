package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/client/internal/fake"
)

// sent is a request that a road has carried.
type sent struct {
	at      time.Duration // since the road was made
	path    string
	entries int // 0 = a single submit
	ended   error
}

// road is a transport to a fake server without a network, for synctest. Every request takes its time.
type road struct {
	server *fake.Server
	took   time.Duration
	began  time.Time
	mu     sync.Mutex
	sent   []sent
}

// newRoad returns a gathering client whose requests take so long. It must be called in a synctest bubble, and s be
// made outside.
func newRoad(s *fake.Server, took time.Duration, opts ...Option) (*road, *Client) {
	r := &road{server: s, took: took, began: time.Now()}
	c := New("http://tierq", append([]Option{Gather(true), WithHTTPClient(&http.Client{Transport: r})}, opts...)...)
	c.draw = func(time.Duration) time.Duration { return 0 }
	return r, c
}

func (r *road) RoundTrip(q *http.Request) (answer *http.Response, err error) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	var entries []json.RawMessage
	_ = json.Unmarshal(body, &entries) // of a single submit none
	if again, ok := q.Header["X-Idempotency-Key"]; (len(entries) > 0) != ok || len(again) > 0 {
		return nil, fmt.Errorf("the transport may not send it again, or the header is sent: %v", q.Header)
	}
	r.mu.Lock()
	n := len(r.sent)
	r.sent = append(r.sent, sent{at: time.Since(r.began), path: q.URL.Path, entries: len(entries)})
	r.mu.Unlock()
	q = q.Clone(q.Context())
	q.Body = io.NopCloser(bytes.NewReader(body))
	recorder := httptest.NewRecorder()
	defer func() {
		if recover() != nil { // the fake breaks the connection
			err = io.ErrUnexpectedEOF
		}
	}()
	r.server.ServeHTTP(recorder, q)
	if err := sleep(q.Context(), r.took); err != nil {
		r.mu.Lock()
		r.sent[n].ended = err
		r.mu.Unlock()
		return nil, err
	}
	return recorder.Result(), nil
}

func (r *road) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, s := range r.sent {
		text := fmt.Sprintf("%v %s", s.at, strings.TrimPrefix(s.path, "/"))
		if s.entries > 0 {
			text += fmt.Sprintf(" %d", s.entries)
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// later makes a submit at a time after now, and returns where its answer and the time of its answer will be.
type later struct {
	Submitted
	err error
	at  time.Duration
}

func (r *road) submit(wait *sync.WaitGroup, c *Client, ctx context.Context, in time.Duration, tier Tier,
	s Submission) *later {
	l := &later{}
	wait.Go(func() {
		_ = sleep(context.Background(), in)
		l.Submitted, l.err = c.SubmitJob(ctx, tier, s)
		l.at = time.Since(r.began)
	})
	return l
}

const milli = time.Millisecond

// A lone call goes at once and alone. Calls that come while it travels go together when it is answered.
func TestGather_WhileARequestTravels(t *testing.T) {
	s, _ := newServer(t)
	synctest.Test(t, func(t *testing.T) {
		r, c := newRoad(s, 10*milli)
		var wait sync.WaitGroup
		first := r.submit(&wait, c, t.Context(), 0, Paid, Submission{})
		var others []*later
		for i := range 40 {
			others = append(others, r.submit(&wait, c, t.Context(), 3*milli, Paid, Submission{Type: typeOf(i)}))
		}
		last := r.submit(&wait, c, t.Context(), 12*milli, Paid, Submission{})
		alone := r.submit(&wait, c, t.Context(), 50*milli, Paid, Submission{})
		wait.Wait()
		if got := r.String(); got != "0s paid/submit, 10ms paid/submit/batch 40, 20ms paid/submit, 50ms paid/submit" {
			t.Errorf("sent %s", got)
		}
		if first.at != 10*milli || others[7].at != 20*milli || last.at != 30*milli || alone.at != 60*milli {
			t.Errorf("answered at %v, %v, %v, %v", first.at, others[7].at, last.at, alone.at)
		}
		types := map[string]string{}
		for _, j := range s.Jobs() {
			types[j.ID] = j.Type
		}
		for i, o := range others {
			if o.err != nil || types[o.JobID] != typeOf(i) || o.Status != Pending || o.RetryAfter != time.Second {
				t.Errorf("submit %d: %+v, the job of type %s", i, o, types[o.JobID])
			}
		}
		if len(types) != 43 || len(c.gather.batchers) != 0 {
			t.Errorf("%d jobs, %d batchers are left", len(types), len(c.gather.batchers))
		}
	})
}

// Goroutines that submit again and again at the same time go together each time.
func TestGather_InStep(t *testing.T) {
	s, _ := newServer(t)
	synctest.Test(t, func(t *testing.T) {
		r, c := newRoad(s, 10*milli)
		var wait sync.WaitGroup
		for range 64 {
			wait.Go(func() {
				for range 10 {
					if _, err := c.Submit(t.Context(), Paid, "REPORT", nil); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
		if n := len(s.Jobs()); n != 640 || len(r.sent) > 30 {
			t.Errorf("%d jobs of 640 submits, by %d requests: %s", n, len(r.sent), r)
		}
	})
}

// A request that hangs does not hold up later submits.
func TestGather_ASlowRequest(t *testing.T) {
	s, _ := newServer(t)
	synctest.Test(t, func(t *testing.T) {
		r, c := newRoad(s, 2*time.Second)
		var wait sync.WaitGroup
		for i := range 6 {
			r.submit(&wait, c, t.Context(), time.Duration(i)*100*milli, Paid, Submission{})
		}
		wait.Wait()
		if got := r.String(); got != "0s paid/submit, 250ms paid/submit/batch 2, 500ms paid/submit/batch 3" &&
			got != "0s paid/submit, 250ms paid/submit/batch 2, 500ms paid/submit/batch 2, 750ms paid/submit" {
			t.Errorf("sent %s", got)
		}
	})
}

// Submits to different tiers never wait for each other. Each job of a batch has its own trace id.
func TestGather_TiersApartTracesTogether(t *testing.T) {
	s, _ := newServer(t)
	synctest.Test(t, func(t *testing.T) {
		r, c := newRoad(s, 10*milli)
		var wait sync.WaitGroup
		for i, tier := range []Tier{Paid, Unpaid, Public} {
			at := time.Duration(i) * milli
			r.submit(&wait, c, t.Context(), at, tier, Submission{TraceID: "first"})
		}
		traced := r.submit(&wait, c, t.Context(), 5*milli, Unpaid, Submission{TraceID: "mine", IdempotencyKey: `"\<`})
		one := r.submit(&wait, c, t.Context(), 5*milli, Unpaid, Submission{Type: "REPORT", Payload: "x"})
		two := r.submit(&wait, c, t.Context(), 5*milli, Unpaid, Submission{Delay: time.Second})
		wait.Wait()
		if got := r.String(); got != "0s paid/submit, 1ms unpaid/submit, 2ms public/submit, 11ms unpaid/submit/batch 3" {
			t.Errorf("sent %s", got)
		}
		jobs := map[string]fake.Job{}
		for _, j := range s.Jobs() {
			jobs[j.ID] = j
		}
		for i, l := range []*later{traced, one, two} {
			j := jobs[l.JobID]
			if l.err != nil || j.Tier != "UNPAID" || j.Trace != l.TraceID || j.Trace == "" || j.Key == "" {
				t.Errorf("submit %d: %+v, %+v", i, l, j)
			}
			if want := []string{`{}`, `{"type":"REPORT","payload":"x"}`, `{"delaySeconds":1}`}[i]; j.Body != want {
				t.Errorf("submit %d: %s", i, j.Body)
			}
		}
		if traced.TraceID != "mine" || one.TraceID == two.TraceID || jobs[traced.JobID].Key != `"\<` {
			t.Errorf("traces %s, %s, %s, key %s", traced.TraceID, one.TraceID, two.TraceID, jobs[traced.JobID].Key)
		}
	})
}

// A call whose context ends before its batch is sent is not sent. A call whose context ends while the batch travels
// returns at once, and the batch goes on for the others. A batch without callers ends.
func TestGather_ContextsThatEnd(t *testing.T) {
	s, _ := newServer(t)
	synctest.Test(t, func(t *testing.T) {
		r, c := newRoad(s, 100*milli)
		in := func(d time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return ctx
		}
		var wait sync.WaitGroup
		r.submit(&wait, c, t.Context(), 0, Paid, Submission{})
		early := r.submit(&wait, c, in(40*milli), 10*milli, Paid, Submission{Type: "EARLY"})
		late := r.submit(&wait, c, in(150*milli), 10*milli, Paid, Submission{Type: "LATE", IdempotencyKey: "late"})
		stays := r.submit(&wait, c, t.Context(), 10*milli, Paid, Submission{Type: "STAYS"})
		for range 2 { // the next batch, which both callers leave
			r.submit(&wait, c, in(230*milli), 110*milli, Paid, Submission{Type: "LEAVES"})
		}
		wait.Wait()
		synctest.Wait() // until the request whose callers have all left has ended
		if got := r.String(); got != "0s paid/submit, 100ms paid/submit/batch 2, 200ms paid/submit/batch 2" ||
			r.sent[1].ended != nil || !errors.Is(r.sent[2].ended, context.Canceled) {
			t.Errorf("sent %s: %v, %v", got, r.sent[1].ended, r.sent[2].ended)
		}
		if early.at != 40*milli || !errors.Is(early.err, context.DeadlineExceeded) ||
			errors.Is(early.err, ErrOutcomeUnknown) || errors.Is(early.err, ErrUnavailable) {
			t.Errorf("before its batch: %v at %v", early.err, early.at)
		}
		e, _ := errors.AsType[*Error](late.err)
		if late.at != 150*milli || !errors.Is(late.err, context.DeadlineExceeded) || e == nil || !e.Unknown ||
			e.Key != "late" || errors.Is(late.err, ErrUnavailable) {
			t.Errorf("in its batch: %v at %v", late.err, late.at)
		}
		if stays.err != nil || stays.at != 200*milli {
			t.Errorf("the other: %v at %v", stays.err, stays.at)
		}
		again, err := c.SubmitJob(t.Context(), Paid, Submission{Type: "LATE", IdempotencyKey: "late"})
		if err != nil || !again.Replayed {
			t.Errorf("the same key again: %+v, %v", again, err)
		}
		for _, j := range s.Jobs() {
			if j.Type == "EARLY" {
				t.Error("the call that ended early was sent")
			}
		}
	})
}

// The limits of a batch divide what waits.
func TestGather_Limits(t *testing.T) {
	s, _ := newServer(t)
	synctest.Test(t, func(t *testing.T) {
		r, c := newRoad(s, 10*milli)
		var wait sync.WaitGroup
		r.submit(&wait, c, t.Context(), 0, Paid, Submission{})
		r.submit(&wait, c, t.Context(), 0, Public, Submission{})
		for range 2100 {
			r.submit(&wait, c, t.Context(), milli, Paid, Submission{})
		}
		for range 4 {
			r.submit(&wait, c, t.Context(), 2*milli, Public, Submission{Payload: strings.Repeat("x", 5<<20)})
		}
		wait.Wait()
		var paid, public []int
		for _, q := range r.sent[2:] {
			if strings.Contains(q.path, "paid") {
				paid = append(paid, q.entries)
			} else {
				public = append(public, q.entries)
			}
		}
		if !slices.Equal(paid, []int{1000, 1000, 100}) || !slices.Equal(public, []int{3, 0}) || len(s.Jobs()) != 2106 {
			t.Errorf("batches of %v and %v, %d jobs", paid, public, len(s.Jobs()))
		}
	})
}

func typeOf(i int) string { return "T" + strconv.Itoa(i) }
