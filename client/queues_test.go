package client

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/client/internal/fake"
)

const aQueue = `{"name":"films","limit":7,"types":["A"],"schemas":{"A":{"type":"object"}},"maxProcessingSeconds":60,` +
	`"push":{"url":"https://x.example/","permanent4xx":true,"concurrency":4,"webhook":{"secret":"whsec_x",` +
	`"publicKey":"whpk_x"},"key":"aaaaaaaaaaaaaaaa"},"logs":"off",` +
	`"paused":"2026-05-01T11:31:57Z","ready":4,"scheduled":2,"running":1,"version":3}`

var films = Queue{
	Name: "films", Limit: 7, Types: []string{"A"}, MaxRun: time.Minute,
	Schemas: map[string]json.RawMessage{"A": json.RawMessage(`{"type":"object"}`)},
	Push: &Push{URL: "https://x.example/", Permanent4xx: true, Concurrency: 4, Key: "aaaaaaaaaaaaaaaa",
		Webhook: &WebhookKeys{Secret: "whsec_x", PublicKey: "whpk_x"}},
	LogsOff: true, Paused: time.Date(2026, 5, 1, 11, 31, 57, 0, time.UTC), Ready: 4, Scheduled: 2, Running: 1,
	Version: 3,
}

func TestQueues(t *testing.T) {
	s, c := newServer(t)
	main := `{"name":"main","limit":null,"types":[],"schemas":{},"maxProcessingSeconds":null,"push":null,"logs":"on",` +
		`"paused":null,"ready":9,"scheduled":0,"running":0,"version":0}`
	answers(s, "GET /admin/queues", 200, `{"items":[`+main+`,`+aQueue+`]}`)
	queues, err := c.Queues(soon(t))
	if err != nil || !reflect.DeepEqual(queues, []Queue{{Name: MainQueue, Ready: 9}, films}) {
		t.Fatalf("%+v, %v", queues, err)
	}
	for i, want := range []string{main, aQueue} {
		if text, err := queues[i].MarshalJSON(); err != nil || string(text) != want {
			t.Errorf("%s, %v, want %s", text, err, want)
		}
	}
	var asked []string
	note := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("If-Match")+" "+string(body)))
		switch {
		case strings.HasSuffix(r.URL.Path, "/purge"):
			_, _ = io.WriteString(w, `{"cancelled":12,"more":true}`)
		case r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "busy"):
			fake.Refuse(w, http.StatusConflict, "INVALID_STATE_TRANSITION")
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		default:
			_, _ = io.WriteString(w, aQueue)
		}
	}
	for _, pattern := range []string{"PUT /admin/queues/{name}", "DELETE /admin/queues/{name}",
		"POST /admin/queues/{name}/{action}"} {
		s.Handle(pattern, note)
	}
	for name, do := range map[string]func() (Queue, error){
		"declare": func() (Queue, error) { return c.DeclareQueue(soon(t), films, films.ETag()) },
		"pause":   func() (Queue, error) { return c.PauseQueue(soon(t), "films") },
		"resume":  func() (Queue, error) { return c.ResumeQueue(soon(t), "films") },
	} {
		if got, err := do(); err != nil || !reflect.DeepEqual(got, films) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, err := c.PurgeQueue(soon(t), "films"); err != nil || got != (Purged{12, true}) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := c.DeleteQueue(soon(t), "films"); err != nil {
		t.Error(err)
	}
	if err := c.DeleteQueue(soon(t), "busy"); !errors.Is(err, ErrConflict) {
		t.Errorf("a queue with jobs: %v", err)
	}
	for _, want := range []string{
		`PUT /admin/queues/films "3" {"limit":7,"types":["A"],"schemas":{"A":{"type":"object"}},"maxProcessingSeconds":60,` +
			`"push":{"url":"https://x.example/","permanent4xx":true,"concurrency":4,"key":"aaaaaaaaaaaaaaaa"},"logs":"off"}`,
		"POST /admin/queues/films/pause",
		"POST /admin/queues/films/resume", "POST /admin/queues/films/purge", "DELETE /admin/queues/films",
	} {
		if !strings.Contains(strings.Join(asked, "\n")+"\n", want+"\n") {
			t.Errorf("%q was not asked: %q", want, asked)
		}
	}
}

// A submit names its queue, and nothing without one.
func TestSubmission_Queue(t *testing.T) {
	for queue, want := range map[string]string{"films": `{"queue":"films"}`, "": "{}"} {
		s := Submission{}
		InQueue(queue)(&s)
		if text, err := s.encode(""); err != nil || strings.TrimSpace(string(text)) != want {
			t.Errorf("%q: %s, %v", queue, text, err)
		}
	}
}
