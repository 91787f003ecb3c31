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

// Without tags the client does not ask the server to hold polls, because the server would hold them until the
// job's end.
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
			return reply(200, fmt.Sprintf(`{"apiResponseData":{"jobId":%q,"currentJobStatus":%q}}`, unknownID, steps[polls-1])),
				nil
		})}))
		var told []Status
		_, err := c.Watch(t.Context(), unknownID, func(p Poll) { told = append(told, p.Status) })
		if err != nil || fmt.Sprint(told) != "[PENDING PROCESSING COMPLETED]" || polls != len(steps) {
			t.Errorf("%v, told %v in %d polls", err, told, polls)
		}
	})
}

// Every change is reported once and in order, over broken streams and without any.
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

// A broken stream resumes after its last event: the client names that event, and does not report repeated events
// twice.
func TestWatch_ResumesAStream(t *testing.T) {
	s, c := newServer(t)
	id := submitted(t, c)
	var resumed []string
	s.Handle("GET /api/jobs/"+id+"/events", func(w http.ResponseWriter, r *http.Request) {
		resumed = append(resumed, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		frame := func(status, tag string) {
			fmt.Fprintf(w, "event: status\r\nid: %s\r\ndata: {\"jobId\":%q,\r\ndata: \"currentJobStatus\":%q}\r\n\r\n", tag, id,
				status)
		}
		switch len(resumed) {
		case 1:
			fmt.Fprint(w, "retry: 1\n: ping\n\n")
			frame("PENDING", "PENDING-0-0-1")
			fmt.Fprint(w, "event: status\nid: half\ndata: {") // the stream breaks here
		case 2:
			frame("PENDING", "PENDING-0-0-1")
			frame("PROCESSING", "PROCESSING-1-0-1")
			fmt.Fprint(w, "event: bye\ndata:\n\n") // draining
		default:
			frame("COMPLETED", "COMPLETED-1-0-1")
		}
	})
	var told []Status
	p, err := c.Watch(soon(t), id, func(p Poll) { told = append(told, p.Status) })
	if p.ETag != `W/"COMPLETED-1-0-1"` {
		t.Errorf("tag %s", p.ETag)
	}
	if err != nil || fmt.Sprint(told) != "[PENDING PROCESSING COMPLETED]" || len(resumed) != 3 ||
		resumed[0] != "PENDING-0-0-1" || resumed[2] != "PROCESSING-1-0-1" {
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
			fmt.Fprintf(w, "retry: 1\n\nid: a-1\ndata: {\"jobId\":%q,\"tier\":\"PAID\",\"status\":\"FAILED\",\"attempt\":2,"+
				"\"cause\":\"HANDLER_ERROR\",\"at\":\"2026-05-01T11:31:57Z\"}\n\n", unknownID)
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
	if e := events[0]; e.ID != "a-1" || e.JobID != unknownID || e.Tier != Paid || e.Status != Failed || e.Attempt != 2 ||
		e.Cause != "HANDLER_ERROR" || e.Resync {
		t.Errorf("%+v", e)
	}
	if e := events[1]; !e.Resync || e.ID != "a-9" {
		t.Errorf("%+v", e)
	}
}

// A stream ends when its server is silent or gone.
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
		<-r.Context().Done() // silent after the headers
	})
	if err := c.Events(soon(t), "", func(Event) {}); !errors.Is(err, errSilent) || connections != 2 {
		t.Errorf("%v after %d connections", err, connections)
	}
}
