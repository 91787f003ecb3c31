package pages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

const (
	// a comment line, so that no proxy takes the connection for dead; then Still is checked too
	pingEvery  = 15 * time.Second
	writeLimit = 10 * time.Second // the longest time for one write
)

// sse writes Server-Sent Events.
type sse struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// newSSE begins the answer.
func newSSE(w http.ResponseWriter) *sse {
	head := w.Header()
	head.Set("Content-Type", "text/event-stream")
	head.Set("Cache-Control", "no-cache")
	head.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return &sse{w: w, control: http.NewResponseController(w)}
}

// write sends text; it returns false if the connection does not accept it.
func (s *sse) write(text []byte) bool {
	if len(text) == 0 {
		return true
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(writeLimit))
	_, err := s.w.Write(text)
	return err == nil && s.control.Flush() == nil
}

// event encodes one Server-Sent Event. name "" means an unnamed event; data is JSON on one line, as encoding/json
// writes it.
func event(name, id string, data []byte) []byte {
	var b bytes.Buffer
	if name != "" {
		b.WriteString("event: " + name + "\n")
	}
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("data: ")
	b.Write(data)
	b.WriteString("\n\n")
	return b.Bytes()
}

// messages are the API's texts for users where they differ from the detail.
var messages = map[string]string{
	"SYSTEM_UNHEALTHY": "System is currently unavailable due to high load. Please try again later.",
}

// writeProblem answers a script in the format of the API's errors.
func writeProblem(w http.ResponseWriter, e *apiError) {
	said := map[string]any{ // cannot fail for these types
		"type": "about:blank", "title": http.StatusText(e.Status), "status": e.Status, "detail": e.Detail,
		"errorCode": e.Code,
		"message":   cmp.Or(messages[e.Code], e.Detail), "timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"),
		"traceId": w.Header().Get(traceHeader),
	}
	text, _ := json.Marshal(said)
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", private)
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(e.RetryAfter/time.Second)))
	}
	w.WriteHeader(e.Status)
	_, _ = w.Write(text) // a client that left asks again
}
