package fake

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// batch is a group of jobs with at most one job at the end.
type batch struct {
	id, tier, trace             string
	asked                       batchAsked
	members                     []*Job
	sealed                      bool
	then                        *Job // nil = it is not owed
	with                        int  // how many members came with the call that made it
	created, endedAt, cancelled time.Time
}

type batchAsked struct {
	Name        string     `json:"name"`
	Tier        string     `json:"tier"`
	CallbackURL string     `json:"callbackUrl"`
	Then        *thenAsked `json:"then"`

	Jobs   []json.RawMessage `json:"jobs"`
	Sealed bool              `json:"sealed"`
}

type thenAsked struct {
	Type       string          `json:"type"`
	Payload    json.RawMessage `json:"payload"`
	Tier       string          `json:"tier"`
	Queue      string          `json:"queue"`
	MaxRetries *int            `json:"maxRetries"`
	On         string          `json:"on"`
}

// strict are the types whose payload takes no member batch.
var strict = []string{"SEND_EMAIL", "EMAIL", "GENERATE_PDF", "REPORT", "SEND_WEBHOOK", "FORWARD_DOCUMENT"}

func (s *Server) createBatch(w http.ResponseWriter, r *http.Request) {
	body := read(r)
	if id, found := s.known(w, "batch", r, body); found {
		if id != "" {
			JSON(w, http.StatusCreated, s.batchOf(id).made())
		}
		return
	}
	var of batchAsked
	if json.Unmarshal(body, &of) != nil || of.Name == "" || of.Then != nil && (of.Then.Type == "" ||
		!slices.Contains([]string{"", "finished", "succeeded"}, of.Then.On)) {
		Refuse(w, http.StatusBadRequest, "INVALID_REQUEST")
		return
	}
	if of.Then != nil {
		if code := s.judge(of.Then.Type); code != "" {
			Refuse(w, statuses[code], code)
			return
		}
	}
	b := &batch{
		id: fmt.Sprintf("019de340-01fe-7a58-be6a-%012x", len(s.batches)+1), asked: of, created: time.Now(),
		tier: strings.ToUpper(cmp.Or(of.Tier, "UNPAID")), trace: r.Header.Get("X-Trace-Id"),
	}
	for i, text := range of.Jobs {
		j, asked, code := s.newJob("", b.trace, text)
		if code == "" && (asked.Unique != nil || asked.Batch != "") {
			code = "INVALID_REQUEST"
		}
		if code != "" {
			refuseJob(w, code, strconv.Itoa(i))
			return
		}
		j.Tier, j.BatchID = strings.ToUpper(cmp.Or(asked.Tier, b.tier)), b.id
		b.members = append(b.members, j)
	}
	s.batches = append(s.batches, b)
	s.remember("batch", r, b.id, body)
	b.with, b.sealed = len(b.members), of.Sealed
	for _, j := range b.members {
		j.ID = s.newID()
		s.add(j)
	}
	s.endRound(b) // it may be sealed, and have no member
	JSON(w, http.StatusCreated, b.made())
}

// made returns the answer to the call that made the batch.
func (b *batch) made() map[string]any {
	d := b.data()
	if b.with > 0 {
		ids := []string{}
		for _, j := range b.members[:b.with] {
			ids = append(ids, j.ID)
		}
		d["jobs"] = ids
	}
	return d
}

func (s *Server) batchOf(id string) *batch {
	for _, b := range s.batches {
		if b.id == id {
			return b
		}
	}
	return nil
}

// withBatch returns the batch of a request, or refuses the request.
func (s *Server) withBatch(w http.ResponseWriter, r *http.Request) *batch {
	b := s.batchOf(r.PathValue("id"))
	if b == nil {
		Refuse(w, http.StatusNotFound, "BATCH_NOT_FOUND")
	}
	return b
}

// join makes a new job a member of a batch, or returns the code of a refusal.
func (s *Server) join(j *Job, id string) (code string) {
	b := s.batchOf(id)
	switch {
	case b == nil:
		return "BATCH_NOT_FOUND"
	case b.sealed:
		return "BATCH_SEALED"
	}
	j.BatchID, b.members = id, append(b.members, j)
	return ""
}

func (s *Server) getBatch(w http.ResponseWriter, r *http.Request) {
	if b := s.withBatch(w, r); b != nil {
		JSON(w, http.StatusOK, b.data())
	}
}

func (s *Server) listBatches(w http.ResponseWriter, r *http.Request) {
	list(w, r, reversed(s.batches, (*batch).data))
}

