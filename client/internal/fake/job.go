package fake

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrNoJob is the error of a change to a job that does not exist.
var ErrNoJob = errors.New("there is no such job")

// Job is an accepted job.
type Job struct {
	ID, Tier, Type, Key, Trace string
	Payload                    json.RawMessage
	Body                       string // of the submit, as received; an entry of a batch without key and trace
	MaxRetries                 *int
	Delay                      time.Duration
	RunAt                      time.Time // of a job with a delay too; zero = it may run at once
	CallbackURL, Queue         string
	LineKey                    string    // the key of its line; "" = none
	Unique                     *Unique   // nil = none
	ExpiresAt                  time.Time // of a job with an expiresIn too; zero = it does not expire

	Status                  string
	Version                 int
	CancelRequested         bool
	Result, Cause, Error    string
	Arrived, Tried, EndedAt time.Time
}

// Ended reports whether the job has ended.
func (j *Job) Ended() bool { return ended(j.Status) }

func ended(status string) bool {
	return status == "COMPLETED" || status == "FAILED" || status == "CANCELLED" || status == "EXPIRED"
}

// Judge sets the function that chooses the error code of each submitted type; "" accepts the job.
func (s *Server) Judge(f func(typ string) (code string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.judge = f
}

// judge refuses two types, for tests of refusals.
func judge(typ string) (code string) {
	switch typ {
	case "NO_SUCH_TYPE":
		return "UNKNOWN_JOB_TYPE"
	case "TOO_MANY":
		return "QUEUE_FULL"
	}
	return ""
}

// Accepted sets the function that gets each new job. It must not wait, because no request is served meanwhile.
func (s *Server) Accepted(f func(j Job)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted = f
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

// Move sets a job's status, and the result, cause and error that its poll then shows.
func (s *Server) Move(id, status, result, cause, failure string) {
	err := s.Change(id, func(j *Job) error {
		j.Result, j.Cause, j.Error, j.Status = result, cause, failure, status
		return nil
	})
	if err != nil {
		panic("fake: " + id + ": " + err.Error())
	}
}

// Change changes a job. After an error of f the job is as before.
func (s *Server) Change(id string, f func(j *Job) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.jobs[id]
	if found == nil {
		return ErrNoJob
	}
	j := *found
	if err := f(&j); err != nil {
		return err
	}
	*found = j
	s.moveTo(found, j.Status)
	return nil
}

// moveTo gives a job its status, and wakes up the requests that wait. The caller holds the lock.
func (s *Server) moveTo(j *Job, status string) {
	j.Status = status
	if status == "PROCESSING" && j.Tried.IsZero() {
		j.Tried = time.Now()
	}
	if ended(status) {
		j.EndedAt = time.Now()
	}
	j.Version++
	s.freeKey(j)
	close(s.moved)
	s.moved = make(chan struct{})
}

// accept accepts a submission, or finds the job of its idempotency key or its unique key. The caller holds the lock.
func (s *Server) accept(tier, key, trace string, body []byte) outcome {
	if first, known := s.keys[key]; known && key != "" {
		j := s.jobs[first]
		if j.Body != string(body) || j.Tier != tier {
			return outcome{code: "IDEMPOTENCY_MISMATCH"}
		}
		return outcome{job: j, replayed: true}
	}
	var asked struct {
		Type         string          `json:"type"`
		Payload      json.RawMessage `json:"payload"`
		MaxRetries   *int            `json:"maxRetries"`
		DelaySeconds float64         `json:"delaySeconds"`
		RunAt        time.Time       `json:"runAt"`
		CallbackURL  string          `json:"callbackUrl"`
		Queue        string          `json:"queue"`
		LineKey      string          `json:"key"`
		Unique       *wireUnique     `json:"unique"`
		ExpiresIn    float64         `json:"expiresIn"`
		ExpiresAt    time.Time       `json:"expiresAt"`
	}
	if len(body) > 0 && json.Unmarshal(body, &asked) != nil {
		return outcome{code: "INVALID_REQUEST"}
	}
	asked.Type = cmp.Or(asked.Type, "SIMULATION")
	if code := s.judge(asked.Type); code != "" {
		return outcome{code: code}
	}
	j := &Job{
		ID: fmt.Sprintf("019de340-01fe-7a58-be69-%012x", len(s.order)+1), Tier: tier,
		Type: asked.Type, Key: key, Trace: trace, Payload: asked.Payload, Body: string(body),
		MaxRetries: asked.MaxRetries, Delay: milliseconds(asked.DelaySeconds), RunAt: asked.RunAt,
		CallbackURL: asked.CallbackURL, Queue: asked.Queue, LineKey: asked.LineKey, Status: "PENDING",
		Unique: asked.Unique.read(), Arrived: time.Now(), ExpiresAt: asked.ExpiresAt,
	}
	if asked.ExpiresIn > 0 {
		j.ExpiresAt = j.Arrived.Add(milliseconds(asked.ExpiresIn))
	}
	if j.Delay > 0 {
		j.RunAt = j.Arrived.Add(j.Delay)
	}
	if j.RunAt.After(j.Arrived) {
		j.Status = "SCHEDULED"
	}
	if j.Unique != nil {
		o, behind, decided := s.askHolder(j)
		if decided {
			return o
		}
		s.takeKey(j, behind)
	}
	s.jobs[j.ID] = j
	s.order = append(s.order, j.ID)
	if key != "" {
		s.keys[key] = j.ID
	}
	s.accepted(*j)
	return outcome{job: j}
}

// milliseconds reads a delay, which counts to the millisecond.
func milliseconds(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds*1000)) * time.Millisecond
}

func (j *Job) tag() string { return fmt.Sprintf(`W/"%s-%d-0-1"`, j.Status, j.Version) }

// retries has the tiers that allow fewer retries than PAID.
var retries = map[string]int{"UNPAID": 2, "PUBLIC": 1}

// data returns the members of a job in a poll's answer.
func (j *Job) data() map[string]any {
	d := map[string]any{
		"jobId": j.ID, "currentJobStatus": j.Status, "jobTier": j.Tier, "type": j.Type,
		"retryCount": 0, "maxRetries": cmp.Or(retries[j.Tier], 5),
		"arrivedAt": orNull(j.Arrived), "firstTriedAt": orNull(j.Tried), "completedAt": orNull(j.EndedAt),
		"position": nil, "etaSeconds": nil, "result": nil,
		"failureCause": j.Cause, "lastError": j.Error, "traceId": j.Trace,
	}
	for _, name := range []string{"failureCause", "lastError", "traceId"} {
		if d[name] == "" {
			d[name] = nil
		}
	}
	if j.MaxRetries != nil {
		d["maxRetries"] = *j.MaxRetries
	}
	if j.Result != "" {
		d["result"] = json.RawMessage(j.Result)
	}
	switch j.Status {
	case "PENDING":
		d["position"], d["etaSeconds"] = 0, 1
	case "SCHEDULED":
		d["runAt"] = orNull(j.RunAt)
	}
	if j.Tried.IsZero() && !j.Ended() {
		d["expiresAt"] = orNull(j.ExpiresAt)
	}
	return d
}

// orNull returns a time as the API writes it; nil for the zero time.
func orNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000Z")
}
