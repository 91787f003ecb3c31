package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
	if err != nil || p.JobID != id || p.Status != Pending || p.Tier != Paid || p.Position == nil || *p.ETASeconds != 1 || p.Result != nil || p.ArrivedAt.Year() != 2026 {
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
	for _, id := range []string{"", "x", unknownID + "0", "../../admin/jobs/019de340-01fe-7a58-be", strings.Replace(unknownID, "-", "/", 1)} {
		if _, err := c.Poll(soon(t), id); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if n := len(s.Seen()); n != 4 {
		t.Errorf("%d requests", n)
	}
}

// Wait and Watch come to the same end, each in its way.
func waits(t *testing.T, c *Client) map[string]func(id string) (Poll, error) {
	return map[string]func(id string) (Poll, error){
		"wait":  func(id string) (Poll, error) { return c.Wait(soon(t), id) },
		"watch": func(id string) (Poll, error) { return c.Watch(soon(t), id, nil) },
	}
}

func TestWait_EndsAsTheJobEnds(t *testing.T) {
	s, c := newServer(t)
	for name, wait := range waits(t, c) {
		for _, end := range []Status{Completed, Failed, Cancelled} {
			id := submitted(t, c)
			go func() {
				s.Move(id, "PROCESSING", "", "", "")
				s.Move(id, string(end), `{"n":7}`, "HANDLER_ERROR", "boom")
			}()
			p, err := wait(id)
			failed, isFailed := errors.AsType[*JobFailedError](err)
			cancelled, isCancelled := errors.AsType[*JobCancelledError](err)
			if p.JobID != id || p.Status != end || isFailed != (end == Failed) || isCancelled != (end == Cancelled) || (err == nil) != (end == Completed) {
				t.Errorf("%s, %s: %+v, %v", name, end, p, err)
			}
			if isFailed && (failed.Poll.FailureCause != "HANDLER_ERROR" || !strings.Contains(err.Error(), "boom")) || isCancelled && cancelled.Poll.JobID != id {
				t.Errorf("%s, %s: %v", name, end, err)
			}
		}
		if _, err := wait(unknownID); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s, unknown: %v", name, err)
		}
	}
}

// The server holds the answer: waiting costs one request, not one a second.
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
		"dropped": {DropBefore: true}, "cut": {CutAnswer: true}, "502": {Status: 502}, "503": {Status: 503, Code: "SYSTEM_UNHEALTHY", RetryAfter: "0"},
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

// A server that does not hold answers is asked a few times a minute, and not in a loop.
func TestWait_ServerThatDoesNotHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := New("http://tierq", WithHTTPClient(&http.Client{Transport: wire(func(*http.Request) (*http.Response, error) {
			asked++
			return reply(200, `{"apiResponseData":{"jobId":"`+unknownID+`","currentJobStatus":"PENDING"}}`, "ETag", `W/"PENDING-0-0-1"`), nil
		})}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		p, err := c.Wait(ctx, unknownID)
		if !errors.Is(err, context.DeadlineExceeded) || p.Status != Pending || asked < 10 || asked > 40 {
			t.Errorf("%+v, %v; asked %d times in a minute", p, err, asked)
		}
	})
}

// A server with no room for those who wait still answers those who do not.
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

// Without a tag a server would hold a poll until the job's end: then it is not asked to.
func TestWatch_WithoutTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := []Status{Pending, Pending, Processing, Completed}
		polls := 0
		c := New("http://tierq", WithHTTPClient(&http.Client{Transport: wire(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path != "/result/poll" {
				return reply(404, `{}`), nil
			}
			if r.Header.Get("Prefer") != "" {
				t.Error("it is asked to hold the answer")
			}
			polls++
			return reply(200, fmt.Sprintf(`{"apiResponseData":{"jobId":%q,"currentJobStatus":%q}}`, unknownID, steps[polls-1])), nil
		})}))
		var told []Status
		_, err := c.Watch(t.Context(), unknownID, func(p Poll) { told = append(told, p.Status) })
		if err != nil || fmt.Sprint(told) != "[PENDING PROCESSING COMPLETED]" || polls != len(steps) {
			t.Errorf("%v, told %v in %d polls", err, told, polls)
		}
	})
}

