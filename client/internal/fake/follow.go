package fake

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// now is the time of every answer; the jobs in it have times of their own.
const now = "2026-05-01T11:31:57.961931Z"

var statuses = map[string]int{
	"IDEMPOTENCY_MISMATCH": http.StatusUnprocessableEntity, "UNKNOWN_JOB_TYPE": http.StatusUnprocessableEntity,
	"INVALID_REQUEST": http.StatusBadRequest, "QUEUE_FULL": http.StatusServiceUnavailable,
	"UNIQUE_TAKEN": http.StatusConflict, "BATCH_NOT_FOUND": http.StatusNotFound, "BATCH_SEALED": http.StatusConflict,
}

// look finds a job and returns the signal of the next change.
func (s *Server) look(id string) (j Job, ok bool, moved <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.jobs[id]
	if found == nil {
		return Job{}, false, nil
	}
	return *found, true, s.moved
}

func (s *Server) poll(w http.ResponseWriter, r *http.Request) {
	asked := r.Header.Get("If-None-Match")
	seconds, _ := strconv.Atoi(strings.TrimPrefix(r.Header.Get("Prefer"), "wait="))
	until := time.After(time.Duration(seconds) * time.Second)
	for {
		j, ok, moved := s.look(r.URL.Query().Get("jobId"))
		if !ok {
			Refuse(w, http.StatusNotFound, "JOB_NOT_FOUND")
			return
		}
		wait := seconds > 0 && !j.Ended() && (asked == "" || asked == j.tag())
		if wait {
			select {
			case <-moved:
				continue
			case <-until:
			case <-r.Context().Done():
			}
		}
		w.Header().Set("ETag", j.tag())
		if asked == j.tag() {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		JSON(w, http.StatusOK, map[string]any{"apiResponseData": j.data(), "timestamp": now})
		return
	}
}

func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := w.(http.Flusher)
	_, _ = io.WriteString(w, ": hello\nretry: 1\n\n") // an error means that the client left
	for last := r.Header.Get("Last-Event-ID"); ; {
		j, ok, moved := s.look(r.PathValue("id"))
		if !ok {
			Refuse(w, http.StatusNotFound, "JOB_NOT_FOUND")
			return
		}
		if id := strings.Trim(j.tag(), `W/"`); id != last {
			last = id
			text, _ := json.Marshal(j.data())
			fmt.Fprintf(w, "event: status\nid: %s\ndata: %s\n\n", last, text)
		}
		if j.Ended() {
			_, _ = io.WriteString(w, "event: bye\ndata:\n\n")
			return
		}
		flusher.Flush()
		select {
		case <-moved:
		case <-r.Context().Done():
			return
		}
	}
}

// JSON answers with v as JSON.
func JSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client left
}

// Refuse answers with the API's error body.
func Refuse(w http.ResponseWriter, status int, code string) { refuseWith(w, status, code, nil) }

// refuseWith is Refuse with more members.
func refuseWith(w http.ResponseWriter, status int, code string, more map[string]any) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	body := members(code)
	maps.Copy(body, map[string]any{
		"type": "about:blank", "title": http.StatusText(status), "status": status, "timestamp": now,
		"traceId": "trace-of-a-refusal",
	})
	maps.Copy(body, more)
	_ = json.NewEncoder(w).Encode(body)
}

// members returns the members of an error that an entry of a batch has too.
func members(code string) map[string]any {
	return map[string]any{
		"errorCode": code, "message": "refused", "detail": "why " + code,
		"errors": []map[string]any{{"field": "type", "reason": "is not known"}},
	}
}

func read(r *http.Request) []byte {
	body, _ := io.ReadAll(r.Body) // a part of a body is not valid JSON
	return body
}
