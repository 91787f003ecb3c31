package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// An embedded server is killed as soon as it has reported the end of a job. After the restart the job still has
// that end, and its handler does not run again. Failpoints delay the write to SQL, so that the test catches a
// server that reports the end too early.
func TestEmbeddedEndsStand(t *testing.T) {
	t.Attr("proves", "F07")
	t.Parallel()
	e := newEmbedded(t, "TIERQ_FAILPOINTS=complete.after=sleep:300ms,fail.after=sleep:300ms")
	file := filepath.Join(t.TempDir(), "runs")
	good := strings.TrimSuffix(counting(file, 0), "}") + `,"maxRetries":0}`
	bad := `{"payload":{"steps":[{"type":"FAIL","message":"no"}]},"maxRetries":0}`
	later := `{"delaySeconds":3600}`
	ways := []struct {
		name, body, end string
		told            func(s *server, id string) bool
	}{
		{"a poll", good, "COMPLETED", func(s *server, id string) bool { return s.poll(id).Status == "COMPLETED" }},
		{"a poll that waits", good, "COMPLETED", func(s *server, id string) bool { return s.held(id).Status == "COMPLETED" }},
		{"a list", good, "COMPLETED", func(s *server, id string) bool { return s.lists(id, "COMPLETED") }},
		{"a stream", good, "COMPLETED", func(s *server, id string) bool { return s.streams(id, "COMPLETED") }},
		{"a poll that waits", bad, "FAILED", func(s *server, id string) bool { return s.held(id).Status == "FAILED" }},
		{"a list", bad, "FAILED", func(s *server, id string) bool { return s.lists(id, "FAILED") }},
		{"a cancel", later, "CANCELLED", func(s *server, id string) bool {
			return do(t, http.MethodDelete, s.base+"/api/jobs/"+id, "").status == http.StatusOK
		}},
	}
	const kills = 14
	ends := map[string]string{}
	e.start()
	for n := range kills {
		way := ways[n%len(ways)]
		id := e.server.submit("paid", way.body)
		what := fmt.Sprintf("%s tells that %s is %s", way.name, id, way.end)
		testkit.Eventually(t, 20*time.Second, what, func() (bool, string) { return way.told(e.server, id), "" })
		if err := e.server.Kill(); err != nil {
			t.Fatal(err)
		}
		ends[id] = way.end
		e.start()
		if p := e.server.poll(id); p.Status != way.end {
			t.Errorf("%s told that %s is %s; after the kill it is %s", way.name, id, way.end, p.Status)
		}
	}
	for id, end := range ends {
		if p := e.server.await(id, end, 20*time.Second); p.RetryCount != 0 {
			t.Errorf("%s: %d retries", id, p.RetryCount)
		}
	}
	_, marks := executions(t, file)
	for id, end := range ends {
		if len(marks[id]) > 2 || end == "CANCELLED" && len(marks[id]) > 0 {
			t.Errorf("%s, which was told to be %s, ran: %v", id, end, marks[id])
		}
		attempts := get[struct{ Attempts int }](t, e.server.base+"/api/jobs/"+id).Attempts
		if want := map[bool]int{true: 0, false: 1}[end == "CANCELLED"]; attempts != want {
			t.Errorf("%s, which was told to be %s: %d attempts, want %d", id, end, attempts, want)
		}
	}
}

// held sends a poll that waits for the job's end.
func (s *server) held(id string) (p polled) {
	s.t.Helper()
	a := do(s.t, http.MethodGet, s.base+"/result/poll?wait=5&jobId="+id, "")
	r := struct {
		Data *polled `json:"apiResponseData"`
	}{&p}
	if err := json.Unmarshal(a.body, &r); err != nil || a.status != http.StatusOK {
		s.t.Fatalf("poll %s: %d %s", id, a.status, a.body)
	}
	return p
}

// lists reports whether the list of jobs with a status contains the job.
func (s *server) lists(id, status string) bool {
	s.t.Helper()
	a := do(s.t, http.MethodGet, s.base+"/api/jobs?status="+status, "")
	return a.status == http.StatusOK && strings.Contains(string(a.body), id)
}

// streams reads the job's events to their end and reports whether one of them has the status.
func (s *server) streams(id, status string) bool {
	s.t.Helper()
	a := do(s.t, http.MethodGet, s.base+"/api/jobs/"+id+"/events", "")
	return a.status == http.StatusOK && strings.Contains(string(a.body), `"`+status+`"`)
}
