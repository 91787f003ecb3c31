package tierqtest

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/client/internal/fake"
)

// Refusal is an answer that refuses a submit. Without a Code the server says QUEUE_FULL with the status 503,
// RATE_LIMITED with 429, OUTCOME_UNKNOWN with 504, and INVALID_REQUEST with any other.
type Refusal struct {
	Status     int           // 0 = 503
	Code       string        // the API's error code
	RetryAfter time.Duration // in whole seconds, rounded up; 0 = the answer has none
}

// Refuse makes the server refuse the next n submits, and accept no job of them. A submit of many jobs or of a flow
// counts as one, and so does the making of a batch. Each try of a client counts. It comes after the submits that
// earlier calls of Refuse and LoseAnswers are waiting for.
func (s *Server) Refuse(n int, r Refusal) {
	status := cmp.Or(r.Status, http.StatusServiceUnavailable)
	f := fake.Fault{Status: status, Code: cmp.Or(r.Code, codes[status], "INVALID_REQUEST")}
	if r.RetryAfter > 0 {
		f.RetryAfter = strconv.Itoa(int(math.Ceil(r.RetryAfter.Seconds())))
	}
	s.expect(n, f)
}

var codes = map[int]string{
	http.StatusServiceUnavailable: "QUEUE_FULL", http.StatusTooManyRequests: "RATE_LIMITED",
	http.StatusGatewayTimeout: "OUTCOME_UNKNOWN",
}

// LoseAnswers makes the server accept the next n submits, and break their connections instead of answering. It is what
// a program must survive without submitting its job twice.
func (s *Server) LoseAnswers(n int) { s.expect(n, fake.Fault{DropAfter: true}) }

// expect gives the next n submits a fault.
func (s *Server) expect(n int, f fake.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.faults = append(s.faults, f)
	}
}

// fault takes the fault of a request.
func (s *Server) fault(_ int, r *http.Request) fake.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	submit := strings.HasSuffix(r.URL.Path, "/submit") || strings.HasSuffix(r.URL.Path, "/submit/batch") ||
		r.Method == http.MethodPost && (r.URL.Path == "/api/flows" || r.URL.Path == "/api/batches")
	if !submit || len(s.faults) == 0 {
		return fake.Fault{}
	}
	f := s.faults[0]
	s.faults = s.faults[1:]
	return f
}
