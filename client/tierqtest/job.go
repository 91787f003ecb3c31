package tierqtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/client/internal/fake"
)

// Job describes an accepted job: the members of its submit, and its status, result and error at the time of the call.
type Job struct {
	ID      string
	Tier    client.Tier
	Type    string // SIMULATION if the submit named none, as on a server
	Payload json.RawMessage

	// IdempotencyKey is random where the submit set none: package client sends one with each submit.
	IdempotencyKey string
	MaxRetries     *int // nil = the tier's
	Delay          time.Duration
	RunAt          time.Time // with a Delay it is the time of the submit plus Delay; zero = at once
	ExpiresAt      time.Time // with an ExpiresIn it is the time of the submit plus ExpiresIn; zero = never
	CallbackURL    string
	Queue          string
	LineKey        string         // see client.WithKey
	Unique         *client.Unique // nil = none; While and On are set where the submit left them out
	TraceID        string
	BatchID        string   // "" = the job is no member of a batch; the then job of a batch is none
	FlowID, Name   string   // its flow, and its name there; "" = it is of no flow
	After          []string // the names of the jobs that it waits for, as its submit had them

	Status          client.Status
	CancelRequested bool            // a caller cancelled the job while it was running
	Result          json.RawMessage // of a COMPLETED job
	Error           string          // of a FAILED job
}

// Decode decodes the job's payload into v.
func (j *Job) Decode(v any) error {
	if err := json.Unmarshal(j.Payload, v); err != nil {
		return fmt.Errorf("tierqtest: payload of job %s: %w", j.ID, err)
	}
	return nil
}

func jobOf(j fake.Job) Job {
	var unique *client.Unique
	if u := j.Unique; u != nil {
		unique = &client.Unique{Key: u.Key, While: u.While, For: u.For, On: u.On, MaxWait: u.MaxWait}
	}
	return Job{
		ID: j.ID, Tier: client.Tier(j.Tier), Type: j.Type, Payload: j.Payload, IdempotencyKey: j.Key,
		MaxRetries: j.MaxRetries, Delay: j.Delay, RunAt: j.RunAt, CallbackURL: j.CallbackURL, Queue: j.Queue,
		LineKey: j.LineKey, Unique: unique, ExpiresAt: j.ExpiresAt, BatchID: j.BatchID, FlowID: j.FlowID, Name: j.Name,
		After:   j.After,
		TraceID: j.Trace, Status: client.Status(j.Status), CancelRequested: j.CancelRequested,
		Result: json.RawMessage(j.Result), Error: j.Error,
	}
}

// Jobs returns the accepted jobs, in the order of their submits. A repeated submit is not in it twice.
func (s *Server) Jobs() []Job {
	var list []Job
	for _, j := range s.fake.Jobs() {
		list = append(list, jobOf(j))
	}
	return list
}

// Job returns one job. An unknown id is a mistake of the test.
func (s *Server) Job(id string) Job {
	for _, j := range s.fake.Jobs() {
		if j.ID == id {
			return jobOf(j)
		}
	}
	s.misuse("job %s: %v", id, fake.ErrNoJob)
	return Job{}
}

// Requests lists the requests that have arrived, each as "<method> <path>", such as "POST /paid/submit".
func (s *Server) Requests() []string { return s.fake.Seen() }

// Begin starts a job that waits, as a worker would: it is PROCESSING. A job whose type has a handler runs it. A job
// with a delay does not wait for its time. A job that runs, is HELD or WAITING, or has ended is a mistake of the test.
func (s *Server) Begin(id string) {
	var f func(Job) (any, error)
	s.change("Begin", id, func(j *fake.Job) error {
		if err := begin(j); err != nil {
			return err
		}
		f = s.handler(j.Type)
		return nil
	})
	if f != nil {
		s.running.Go(func() { s.run(id, f) })
	}
}

// Complete ends a job with a result, which is any value that encoding/json takes. The job may run or wait. A job that
// was cancelled while it ran ends CANCELLED. A job that is HELD or WAITING, or has ended, is a mistake of the test.
func (s *Server) Complete(id string, result any) {
	text, err := json.Marshal(result)
	if err != nil {
		s.misuse("Complete: the result of job %s: %v", id, err)
		return
	}
	s.change("Complete", id, completed(text))
}

// Fail ends a job as FAILED, with the cause HANDLER_ERROR and the text of an error. In all else it is as Complete.
func (s *Server) Fail(id string, err error) {
	if err == nil {
		s.misuse("Fail: job %s: there is no error", id)
		return
	}
	s.change("Fail", id, failed(err))
}

// Expire ends a job that waits as EXPIRED, as a server does with a job that no worker claimed in time. A job that runs
// or has ended is a mistake of the test.
func (s *Server) Expire(id string) {
	s.change("Expire", id, func(j *fake.Job) error {
		if err := begin(j); err != nil { // it must wait
			return err
		}
		j.Status = "EXPIRED"
		return nil
	})
}

func completed(result []byte) func(j *fake.Job) error {
	return end(func(j *fake.Job) { j.Status, j.Result = "COMPLETED", string(result) })
}

func failed(err error) func(j *fake.Job) error {
	return end(func(j *fake.Job) { j.Status, j.Cause, j.Error = "FAILED", "HANDLER_ERROR", err.Error() })
}

// change changes a job, or reports the reason why it cannot.
func (s *Server) change(verb, id string, f func(j *fake.Job) error) {
	if err := s.fake.Change(id, f); err != nil {
		s.misuse("%s: job %s: %v", verb, id, err)
	}
}

var (
	errRuns = errors.New("it runs already")
	errHeld = errors.New("it is HELD until the job that has its unique key has ended")

	errWaiting = errors.New("it is WAITING until the jobs that it waits for in its flow have ended")
)

func begin(j *fake.Job) error {
	switch {
	case j.Ended():
		return errEnded(j)
	case j.Status == "PROCESSING":
		return errRuns
	case j.Status == "HELD":
		return errHeld
	case j.Status == "WAITING":
		return errWaiting
	}
	j.Status = "PROCESSING"
	return nil
}

// end returns the change that ends a job.
func end(as func(j *fake.Job)) func(j *fake.Job) error {
	return func(j *fake.Job) error {
		switch {
		case j.Ended():
			return errEnded(j)
		case j.Status == "HELD":
			return errHeld
		case j.Status == "WAITING":
			return errWaiting
		case j.CancelRequested:
			j.Status = "CANCELLED"
			return nil
		}
		as(j)
		return nil
	}
}

func errEnded(j *fake.Job) error { return fmt.Errorf("it is %s already", j.Status) }
