package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// The jobs of the fake server.
const (
	doneID    = "019de340-01fe-7a58-be69-000000000001"
	failedID  = "019de340-01fe-7a58-be69-000000000002"
	pendingID = "019de340-01fe-7a58-be69-000000000003"
	stoppedID = "019de340-01fe-7a58-be69-000000000004"
	unknownID = "019de340-01fe-7a58-be69-00000000ffff"

	keyID = "k234567k234567ab"
)

// hostile is a user's text that a terminal must not obey: a colour, a title, a line of its own, the 8-bit CSI, a
// right-to-left override.
const hostile = "boom \x1b[31mred\x1b[0m\x1b]0;title\x07\r\nfake line\u009b2J\u202egnp"

var fixedNow = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// request is a request that has arrived.
type request struct {
	method, path string // the path with its query
	header       http.Header
	body         string
}

// fake is the API in memory, always with the same jobs. first may answer a request instead, by returning true.
type fake struct {
	*httptest.Server
	mu    sync.Mutex
	seen  []request
	first func(w http.ResponseWriter, r *http.Request, body string) bool
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{}
	mux := http.NewServeMux()
	answer := func(pattern string, v func(r *http.Request) any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { reply(w, http.StatusOK, v(r)) })
	}
	byID := func(pattern string, v func(id, status string) any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			id := r.PathValue("id") + r.URL.Query().Get("jobId")
			if statuses[id] == "" {
				refuse(w, http.StatusNotFound, "JOB_NOT_FOUND")
				return
			}
			reply(w, http.StatusOK, v(id, statuses[id]))
		})
	}
	mux.HandleFunc("POST /{tier}/submit", f.submit)
	mux.HandleFunc("POST /{tier}/submit/batch", f.batch)
	byID("GET /result/poll", func(id, status string) any { return data(polled(id, status)) })
	byID("GET /jobs/{id}", func(id, status string) any { return whole(id, status) })
	byID("GET /api/jobs/{id}/why", func(id, status string) any {
		return obj{
			"jobId": id, "status": status, "position": 12, "aheadByTier": obj{"PAID": 9, "UNPAID": 3},
			"runningByTier": obj{"PAID": 16}, "freeSlots": 0,
			"workers": 1, "gate": obj{"open": true}, "etaSeconds": 90, "reasons": []string{"9 PAID jobs are ahead", hostile},
			"news": 1,
		}
	})
	mux.HandleFunc("GET /api/jobs/{id}/events", f.events)
	mux.HandleFunc("GET /jobs/{id}/artifact", f.artifact)
	mux.HandleFunc("POST /api/jobs/{id}/cancel", f.cancel)
	byID("POST /jobs/{id}/retry", func(id, _ string) any { return obj{"jobId": id} })
	answer("GET /api/jobs", func(r *http.Request) any { return page(r, doneID, failedID, pendingID) })
	answer("GET /admin/dead", func(r *http.Request) any { return page(r, failedID, stoppedID) })
	mux.HandleFunc("GET /admin/dead/export", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		text, _ := json.Marshal(whole(failedID, "FAILED"))
		fmt.Fprintf(w, "%s\n%s\n", text, strings.Replace(string(text), failedID, stoppedID, 1))
	})
	answer("POST /admin/dead/requeue", func(*http.Request) any { return obj{"matched": 1, "requeued": 1} })
	answer("GET /admin/tiers", func(*http.Request) any { return obj{"items": []any{plan("PAID", 1), plan("PUBLIC", 3)}} })
	answer("PUT /admin/tiers/{tier}", func(r *http.Request) any {
		var p obj
		_ = json.Unmarshal([]byte(f.last().body), &p)
		p["tier"], p["version"] = r.PathValue("tier"), 8
		return p
	})
	answer("GET /admin/queues", func(*http.Request) any {
		return obj{"items": []any{queue("main", 0), queue("films", 2)}}
	})
	answer("PUT /admin/queues/{name}", func(r *http.Request) any { return queue(r.PathValue("name"), 3) })
	for _, action := range []string{"pause", "resume"} {
		answer("POST /admin/queues/{name}/"+action, func(r *http.Request) any {
			q := queue(r.PathValue("name"), 2)
			if q["paused"] = nil; action == "pause" {
				q["paused"] = fixedNow
			}
			return q
		})
	}
	answer("POST /admin/queues/{name}/purge", func(*http.Request) any {
		if len(f.requests("POST", "/admin/queues/films/purge"))%2 == 1 {
			return obj{"cancelled": 2000, "more": true}
		}
		return obj{"cancelled": 1000, "more": false}
	})
	answer("GET /admin/workers", func(*http.Request) any {
		return obj{"items": []any{worker("img-3-4711-58aeba", "http", "run"), worker("vm-42-9f0c", "server", "quiet")}}
	})
	for action, state := range map[string]string{"quiet": "quiet", "resume": "run", "terminate": "terminate"} {
		answer("POST /admin/workers/{name}/"+action, func(r *http.Request) any {
			return worker(r.PathValue("name"), "http", state)
		})
	}
	mux.HandleFunc("DELETE /admin/queues/{name}", func(w http.ResponseWriter, r *http.Request) {
		switch r.PathValue("name") {
		case "films":
			w.WriteHeader(http.StatusNoContent)
		case "busy":
			refuse(w, http.StatusConflict, "INVALID_STATE_TRANSITION")
		default:
			refuse(w, http.StatusNotFound, "UNKNOWN_QUEUE")
		}
	})
	answer("GET /admin/keys", func(*http.Request) any {
		return obj{"items": []obj{apiKey(keyID, 0), apiKey("b"+keyID[1:], 1), apiKey("c"+keyID[1:], 2)}}
	})
	mux.HandleFunc("POST /admin/keys",
		func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusCreated, madeKey()) })
	mux.HandleFunc("POST /admin/keys/{id}/rotate", f.key)
	mux.HandleFunc("DELETE /admin/keys/{id}", f.key)
	mux.HandleFunc("POST /admin/keys/{id}/gateway", f.key)
	answer("POST /api/me/gateway", func(*http.Request) any { return gateway() })
	answer("GET /admin/audit", func(r *http.Request) any { return changes(r.URL.Query().Get("cursor")) })
	answer("GET /api/stats", func(*http.Request) any { return stats() })
	answer("GET /admin/consistency", func(*http.Request) any { return audited(false) })
	answer("POST /admin/consistency", func(*http.Request) any { return audited(true) })
	answer("GET /readyz", func(*http.Request) any { return obj{"status": "UP", "checks": []obj{}} })
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		f.mu.Lock()
		f.seen = append(f.seen, request{r.Method, r.URL.RequestURI(), r.Header, string(body)})
		first := f.first
		f.mu.Unlock()
		if first == nil || !first(w, r, string(body)) {
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() { f.CloseClientConnections(); f.Close() })
	return f
}

