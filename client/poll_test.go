package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/client/internal/fake"
)

func TestPoll(t *testing.T) {
	s, c := newServer(t)
	id := submitted(t, c)
	p, err := c.Poll(soon(t), id)
	if err != nil || p.JobID != id || p.Status != Pending || p.Tier != Paid || p.Position == nil || *p.ETASeconds != 1 ||
		p.Result != nil || time.Since(p.ArrivedAt) > time.Minute {
		t.Errorf("%+v, %v", p, err)
	}
	s.Move(id, "COMPLETED", `{"n":7}`, "", "")
	var result struct{ N int }
	if p, err = c.Poll(soon(t), id); err != nil || p.Decode(&result) != nil || result.N != 7 || p.Position != nil {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err = c.Poll(soon(t), unknownID); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	for _, id := range []string{"", "x", unknownID + "0", "../../admin/jobs/019de340-01fe-7a58-be",
		strings.Replace(unknownID, "-", "/", 1)} {
		if _, err := c.Poll(soon(t), id); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if n := len(s.Seen()); n != 4 {
		t.Errorf("%d requests", n)
	}
}

// waits returns Wait and Watch, which must end in the same way.
func waits(t *testing.T, c *Client) map[string]func(id string) (Poll, error) {
	return map[string]func(id string) (Poll, error){
		"wait":  func(id string) (Poll, error) { return c.Wait(soon(t), id) },
		"watch": func(id string) (Poll, error) { return c.Watch(soon(t), id, nil) },
	}
}

func TestWait_EndsAsTheJobEnds(t *testing.T) {
	s, c := newServer(t)
	for name, wait := range waits(t, c) {
		for _, end := range []Status{Completed, Failed, Cancelled, Expired} {
			id := submitted(t, c)
			go func() {
				s.Move(id, "PROCESSING", "", "", "")
				s.Move(id, string(end), `{"n":7}`, "HANDLER_ERROR", "boom")
			}()
			p, err := wait(id)
			failed, isFailed := errors.AsType[*JobFailedError](err)
			cancelled, isCancelled := errors.AsType[*JobCancelledError](err)
			_, isExpired := errors.AsType[*JobExpiredError](err)
			if p.JobID != id || p.Status != end || isFailed != (end == Failed) || isCancelled != (end == Cancelled) ||
				isExpired != (end == Expired) || (err == nil) != (end == Completed) {
				t.Errorf("%s, %s: %+v, %v", name, end, p, err)
			}
			if isFailed && (failed.Poll.FailureCause != "HANDLER_ERROR" || !strings.Contains(err.Error(), "boom")) ||
				isCancelled && cancelled.Poll.JobID != id {
				t.Errorf("%s, %s: %v", name, end, err)
			}
		}
		if _, err := wait(unknownID); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s, unknown: %v", name, err)
		}
	}
}

// The server holds the answer, so that a wait costs one request and not one per second.
func TestWait_IsOneRequest(t *testing.T) {
	s, c := newServer(t)
	id := submitted(t, c)
	polled := make(chan string, 10)
	s.Faults(func(_ int, r *http.Request) fake.Fault { polled <- r.Header.Get("Prefer"); return fake.Fault{} })
	done := make(chan error)
	go func() { _, err := c.Wait(context.Background(), id); done <- err }()
	if prefer := <-polled; prefer != "wait=25" {
		t.Errorf("Prefer: %s", prefer)
	}
	s.Move(id, "PROCESSING", "", "", "")
	s.Move(id, "COMPLETED", "", "", "")
	if err := <-done; err != nil || len(polled) != 0 {
		t.Errorf("%v, %d more requests", err, len(polled))
	}
}

func TestWait_OverFaults(t *testing.T) {
	for name, f := range map[string]fake.Fault{
		"dropped": {DropBefore: true}, "cut": {CutAnswer: true}, "502": {Status: 502},
		"503": {Status: 503, Code: "SYSTEM_UNHEALTHY", RetryAfter: "0"},
	} {
		s, c := newServer(t)
		for way, wait := range waits(t, c) {
			id := submitted(t, c)
			s.Move(id, "COMPLETED", `1`, "", "")
			seen := len(s.Seen())
			s.Faults(firstOnly(seen+3, f))
			if p, err := wait(id); err != nil || p.Status != Completed {
				t.Errorf("%s, %s: %+v, %v", way, name, p, err)
			}
		}
	}
}

// A server that does not hold answers is polled a few times a minute, not in a tight loop.
func TestWait_ServerThatDoesNotHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := New("http://tierq", WithHTTPClient(&http.Client{Transport: wire(func(*http.Request) (*http.Response, error) {
			asked++
			return reply(200, `{"apiResponseData":{"jobId":"`+unknownID+`","currentJobStatus":"PENDING"}}`, "ETag",
				`W/"PENDING-0-0-1"`), nil
		})}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		p, err := c.Wait(ctx, unknownID)
		if !errors.Is(err, context.DeadlineExceeded) || p.Status != Pending || asked < 10 || asked > 40 {
			t.Errorf("%+v, %v; asked %d times in a minute", p, err, asked)
		}
	})
}

// If the server has no room for waiting polls, the client polls without waiting.
func TestWait_NoRoomToWait(t *testing.T) {
	s, c := newServer(t, WithTries(1))
	id := submitted(t, c)
	s.Move(id, "COMPLETED", "1", "", "")
	s.Faults(func(_ int, r *http.Request) fake.Fault {
		if r.Header.Get("Prefer") != "" {
			return fake.Fault{Status: 503, Code: "SYSTEM_UNHEALTHY"}
		}
		return fake.Fault{}
	})
	if p, err := c.Wait(soon(t), id); err != nil || p.Status != Completed {
		t.Errorf("%+v, %v", p, err)
	}
}

// A success that names no job is an error: another server may have answered.
func TestAnswerWithoutJob(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"hello":"world"}`)
	}))
	t.Cleanup(other.Close)
	c := New(other.URL, WithTries(1))
	t.Cleanup(c.Close)
	_, polled := c.Poll(soon(t), unknownID)
	_, shown := c.Job(soon(t), unknownID)
	for _, err := range []error{polled, shown} {
		var e *Error
		if !errors.As(err, &e) || e.Status != 200 || e.Code != "" || errors.Is(err, ErrNotFound) {
			t.Errorf("%v", err)
		}
	}
}