func (s *Server) listMembers(w http.ResponseWriter, r *http.Request) {
	b := s.withBatch(w, r)
	if b == nil {
		return
	}
	asked, members := r.URL.Query().Get("status"), []map[string]any{}
	for _, j := range b.members {
		status := j.Status
		if !j.Ended() {
			status = "LIVING"
		}
		if asked == "" || asked == status {
			members = append(members,
				map[string]any{"jobId": j.ID, "status": status, "generation": 1, "endedAt": orNull(j.EndedAt)})
		}
	}
	list(w, r, members)
}

func (s *Server) sealBatch(w http.ResponseWriter, r *http.Request) {
	if b := s.withBatch(w, r); b != nil {
		b.sealed = true
		s.endRound(b)
		JSON(w, http.StatusOK, b.data())
	}
}

func (s *Server) cancelBatch(w http.ResponseWriter, r *http.Request) {
	b := s.withBatch(w, r)
	if b == nil {
		return
	}
	b.sealed = true
	if b.cancelled.IsZero() {
		b.cancelled = time.Now()
	}
	cancelled, asked := 0, 0
	for _, j := range b.members {
		c, a := s.stop(j)
		cancelled, asked = cancelled+c, asked+a
	}
	s.endRound(b) // it may have no member
	JSON(w, http.StatusOK, map[string]any{"batchId": b.id, "cancelled": cancelled, "asked": asked, "next": nil})
}

// state returns the state of a batch.
func (b *batch) state() string {
	n := tally(b.members)
	switch {
	case !b.sealed:
		return "OPEN"
	case living(b.members) > 0:
		return "RUNNING"
	case b.asked.Then != nil && b.asked.Then.On == "succeeded" && n["COMPLETED"] < len(b.members):
		return "STUCK"
	}
	return "FINISHED"
}

func living(jobs []*Job) (n int) {
	for _, j := range jobs {
		if !j.Ended() {
			n++
		}
	}
	return n
}

// endRound makes the job at the end of a batch if it is owed.
func (s *Server) endRound(b *batch) {
	state := b.state()
	if b.endedAt.IsZero() && (state == "FINISHED" || state == "STUCK") {
		b.endedAt = time.Now()
	}
	of := b.asked.Then
	if of == nil || b.then != nil || state != "FINISHED" {
		return
	}
	b.then = &Job{
		ID: s.newID(), Tier: strings.ToUpper(cmp.Or(of.Tier, b.tier)), Type: of.Type, Trace: b.trace,
		Payload: b.payload(), MaxRetries: of.MaxRetries, Queue: of.Queue, Status: "PENDING", Arrived: time.Now(),
	}
	s.add(b.then)
}

// payload returns the payload of the job at the end: with the member batch if its type takes that.
func (b *batch) payload() json.RawMessage {
	members := map[string]any{}
	err := json.Unmarshal([]byte(cmp.Or(string(b.asked.Then.Payload), "null")), &members)
	if slices.Contains(strict, b.asked.Then.Type) || err != nil {
		return b.asked.Then.Payload
	}
	if members == nil {
		members = map[string]any{}
	}
	n := tally(b.members)
	members["batch"] = map[string]any{
		"batchId": b.id, "name": b.asked.Name, "round": 1, "total": len(b.members), "completed": n["COMPLETED"],
		"failed": n["FAILED"], "cancelled": n["CANCELLED"], "expired": n["EXPIRED"],
	}
	return encoded(members)
}

// data returns the batch as the API shows it.
func (b *batch) data() map[string]any {
	n, alive := tally(b.members), living(b.members)
	d := map[string]any{
		"batchId": b.id, "name": b.asked.Name, "tier": b.tier, "state": b.state(), "round": 1, "sealed": b.sealed,
		"total": len(b.members), "living": alive, "completed": n["COMPLETED"], "failed": n["FAILED"],
		"cancelled": n["CANCELLED"], "expired": n["EXPIRED"], "progress": 0.0, "then": nil, "thenJobId": nil,
		"callbackUrl": nil, "createdAt": orNull(b.created), "endedAt": orNull(b.endedAt),
		"cancelledAt": orNull(b.cancelled), "traceId": nil,
	}
	if total := len(b.members); total > 0 {
		d["progress"] = float64(total-alive) / float64(total)
	}
	if of := b.asked.Then; of != nil {
		d["then"] = map[string]any{
			"type": of.Type, "tier": strings.ToUpper(cmp.Or(of.Tier, b.tier)), "queue": cmp.Or(of.Queue, "main"),
			"maxRetries": of.MaxRetries, "on": cmp.Or(of.On, "finished"), "payload": of.Payload,
		}
	}
	if b.then != nil {
		d["thenJobId"] = b.then.ID
	}
	if b.asked.CallbackURL != "" {
		d["callbackUrl"] = b.asked.CallbackURL
	}
	return d
}