func (f *fake) instead(first func(w http.ResponseWriter, r *http.Request, body string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.first = first
}

// requests returns the requests whose path begins with path.
func (f *fake) requests(method, path string) (list []request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.seen {
		if r.method == method && strings.HasPrefix(r.path, path) {
			list = append(list, r)
		}
	}
	return list
}

func (f *fake) last() request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[len(f.seen)-1]
}

func (f *fake) submit(w http.ResponseWriter, r *http.Request) {
	var body struct{ Type string }
	_ = json.NewDecoder(r.Body).Decode(&body)
	switch {
	case r.PathValue("tier") == "gold":
		refuse(w, http.StatusNotFound, "UNKNOWN_TIER")
	case body.Type == "NOPE":
		refuse(w, http.StatusUnprocessableEntity, "UNKNOWN_JOB_TYPE",
			obj{"field": "type", "reason": "is not known: " + hostile})
	default:
		w.Header().Set("X-Trace-Id", "trace-1")
		reply(w, http.StatusAccepted, data(obj{"jobId": doneID, "currentJobStatus": "PENDING"}))
	}
}

func (f *fake) batch(w http.ResponseWriter, r *http.Request) {
	var entries []struct{ Type string }
	_ = json.NewDecoder(r.Body).Decode(&entries)
	out := make([]obj, len(entries))
	for i, e := range entries {
		out[i] = obj{"jobId": jobID(i + 1), "currentJobStatus": "PENDING"}
		if e.Type == "NOPE" {
			out[i] = obj{"errorCode": "UNKNOWN_JOB_TYPE", "message": "There is no such job type.",
				"errors": []obj{{"field": "type", "reason": hostile}}}
		}
	}
	reply(w, http.StatusAccepted, data(out))
}

func jobID(n int) string { return fmt.Sprintf("019de340-01fe-7a58-be69-%012x", n) }

func (f *fake) events(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if statuses[id] == "" {
		refuse(w, http.StatusNotFound, "JOB_NOT_FOUND")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	tell := func(status string) {
		text, _ := json.Marshal(polled(id, status))
		fmt.Fprintf(w, "event: status\nid: %s-1-0-1\ndata: %s\n\n", status, text)
		w.(http.Flusher).Flush()
	}
	tell("PENDING")
	if statuses[id] == "PENDING" {
		<-r.Context().Done()
		return
	}
	tell(statuses[id])
}

func (f *fake) artifact(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("id") != doneID {
		refuse(w, http.StatusNotFound, "NOT_FOUND")
		return
	}
	w.Header().Set("Content-Type", "application/pdf")
	w.Header().Set("Content-Disposition", `attachment; filename="report.pdf"`)
	_, _ = io.WriteString(w, "%PDF")
}

func (f *fake) cancel(w http.ResponseWriter, r *http.Request) {
	switch id := r.PathValue("id"); id {
	case pendingID:
		reply(w, http.StatusOK, obj{"jobId": id, "status": "CANCELLED"})
	case stoppedID:
		reply(w, http.StatusAccepted, obj{"jobId": id, "status": "PROCESSING", "cancelRequested": true})
	default:
		refuse(w, http.StatusConflict, "INVALID_STATE_TRANSITION")
	}
}

func queue(name string, version int) obj {
	q := obj{"name": name, "limit": 5000, "logs": "on", "paused": nil, "ready": 12, "scheduled": 3, "running": 1,
		"version": version}
	if name == "main" {
		q["limit"] = nil
	}
	return q
}

// worker is a worker as the server shows it.
func worker(name, kind, state string) obj {
	return obj{
		"name": name, "kind": kind, "state": state, "host": "img-3", "pid": 4711, "version": "1.4.2", "language": "python",
		"slots": 16, "running": 3, "stuck": 0, "startedAt": fixedNow, "seenAt": fixedNow, "queues": []string{"pictures"},
	}
}
