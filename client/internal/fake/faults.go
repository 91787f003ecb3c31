package fake

import (
	"cmp"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
)

// Fault says how the fake server fails for one request. The zero Fault is none.
type Fault struct {
	DropBefore bool   // closes the connection before the work
	DropAfter  bool   // does the work, and closes the connection without an answer
	CutAnswer  bool   // does the work, and breaks off in the middle of the answer
	Silent     bool   // does the work, and sends nothing until the client leaves
	Status     int    // answers this status without the work
	StatusDone int    // does the work, and answers this status
	Code       string // with Status and StatusDone
	RetryAfter string // with Status and StatusDone
	Type, Body string // with Status: a body other than the API's
}

// Faults sets the function that chooses the fault of each request; n counts the requests from 1.
func (s *Server) Faults(f func(n int, r *http.Request) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// ServeHTTP serves a request, with its fault if it has one.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, r.Method+" "+r.URL.Path)
	var f Fault
	if s.fault != nil {
		f = s.fault(len(s.seen), r)
	}
	s.mu.Unlock()

	done := httptest.NewRecorder()
	if f.DropAfter || f.CutAnswer || f.Silent || f.StatusDone != 0 {
		s.mux.ServeHTTP(done, r)
	}
	switch {
	case f.DropBefore, f.DropAfter:
		panic(http.ErrAbortHandler)
	case f.CutAnswer:
		maps.Copy(w.Header(), done.Header())
		w.Header().Set("Content-Length", strconv.Itoa(done.Body.Len()))
		w.WriteHeader(done.Code)
		_, _ = w.Write(done.Body.Bytes()[:done.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case f.Silent:
		<-r.Context().Done()
	case f.Status != 0 || f.StatusDone != 0:
		if f.RetryAfter != "" {
			w.Header().Set("Retry-After", f.RetryAfter)
		}
		if f.Body != "" {
			w.Header().Set("Content-Type", f.Type)
			w.WriteHeader(f.Status)
			_, _ = io.WriteString(w, f.Body)
			return
		}
		Refuse(w, cmp.Or(f.Status, f.StatusDone), f.Code)
	default:
		s.mux.ServeHTTP(w, r)
	}
}
