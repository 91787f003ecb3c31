package fake

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
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

	BatchID      string   // "" = it is no member of a batch
	FlowID, Name string   // the flow, and the job's name in it; "" = it is of no flow
	After        []string // the names of the jobs that it waits for in its flow
	OnFailure    string

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
	if ended(status) {
		s.left(j)
	}
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
	j, asked, code := s.newJob(tier, trace, body)
	switch {
	case code != "":
		return outcome{code: code}
	case asked.Batch != "":
		if code := s.join(j, asked.Batch); code != "" {
			return outcome{code: code}
		}
	}
	j.Key = key
	if j.Unique != nil {
		o, behind, decided := s.askHolder(j)
		if decided {
			return o
		}
		s.takeKey(j, behind)
	}
	s.add(j)
	return outcome{job: j}
}

// asked is a submit, with the members that it has in a flow only.
type asked struct {
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
	Batch        string          `json:"batch"`

	Tier      string   `json:"tier"`
	After     []string `json:"after"`
	OnFailure string   `json:"onFailure"`
}

// newJob makes the job that a body asks for, or returns the code of a refusal. The caller holds the lock.
func (s *Server) newJob(tier, trace string, body []byte) (j *Job, of asked, code string) {
	if len(body) > 0 && json.Unmarshal(body, &of) != nil || of.Batch != "" && of.Unique != nil {
		return nil, of, "INVALID_REQUEST"
	}
	of.Type = cmp.Or(of.Type, "SIMULATION")
	if code := s.judge(of.Type); code != "" {
		return nil, of, code
	}
	j = &Job{
		ID: s.newID(), Tier: cmp.Or(tier, strings.ToUpper(of.Tier), "UNPAID"),
		Type: of.Type, Trace: trace, Payload: of.Payload, Body: string(body),
		MaxRetries: of.MaxRetries, Delay: milliseconds(of.DelaySeconds), RunAt: of.RunAt,
		CallbackURL: of.CallbackURL, Queue: of.Queue, LineKey: of.LineKey, Status: "PENDING",
		Unique: of.Unique.read(), Arrived: time.Now(), ExpiresAt: of.ExpiresAt,
	}
	if of.ExpiresIn > 0 {
		j.ExpiresAt = j.Arrived.Add(milliseconds(of.ExpiresIn))
	}
	j.due()
	return j, of, ""
}

// newID returns the id of the next job.
func (s *Server) newID() string { return fmt.Sprintf("019de340-01fe-7a58-be69-%012x", len(s.order)+1) }

// due sets the time at which a job may run that is accepted, or released by its flow, now.
func (j *Job) due() {
	now := time.Now()
	if j.Delay > 0 {
		j.RunAt = now.Add(j.Delay)
	}
	if j.RunAt.After(now) {
		j.Status = "SCHEDULED"
	}
}

// add adds an accepted job. The caller holds the lock.
func (s *Server) add(j *Job) {
	s.jobs[j.ID] = j
	s.order = append(s.order, j.ID)
	if j.Key != "" {
		s.keys[j.Key] = j.ID
	}
	s.accepted(*j)
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
