// Package fake is a tierq server as a client sees it, in memory and on a free port, for tests and examples. It
// keeps the API's promises about idempotency keys, polls and events, runs no jobs, and fails on request.
package fake

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
)

// Server is the fake server. Its jobs stay PENDING until Move, or run at the first question about them if
// NewRunning made the server.
type Server struct {
	URL string

	http  *httptest.Server
	mux   *http.ServeMux
	mu    sync.Mutex
	jobs  map[string]*Job
	order []string
	keys  map[string]string // idempotency key -> job id
	seen  []string          // method and path of each request, in order
	moved chan struct{}     // closed and replaced at each change
	fault func(n int, r *http.Request) Fault
	runs  bool
}

// Job is an accepted job.
type Job struct {
	ID, Tier, Type, Key, Trace string
	Payload                    json.RawMessage
	Body                       string // of the submit, as received; an entry of a batch without key and trace
	Status                     string
	Version                    int
	Result, Cause, Error       string
}

// New starts a fake server; Close ends it.
func New() *Server {
	s := &Server{mux: http.NewServeMux(), jobs: map[string]*Job{}, keys: map[string]string{}, moved: make(chan struct{})}
	s.mux.HandleFunc("POST /{tier}/submit", s.submit)
	s.mux.HandleFunc("POST /{tier}/submit/batch", s.batch)
	s.mux.HandleFunc("GET /result/poll", s.poll)
	s.mux.HandleFunc("GET /api/jobs/{id}/events", s.events)
	s.mux.HandleFunc("POST /api/jobs/{id}/cancel", s.cancel)
	s.http = httptest.NewServer(s)
	s.URL = s.http.URL
	return s
}

// NewRunning starts a fake server that completes a job as soon as a request asks for it.
func NewRunning() *Server {
	s := New()
	s.runs = true
	return s
}

// Close stops the server and breaks its connections.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Handle adds a handler for a pattern of http.ServeMux. It gets one request at a time.
func (s *Server) Handle(pattern string, f http.HandlerFunc) {
	var one sync.Mutex
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		one.Lock()
		defer one.Unlock()
		f(w, r)
	})
}

// Jobs returns the accepted jobs, in order.
func (s *Server) Jobs() []Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Job
	for _, id := range s.order {
		list = append(list, *s.jobs[id])
	}
	return list
}

// Seen lists the requests that have arrived, each as "<method> <path>".
func (s *Server) Seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// Move sets a job's status, and the result, cause and error that its poll then shows.
func (s *Server) Move(id, status, result, cause, failure string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.move(id, status, result, cause, failure)
}

func (s *Server) move(id, status, result, cause, failure string) {
	j := s.jobs[id]
	j.Status, j.Result, j.Cause, j.Error = status, result, cause, failure
	j.Version++
	close(s.moved)
	s.moved = make(chan struct{})
}

// accept accepts a submission, or finds the job of its idempotency key. The caller holds the lock.
func (s *Server) accept(tier, key, trace string, body []byte) (j *Job, replayed bool, code string) {
	if first, known := s.keys[key]; known && key != "" {
		j := s.jobs[first]
		if j.Body != string(body) || j.Tier != tier {
			return nil, false, "IDEMPOTENCY_MISMATCH"
		}
		return j, true, ""
	}
	var asked struct {
		Type    string          `json:"type"`
		Payload json.RawMessage `json:"payload"`
	}
	if len(body) > 0 && json.Unmarshal(body, &asked) != nil {
		return nil, false, "INVALID_REQUEST"
	}
	if asked.Type == "NO_SUCH_TYPE" {
		return nil, false, "UNKNOWN_JOB_TYPE"
	}
	if asked.Type == "TOO_MANY" {
		return nil, false, "QUEUE_FULL"
	}
	j = &Job{
		ID: fmt.Sprintf("019de340-01fe-7a58-be69-%012x", len(s.order)+1), Tier: tier, Type: asked.Type, Key: key,
		Trace:   trace,
		Payload: asked.Payload, Body: string(body), Status: "PENDING",
	}
	s.jobs[j.ID] = j
	s.order = append(s.order, j.ID)
	if key != "" {
		s.keys[key] = j.ID
	}
	return j, false, ""
}

func (s *Server) submit(w http.ResponseWriter, r *http.Request) {
	body := read(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	j, replayed, code := s.accept(strings.ToUpper(r.PathValue("tier")), r.Header.Get("Idempotency-Key"),
		r.Header.Get("X-Trace-Id"), body)
	if code != "" {
		Refuse(w, statuses[code], code)
		return
	}
	if replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	w.Header().Set("X-Trace-Id", cmp.Or(r.Header.Get("X-Trace-Id"), "trace-of-"+j.ID))
	w.Header().Set("Retry-After", "1")
	JSON(w, http.StatusAccepted, map[string]any{"apiResponseData": map[string]any{"jobId": j.ID,
		"currentJobStatus": j.Status}})
}

func (s *Server) batch(w http.ResponseWriter, r *http.Request) {
	var entries []json.RawMessage
	body := read(r)
	if len(body) > 16<<20 {
		Refuse(w, http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
		return
	}
	if err := json.Unmarshal(body, &entries); err != nil || len(entries) > 1000 {
		Refuse(w, http.StatusBadRequest, "INVALID_REQUEST")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []map[string]any{}
	for _, e := range entries {
		key, trace, body := separate(e)
		trace = cmp.Or(trace, r.Header.Get("X-Trace-Id"))
		j, replayed, code := s.accept(strings.ToUpper(r.PathValue("tier")), key, trace, body)
		if code != "" {
			out = append(out, members(code))
			continue
		}
		answer := map[string]any{"jobId": j.ID, "currentJobStatus": j.Status, "retryAfter": 1}
		if replayed {
			answer["idempotencyReplayed"] = true
		}
		out = append(out, answer)
	}
	JSON(w, http.StatusAccepted, map[string]any{"apiResponseData": out})
}

// own matches the members that only an entry of a batch has.
var own = regexp.MustCompile(`,?"(idempotencyKey|traceId)":"(\\.|[^"\\])*"`)

// separate returns an entry's key and trace id, and the body of the same submit alone.
func separate(entry []byte) (key, trace string, body []byte) {
	var said struct {
		Key   string `json:"idempotencyKey"`
		Trace string `json:"traceId"`
	}
	_ = json.Unmarshal(entry, &said) // accept reports the error
	end := max(0, len(entry)-1<<10)  // they come last
	return said.Key, said.Trace, append(entry[:end:end], own.ReplaceAll(entry[end:], nil)...)
}

func (s *Server) cancel(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.PathValue("id")
	j := s.jobs[id]
	switch {
	case j == nil:
		Refuse(w, http.StatusNotFound, "JOB_NOT_FOUND")
	case j.Status == "PROCESSING":
		JSON(w, http.StatusAccepted, map[string]any{"jobId": id, "status": "PROCESSING", "cancelRequested": true})
	case j.Status == "PENDING":
		s.move(id, "CANCELLED", "", "", "")
		JSON(w, http.StatusOK, map[string]any{"jobId": id, "status": "CANCELLED"})
	default:
		Refuse(w, http.StatusConflict, "INVALID_STATE_TRANSITION")
	}
}
