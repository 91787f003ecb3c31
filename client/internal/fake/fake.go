// Package fake is a tierq server as a client sees it, in memory and on a free port. It keeps the API's promises about
// idempotency keys, polls and events, runs no jobs, and fails on request. The tests of package client use it as it is,
// because they cannot import package tierqtest, which imports package client. All others use tierqtest.
package fake

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
)

// Server is the fake server. Its jobs stay SCHEDULED or PENDING until Move or Change.
type Server struct {
	URL string

	http     *httptest.Server
	mux      *http.ServeMux
	mu       sync.Mutex
	jobs     map[string]*Job
	order    []string
	keys     map[string]string // idempotency key -> job id
	unique   map[string]*holding
	seen     []string      // method and path of each request, in order
	moved    chan struct{} // closed and replaced at each change
	fault    func(n int, r *http.Request) Fault
	judge    func(typ string) (code string)
	accepted func(j Job)
	groups
}

// New starts a fake server; Close ends it.
func New() *Server {
	s := &Server{mux: http.NewServeMux(), jobs: map[string]*Job{}, keys: map[string]string{}, moved: make(chan struct{}),
		unique: map[string]*holding{}, judge: judge, accepted: func(Job) {}, groups: newGroups()}
	s.mux.HandleFunc("POST /{tier}/submit", s.submit)
	s.mux.HandleFunc("POST /{tier}/submit/batch", s.batch)
	s.mux.HandleFunc("GET /result/poll", s.poll)
	s.mux.HandleFunc("GET /api/jobs/{id}/events", s.events)
	s.mux.HandleFunc("POST /api/jobs/{id}/cancel", s.cancel)
	s.http = httptest.NewServer(s)
	s.URL = s.http.URL
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

// Seen lists the requests that have arrived, each as "<method> <path>".
func (s *Server) Seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

func (s *Server) submit(w http.ResponseWriter, r *http.Request) {
	body := read(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.accept(strings.ToUpper(r.PathValue("tier")), r.Header.Get("Idempotency-Key"), r.Header.Get("X-Trace-Id"), body)
	if o.code != "" {
		o.refuse(w)
		return
	}
	if o.replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	w.Header().Set("X-Trace-Id", cmp.Or(r.Header.Get("X-Trace-Id"), "trace-of-"+o.job.ID))
	w.Header().Set("Retry-After", "1")
	JSON(w, http.StatusAccepted, map[string]any{"apiResponseData": o.members()})
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
		o := s.accept(strings.ToUpper(r.PathValue("tier")), key, trace, body)
		if o.code != "" {
			refused := members(o.code)
			if o.job != nil {
				refused["jobId"] = o.job.ID
			}
			out = append(out, refused)
			continue
		}
		answer := o.members()
		answer["retryAfter"] = 1
		if o.replayed {
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
		j.CancelRequested = true
		JSON(w, http.StatusAccepted, map[string]any{"jobId": id, "status": "PROCESSING", "cancelRequested": true})
	case !j.Ended(), j.Status == "CANCELLED":
		if !j.Ended() {
			s.moveTo(j, "CANCELLED")
		}
		JSON(w, http.StatusOK, map[string]any{"jobId": id, "status": "CANCELLED"})
	default:
		Refuse(w, http.StatusConflict, "INVALID_STATE_TRANSITION")
	}
}
