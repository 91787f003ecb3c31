package fake

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// Unique is the unique key of a job, as its submit had it.
type Unique struct {
	Key     string
	While   string        // waiting or living
	For     time.Duration // above 0: the job holds the key for so long from its arrival, whatever While says
	On      string        // return, refuse, replace or after
	MaxWait time.Duration // 0 = not said
}

// wireUnique is a Unique in the body of a submit.
type wireUnique struct {
	Key     string          `json:"key"`
	While   json.RawMessage `json:"while"`
	On      string          `json:"on"`
	MaxWait float64         `json:"maxWait"`
}

func (w *wireUnique) read() *Unique {
	if w == nil {
		return nil
	}
	u := &Unique{Key: w.Key, While: "living", On: "return", MaxWait: milliseconds(w.MaxWait)}
	var seconds float64
	if json.Unmarshal(w.While, &seconds) == nil {
		u.For = milliseconds(seconds)
	}
	if w.On != "" {
		u.On = w.On
	}
	_ = json.Unmarshal(w.While, &u.While) // a number, or nothing: it stays living
	return u
}

// holding says which job holds a unique key, and which jobs wait until it ends.
type holding struct {
	holder *Job
	behind []*Job    // HELD, oldest first
	until  time.Time // of a key for seconds: when they are over; zero = the key is not for seconds
}

// outcome is the answer to a submit. job is the job that the submit made, or the job that holds its unique key.
type outcome struct {
	job                              *Job
	replayed, deduplicated, replaced bool
	code                             string // of a refusal; with UNIQUE_TAKEN the job has the key
}

// members returns the members that the answer has beside the job's id and status.
func (o *outcome) members() map[string]any {
	d := map[string]any{"jobId": o.job.ID, "currentJobStatus": o.job.Status}
	if o.deduplicated {
		d["deduplicated"] = true
	}
	if o.replaced {
		d["replaced"] = true
	}
	return d
}

// refuse answers a refused submit. UNIQUE_TAKEN names the job that has the key.
func (o *outcome) refuse(w http.ResponseWriter) {
	more := map[string]any{}
	if o.job != nil {
		more["jobId"] = o.job.ID
	}
	refuseWith(w, statuses[o.code], o.code, more)
}

// askHolder decides a submit whose unique key another job has; decided is false if the submit makes a job. That job is
// HELD unless behind is nil. The caller holds the lock.
func (s *Server) askHolder(j *Job) (o outcome, behind *holding, decided bool) {
	h := s.unique[j.Unique.Key]
	if h != nil && !h.until.IsZero() && !time.Now().Before(h.until) {
		delete(s.unique, j.Unique.Key)
		h = nil
	}
	switch on := j.Unique.On; {
	case h == nil:
		return outcome{}, nil, false
	case on == "return":
		return outcome{job: h.holder, deduplicated: true}, nil, true
	case on == "refuse" || !h.until.IsZero():
		return outcome{job: h.holder, code: "UNIQUE_TAKEN"}, nil, true
	case on == "replace" && h.holder.Tried.IsZero() && h.holder.Tier == j.Tier && h.holder.Queue == j.Queue:
		s.replace(h.holder, j)
		return outcome{job: h.holder, deduplicated: true, replaced: true}, nil, true
	case len(h.behind) > 0:
		last := h.behind[len(h.behind)-1]
		s.replace(last, j)
		return outcome{job: last, deduplicated: true, replaced: true}, nil, true
	}
	return outcome{}, h, false
}

// replace gives a waiting job what another submit asks for. It keeps its id, its place and its idempotency key.
func (s *Server) replace(old, j *Job) {
	old.Tier, old.Type, old.Queue, old.Payload, old.Trace = j.Tier, j.Type, j.Queue, j.Payload, j.Trace
	old.MaxRetries, old.Delay, old.RunAt, old.CallbackURL = j.MaxRetries, j.Delay, j.RunAt, j.CallbackURL
	old.Unique = j.Unique
	if latest := old.Arrived.Add(j.Unique.MaxWait); j.Unique.MaxWait > 0 && old.RunAt.After(latest) {
		old.RunAt = latest
	}
	if old.Status == "HELD" {
		s.moveTo(old, "HELD")
		return
	}
	s.waits(old)
}

// waits makes a job SCHEDULED, or PENDING if it is due.
func (s *Server) waits(j *Job) {
	if j.RunAt.After(time.Now()) {
		s.moveTo(j, "SCHEDULED")
		return
	}
	s.moveTo(j, "PENDING")
	s.accepted(*j)
}

// takeKey gives a new job its unique key, or makes it HELD.
func (s *Server) takeKey(j *Job, behind *holding) {
	if behind != nil {
		j.Status, behind.behind = "HELD", append(behind.behind, j)
		return
	}
	h := &holding{holder: j}
	if j.Unique.For > 0 {
		h.until = j.Arrived.Add(j.Unique.For)
	}
	s.unique[j.Unique.Key] = h
}

// freeKey lets a job that has ended, or was claimed, let go of its unique key. The next HELD job gets it.
func (s *Server) freeKey(j *Job) {
	if j.Unique == nil || !j.Ended() && (j.Status != "PROCESSING" || j.Unique.While != "waiting") {
		return
	}
	h := s.unique[j.Unique.Key]
	switch {
	case h == nil:
	case h.holder != j:
		h.behind = slices.DeleteFunc(h.behind, func(held *Job) bool { return held == j })
	case !h.until.IsZero():
	case len(h.behind) == 0:
		delete(s.unique, j.Unique.Key)
	default:
		next := h.behind[0]
		s.unique[j.Unique.Key] = &holding{holder: next, behind: h.behind[1:]}
		s.waits(next)
	}
}