// Every change is told, once, in order, over streams that break and with none at all.
func TestWatch_TellsEachChange(t *testing.T) {
	for name, faults := range map[string]func(n int, r *http.Request) fake.Fault{
		"streams": nil,
		"no streams": func(_ int, r *http.Request) fake.Fault {
			return onEvents(r, fake.Fault{Status: 404, Code: "NOT_FOUND"})
		},
		"not one": func(_ int, r *http.Request) fake.Fault {
			return onEvents(r, fake.Fault{Status: 200, Type: "text/html", Body: "hello"})
		},
		"too many": func(_ int, r *http.Request) fake.Fault {
			return onEvents(r, fake.Fault{Status: 503, Code: "SYSTEM_UNHEALTHY"})
		},
		"no answer": func(_ int, r *http.Request) fake.Fault { return onEvents(r, fake.Fault{DropBefore: true}) },
	} {
		s, c := newServer(t)
		id := submitted(t, c)
		s.Faults(faults)
		steps := []string{"PENDING", "PROCESSING", "SCHEDULED", "PROCESSING", "COMPLETED"}
		var told []string
		began := time.Now()
		p, err := c.Watch(soon(t), id, func(p Poll) {
			told = append(told, string(p.Status))
			if n := len(told); n < len(steps) {
				s.Move(id, steps[n], `{"n":7}`, "", "")
			}
		})
		if err != nil || p.Status != Completed || string(p.Result) != `{"n":7}` || fmt.Sprint(told) != fmt.Sprint(steps) {
			t.Errorf("%s: %+v, %v, told %v", name, p, err, told)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

func onEvents(r *http.Request, f fake.Fault) fake.Fault {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		return f
	}
	return fake.Fault{}
}

// A stream goes on where it broke: the server is told the last event, and what it repeats is not told again.
func TestWatch_ResumesAStream(t *testing.T) {
	s, c := newServer(t)
	id := submitted(t, c)
	var resumed []string
	s.Handle("GET /api/jobs/"+id+"/events", func(w http.ResponseWriter, r *http.Request) {
		resumed = append(resumed, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		frame := func(status, tag string) {
			fmt.Fprintf(w, "event: status\r\nid: %s\r\ndata: {\"jobId\":%q,\r\ndata: \"currentJobStatus\":%q}\r\n\r\n", tag, id, status)
		}
		switch len(resumed) {
		case 1:
			fmt.Fprint(w, "retry: 1\n: ping\n\n")
			frame("PENDING", "PENDING-0-0-1")
			fmt.Fprint(w, "event: status\nid: half\ndata: {") // and it breaks
		case 2:
			frame("PENDING", "PENDING-0-0-1")
			frame("PROCESSING", "PROCESSING-1-0-1")
			fmt.Fprint(w, "event: bye\ndata:\n\n") // draining
		default:
			frame("COMPLETED", "COMPLETED-1-0-1")
		}
	})
	var told []Status
	_, err := c.Watch(soon(t), id, func(p Poll) { told = append(told, p.Status) })
	if err != nil || fmt.Sprint(told) != "[PENDING PROCESSING COMPLETED]" || len(resumed) != 3 || resumed[0] != "PENDING-0-0-1" || resumed[2] != "PROCESSING-1-0-1" {
		t.Errorf("%v, told %v, resumed at %q", err, told, resumed)
	}
}

func TestWatch_EndsWithTheContext(t *testing.T) {
	_, c := newServer(t)
	id := submitted(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	p, err := c.Watch(ctx, id, func(Poll) { cancel() })
	if !errors.Is(err, context.Canceled) || p.Status != Pending {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestEvents(t *testing.T) {
	s, c := newServer(t)
	var from []string
	s.Handle("GET /api/events", func(w http.ResponseWriter, r *http.Request) {
		from = append(from, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		switch len(from) {
		case 1:
			fmt.Fprintf(w, "retry: 1\n\nid: a-1\ndata: {\"jobId\":%q,\"tier\":\"PAID\",\"status\":\"FAILED\",\"attempt\":2,\"cause\":\"HANDLER_ERROR\",\"at\":\"2026-05-01T11:31:57Z\"}\n\n", unknownID)
			fmt.Fprint(w, "id: a-9\nevent: resync\ndata: {}\n\ndata: not json\n\nevent: bye\ndata: {}\n\n")
		default:
			fake.Refuse(w, http.StatusForbidden, "FORBIDDEN")
		}
	})
	var events []Event
	err := c.Events(soon(t), "a-0", func(e Event) { events = append(events, e) })
	if !errors.Is(err, ErrUnauthorized) || len(events) != 2 || fmt.Sprint(from) != "[a-0 a-9]" {
		t.Fatalf("%v, from %q: %+v", err, from, events)
	}
	if e := events[0]; e.ID != "a-1" || e.JobID != unknownID || e.Tier != Paid || e.Status != Failed || e.Attempt != 2 || e.Cause != "HANDLER_ERROR" || e.Resync {
		t.Errorf("%+v", e)
	}
	if e := events[1]; !e.Resync || e.ID != "a-9" {
		t.Errorf("%+v", e)
	}
}

// A stream whose server has died without a word ends, and so does one that nobody serves.
func TestEvents_EndWhenTheServerIsGone(t *testing.T) {
	s, c := newServer(t, WithTries(2), WithTimeout(50*time.Millisecond))
	s.Faults(firstOnly(9, fake.Fault{Silent: true}))
	if err := c.Events(soon(t), "", func(Event) {}); !errors.Is(err, ErrUnavailable) || len(s.Seen()) != 2 {
		t.Errorf("%v after %v", err, s.Seen())
	}
	s.Faults(nil)
	connections := 0
	s.Handle("GET /api/events", func(w http.ResponseWriter, r *http.Request) {
		connections++
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // silent, but for its head
	})
	if err := c.Events(soon(t), "", func(Event) {}); !errors.Is(err, errSilent) || connections != 2 {
		t.Errorf("%v after %d connections", err, connections)
	}
}
