package tierqtest

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tierq/tierq/client/internal/fake"
)

var errNoReturn = errors.New("the handler did not return")

// Handle gives a job type a handler, which runs every later job of the type in a goroutine of its own. The job is
// COMPLETED with what the handler returns, or FAILED with its error. The jobs that wait already, and jobs with a
// delay, run at Begin. A test that looks at what a handler did waits for the job first, with Wait of package client.
func (s *Server) Handle(typ string, f func(Job) (any, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[typ] = f
}

func (s *Server) handler(typ string) func(Job) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handlers[typ]
}

// Types makes the server refuse jobs of all other types with 422 UNKNOWN_JOB_TYPE, as a server does that does not know
// them. Without Types every type is accepted.
func (s *Server) Types(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.types = map[string]bool{}
	for _, name := range names {
		s.types[name] = true
	}
}

// judge returns the error code of a submitted type; "" = accepted.
func (s *Server) judge(typ string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.types != nil && !s.types[typ] {
		return "UNKNOWN_JOB_TYPE"
	}
	return ""
}

// accept runs a new job if its type has a handler and the job need not wait. It is called by the fake, which holds its
// lock meanwhile.
func (s *Server) accept(j fake.Job) {
	f := s.handler(j.Type)
	if f == nil || j.Status != "PENDING" {
		return
	}
	s.running.Go(func() {
		if s.fake.Change(j.ID, begin) == nil { // an error means that a caller or the test was faster
			s.run(j.ID, f)
		}
	})
}

// run runs a handler and ends its job, unless the test has ended it meanwhile.
func (s *Server) run(id string, f func(Job) (any, error)) {
	ending := failed(errNoReturn) // the handler panics, or calls FailNow
	defer func() {
		_ = s.fake.Change(id, ending) // an error means that the test has ended the job
	}()
	result, err := f(s.Job(id))
	if err != nil {
		ending = failed(err)
		return
	}
	text, err := json.Marshal(result)
	if err != nil {
		ending = failed(fmt.Errorf("the handler's result: %w", err))
		return
	}
	ending = completed(text)
}
