package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

type size struct{ Width int }

func double(_ context.Context, in size) (size, error) { return size{in.Width * 2}, nil }

// doubled is the report of a job with the width n.
func doubled(n int) string {
	return fmt.Sprintf(`{"lease":"","completed":{"result":{"Width":%d}}}`, 2*n)
}

func TestRun(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	for n := range 500 {
		s.add(fmt.Sprint(n), "RESIZE", fmt.Sprintf(`{"Width":%d}`, n))
	}
	stop := s.worker(func(w *Worker) { Handle(w, "RESIZE", double) }, WithConcurrency(100))
	for n := range 500 {
		if got, want := s.reported(fmt.Sprint(n)), doubled(n); got != want {
			t.Fatalf("job %d: %s, not %s", n, got, want)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if calls := s.counts["claim"] + s.counts["report"]; calls > 200 {
		t.Errorf("500 jobs took %v calls", s.counts)
	}
}

// With one place the report of a job travels with the claim of the next one.
func TestRun_ReportsTravelWithClaims(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	for n := range 20 {
		s.add(fmt.Sprint(n), "RESIZE", `{}`)
	}
	s.worker(func(w *Worker) { Handle(w, "RESIZE", double) }, WithConcurrency(1))
	s.until("20 reports", func() bool { return len(s.ends) == 20 })
	if s.carried != 20 || s.counts["report"] > 0 {
		t.Errorf("claims carried %d reports; calls: %v", s.carried, s.counts)
	}
}

// While jobs wait, two claims are under way: the server of this test does not answer the second one before it has a
// third. An idle worker makes one.
func TestRun_TwoClaims(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	for n := range 100 {
		s.add(fmt.Sprint(n), "RESIZE", `{}`)
	}
	two := false
	s.hold = func() bool {
		two = two || s.asking == 2
		return s.counts["claim"] >= 2 && !two
	}
	s.worker(func(w *Worker) { Handle(w, "RESIZE", double) }, WithConcurrency(10))
	s.until("100 reports", func() bool { return len(s.ends) == 100 })
	s.until("one claim waits", func() bool { return s.asking == 1 })
}

func TestHandle_Ends(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	failing := errors.New("broken")
	ends := map[string]struct {
		out  any
		err  error
		want string
	}{
		"DONE":  {out: []int{1}, want: `"completed":{"result":[1]}`},
		"EMPTY": {want: `"completed":{"result":null}`},
		"FAILS": {err: failing, want: `"failed":{"error":{"message":"broken"}}`},
		"PERMANENT": {
			err:  fmt.Errorf("a: %w", Permanent(failing)),
			want: `"failed":{"error":{"message":"a: broken"},"permanent":true}`,
		},
		"RETRY": {
			err:  RetryAfter(1500*time.Millisecond, failing),
			want: `"failed":{"error":{"message":"broken"},"retryAfterSeconds":2}`,
		},
		"LATER":   {err: Later(time.Millisecond), want: `"released":{"delaySeconds":1}`},
		"BECAUSE": {err: LaterBecause(time.Minute, "closed"), want: `"released":{"delaySeconds":60,"reason":"closed"}`},
		"NO_JSON": {
			out:  func() {},
			want: `"failed":{"error":{"message":"result: json: unsupported type: func()"},"permanent":true}`,
		},
	}
	s.worker(func(w *Worker) {
		for typ, e := range ends {
			Handle(w, typ, func(context.Context, json.RawMessage) (any, error) { return e.out, e.err })
		}
		Handle(w, "PANICS", func(context.Context, size) (any, error) { panic("oops") })
		Handle(w, "RESIZE", double)
	})
	for typ := range ends {
		s.add(typ, typ, `{}`)
	}
	for typ, e := range ends {
		if got, want := s.reported(typ), `{"lease":"",`+e.want+`}`; got != want {
			t.Errorf("%s: %s, not %s", typ, got, want)
		}
	}
	s.add("panics", "PANICS", `{}`)
	if got := s.reported("panics"); !strings.Contains(got, `"message":"oops","type":"panic","stack":"goroutine`) {
		t.Errorf("a panic: %s", got)
	}
	s.add("typo", "RESISE", `{}`)
	if got := s.reported("typo"); !strings.Contains(got, `"type":"UNKNOWN_JOB_TYPE"`) {
		t.Errorf("an unknown type: %s", got)
	}
	s.add("bad", "RESIZE", `{"Width":"wide"}`)
	got := s.reported("bad")
	if !strings.Contains(got, `"message":"payload: `) || !strings.Contains(got, `"permanent":true`) {
		t.Errorf("a payload of another form: %s", got)
	}
	s.add("none", "RESIZE", `null`)
	if got := s.reported("none"); got != `{"lease":"","completed":{"result":{"Width":0}}}` {
		t.Errorf("no payload: %s", got)
	}
}

// untilEnded waits for the end of a handler's context, and returns its cause as the error.
func untilEnded(ctx context.Context, _ size) (any, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func TestHeartbeats(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.leaseMs = 1500 // a busy machine must not let one run out
	s.words["lease-lost"] = "LOST"
	causes := make(chan string, 20)
	for _, id := range []string{"a", "b", "c", "d", "lost"} {
		s.add(id, "WAIT", `{}`)
	}
	s.worker(func(w *Worker) {
		Handle(w, "WAIT", func(ctx context.Context, in size) (any, error) {
			out, err := untilEnded(ctx, in)
			j, _ := Running(ctx)
			causes <- j.ID + " " + err.Error()
			return out, err
		})
	})
	s.until("heartbeats of four jobs", func() bool { return s.counts["heartbeat"] > 3 })
	s.with(func() { s.words["lease-a"] = "CANCEL" })
	if got := s.reported("a"); got != `{"lease":"","failed":{"error":{"message":"job cancelled"}}}` {
		t.Errorf("after CANCEL: %s", got)
	}
	for range 2 {
		if got := <-causes; got != "a job cancelled" && !strings.HasPrefix(got, "lost lease lost: job lost (WAIT): ") {
			t.Errorf("a context ended: %s", got)
		}
	}
	s.with(func() {
		if s.most < 4 {
			t.Errorf("a heartbeat has at most %d leases", s.most)
		}
		if len(s.ends) != 1 {
			t.Errorf("reports of %v", names(s.ends))
		}
		s.fault = func(verb string, _ int, _ []byte) int { // no heartbeat is answered any more
			if verb == "heartbeat" {
				return 503
			}
			return 0
		}
	})
	for range 3 {
		if got := <-causes; !strings.HasSuffix(got, "no heartbeat was answered in time") {
			t.Errorf("without heartbeats: %s", got)
		}
	}
	if got := s.reported("b"); got != `{"lease":"","released":{}}` {
		t.Errorf("a job whose lease ran out: %s", got)
	}
}

func TestMaxTime(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.add("long", "WAIT", `{}`, "endsInMs", "200")
	s.worker(func(w *Worker) { Handle(w, "WAIT", untilEnded) })
	got := s.reported("long")
	if !strings.Contains(got, `: job long (WAIT): the attempt ended after 0.2 s, its maximum processing time; raise it`) ||
		!strings.Contains(got, `,"type":"MAX_TIME_EXCEEDED"}`) {
		t.Errorf("%s", got)
	}
}

func TestCheckpoint(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.fault = func(verb string, n int, _ []byte) int {
		if verb == "heartbeat" && n == 1 {
			return 1
		}
		return 0
	}
	s.add("j", "PAGES", `{}`, "checkpoint", `{"page":7}`)
	s.worker(func(w *Worker) {
		Handle(w, "PAGES", func(ctx context.Context, _ size) (string, error) {
			if err := Checkpoint(ctx, strings.Repeat("x", MaxCheckpoint)); err == nil {
				return "", errors.New("a large checkpoint was taken")
			}
			for page := 8; page < 10; page++ {
				if err := Checkpoint(ctx, map[string]int{"page": page}); err != nil {
					return "", err
				}
			}
			j, _ := Running(ctx)
			return string(j.Checkpoint), nil
		})
	})
	if got := s.reported("j"); got != `{"lease":"","completed":{"result":"{\"page\":7}"}}` {
		t.Errorf("%s", got)
	}
	want := `[1={"page":8} 1={"page":8} 2={"page":9}]`
	if got := fmt.Sprint(s.saved["lease-j"]); got != want {
		t.Errorf("saved %s, not %s", got, want)
	}
	if err := Checkpoint(t.Context(), 1); err == nil {
		t.Error("a checkpoint without a job")
	}
	if _, running := Running(t.Context()); running {
		t.Error("a job without a job")
	}
}

// Answers are lost and calls are refused at random places: each job is reported once, and with its own result.
func TestRun_Faults(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.fault = func(_ string, n int, _ []byte) int { return []int{0, 1, 503, 0, 429, 0, 0}[n%7] }
	for n := range 200 {
		s.add(fmt.Sprint(n), "RESIZE", fmt.Sprintf(`{"Width":%d}`, n))
	}
	var runs atomic.Int64
	s.worker(func(w *Worker) {
		Handle(w, "RESIZE", func(ctx context.Context, in size) (size, error) {
			runs.Add(1)
			return double(ctx, in)
		})
	}, WithConcurrency(20))
	for n := range 200 {
		if got, want := s.reported(fmt.Sprint(n)), doubled(n); got != want {
			t.Fatalf("job %d: %s, not %s", n, got, want)
		}
	}
	if runs.Load() != 200 {
		t.Errorf("200 jobs had %d runs", runs.Load())
	}
}

// A report that the server refuses becomes a permanent failure, and holds up no other.
func TestRun_RefusedReport(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.fault = func(_ string, _ int, body []byte) int {
		if strings.Contains(string(body), "too large") {
			return 413
		}
		return 0
	}
	for _, id := range []string{"a", "large", "b"} {
		s.add(id, "ECHO", `"`+id+`"`)
	}
	s.worker(func(w *Worker) {
		Handle(w, "ECHO", func(_ context.Context, in string) (string, error) {
			if in == "large" {
				in = "too large"
			}
			return in, nil
		})
	})
	for _, id := range []string{"a", "b"} {
		if got := s.reported(id); got != `{"lease":"","completed":{"result":"`+id+`"}}` {
			t.Errorf("%s: %s", id, got)
		}
	}
	got := s.reported("large")
	if !strings.Contains(got, `the server refused the report: by the test"},"permanent":true`) {
		t.Errorf("the large one: %s", got)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	release, running := make(chan struct{}), make(chan struct{}, 2)
	s.add("ends", "SLOW", `{}`)
	s.add("stays", "WAIT", `{}`)
	stop := s.worker(func(w *Worker) {
		Handle(w, "WAIT", func(ctx context.Context, in size) (any, error) {
			running <- struct{}{}
			return untilEnded(ctx, in)
		})
		Handle(w, "SLOW", func(context.Context, size) (any, error) {
			running <- struct{}{}
			<-release
			return 1, nil
		})
	}, WithDrain(500*time.Millisecond))
	<-running
	<-running
	time.AfterFunc(100*time.Millisecond, func() { close(release) })
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := s.reported("ends"); got != `{"lease":"","completed":{"result":1}}` {
		t.Errorf("a handler that ends in time: %s", got)
	}
	if got := s.reported("stays"); got != `{"lease":"","released":{}}` {
		t.Errorf("a handler that does not: %s", got)
	}
}

// A worker stops while its claim waits: a job that the claim got meanwhile goes back.
func TestStop_GivesBack(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	stop := s.worker(func(w *Worker) { Handle(w, "WAIT", untilEnded) })
	s.until("a claim waits", func() bool { return s.counts["claim"] == 1 })
	s.with(func() {
		s.fault = func(verb string, n int, _ []byte) int { // the claim's answer comes too late
			if verb == "claim" && n == 2 {
				s.jobs = append(s.jobs, map[string]any{
					"jobId": "j", "type": "WAIT", "lease": "lease-j", "leaseForMs": 30_000, "heartbeatEveryMs": 10_000,
					"endsInMs": 50_000,
				})
			}
			return 0
		}
	})
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := s.reported("j"); got != `{"lease":"","released":{}}` {
		t.Errorf("%s", got)
	}
}

// An operator ends the worker.
func TestTerminate(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.state = "terminate"
	w := New(s.URL, []string{"pictures"})
	Handle(w, "WAIT", untilEnded)
	if err := w.Run(t.Context()); err != nil || s.counts["claim"] != 1 {
		t.Errorf("%v after %v", err, s.counts)
	}
	if err := w.Run(t.Context()); err == nil {
		t.Error("a worker ran twice")
	}
}

func TestRun_Refused(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.fault = func(string, int, []byte) int { return 403 }
	w := New(s.URL, []string{"pictures"})
	Handle(w, "WAIT", untilEnded)
	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "403 REFUSED: by the test") {
		t.Errorf("a key that the server refuses: %v", err)
	}
	for name, w := range map[string]*Worker{
		"no address":     New("localhost:8080", []string{"q"}),
		"no queue":       New(s.URL, nil),
		"no place":       New(s.URL, []string{"q"}, WithConcurrency(0)),
		"a short lease":  New(s.URL, []string{"q"}, WithLease(time.Second)),
		"an empty name":  New(s.URL, []string{"q"}, WithName("")),
		"a name of keys": New(s.URL, []string{"q"}, WithName("a:b")),
	} {
		Handle(w, "WAIT", untilEnded)
		if err := w.Run(t.Context()); err == nil || s.counts["claim"] > 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := New(s.URL, []string{"q"}).Run(t.Context()); err == nil {
		t.Error("a worker without handlers ran")
	}
}
