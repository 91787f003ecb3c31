package fake

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// groups has the batches and the flows of a server, in order, and the first answer to each Idempotency-Key.
type groups struct {
	batches []*batch
	flows   []*flow
	firsts  map[string]first
}

// first is the group that a key made, and the body that asked for it.
type first struct{ id, body string }

func newGroups() groups { return groups{firsts: map[string]first{}} }

// Groups makes the server answer calls about batches and flows, too.
func (s *Server) Groups() {
	for pattern, f := range map[string]http.HandlerFunc{
		"POST /api/batches": s.createBatch, "GET /api/batches": s.listBatches, "GET /api/batches/{id}": s.getBatch,
		"GET /api/batches/{id}/members": s.listMembers, "POST /api/batches/{id}/seal": s.sealBatch,
		"POST /api/batches/{id}/cancel": s.cancelBatch,
		"POST /api/flows":               s.submitFlow, "GET /api/flows": s.listFlows, "GET /api/flows/{id}": s.getFlow,
		"POST /api/flows/{id}/cancel": s.cancelFlow,
	} {
		s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			f(w, r)
		})
	}
}

// left tells the batch and the flow of a job that the job has ended. The caller holds the lock.
func (s *Server) left(j *Job) {
	if b := s.batchOf(j.BatchID); b != nil {
		s.endRound(b)
	}
	if f := s.flowOf(j.FlowID); f != nil {
		s.settle(f)
	}
}

// known returns the id of the group that a key has made; found is true also if the answer was a refusal, because the
// key came with another body.
func (s *Server) known(w http.ResponseWriter, kind string, r *http.Request, body []byte) (id string, found bool) {
	key := r.Header.Get("Idempotency-Key")
	f, found := s.firsts[kind+" "+key]
	switch {
	case key == "" || !found:
		return "", false
	case f.body != string(body):
		Refuse(w, statuses["IDEMPOTENCY_MISMATCH"], "IDEMPOTENCY_MISMATCH")
		return "", true
	}
	w.Header().Set("Idempotency-Replayed", "true")
	return f.id, true
}

// remember keeps the group that a key has made, and the body of its request.
func (s *Server) remember(kind string, r *http.Request, id string, body []byte) {
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		s.firsts[kind+" "+key] = first{id, string(body)}
	}
}

// stop ends a job that waits, and asks a job that runs to stop. The caller holds the lock.
func (s *Server) stop(j *Job) (cancelled, asked int) {
	switch {
	case j.Ended():
		return 0, 0
	case j.Status == "PROCESSING":
		j.CancelRequested = true
		return 0, 1
	}
	s.moveTo(j, "CANCELLED")
	return 1, 0
}

// list answers with a page of a list. A cursor is the number of the items before the page.
func list[T any](w http.ResponseWriter, r *http.Request, all []T) {
	q := r.URL.Query()
	limit, _ := strconv.Atoi(cmp.Or(q.Get("limit"), "50"))
	from, err := strconv.Atoi(cmp.Or(q.Get("cursor"), "0"))
	if limit < 1 || limit > 100 || err != nil || from < 0 || from > len(all) {
		Refuse(w, http.StatusBadRequest, "INVALID_REQUEST")
		return
	}
	to := min(from+limit, len(all))
	body := map[string]any{"items": append([]T{}, all[from:to]...), "next": nil}
	if to < len(all) {
		body["next"] = strconv.Itoa(to)
	}
	JSON(w, http.StatusOK, body)
}

// reversed shows the entries, the last one first, and leaves out those for which show returns nil.
func reversed[T any](all []T, show func(T) map[string]any) []map[string]any {
	shown := make([]map[string]any, 0, len(all))
	for i := len(all) - 1; i >= 0; i-- {
		if one := show(all[i]); one != nil {
			shown = append(shown, one)
		}
	}
	return shown
}

// tally counts jobs by their statuses.
func tally(jobs []*Job) map[string]int {
	n := map[string]int{}
	for _, j := range jobs {
		n[j.Status]++
	}
	return n
}

// Batches returns all batches as the API shows them, in order.
func (s *Server) Batches() []json.RawMessage { return texts(s, &s.batches, (*batch).data) }

// Flows returns all flows as the API shows them, in order.
func (s *Server) Flows() []json.RawMessage { return texts(s, &s.flows, (*flow).whole) }

// texts returns the JSON of the entries of one of the server's lists, in order.
func texts[T any](s *Server, list *[]T, show func(T) map[string]any) (all []json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range *list {
		all = append(all, encoded(show(one)))
	}
	return all
}

func encoded(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("fake: %v", err)) // only texts, numbers and JSON that was checked
	}
	return text
}
