package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/queue/queuetest"
)

// wholeJob is a job as GET /jobs/{id} returns it.
type wholeJob struct {
	JobID           string          `json:"jobId"`
	Type            string          `json:"type"`
	Status          string          `json:"status"`
	RetryCount      int             `json:"retryCount"`
	Attempts        int             `json:"attempts"`
	MaxRetries      int             `json:"maxRetries"`
	Generation      int             `json:"generation"`
	LastError       *string         `json:"lastError"`
	RunAt           *time.Time      `json:"runAt"`
	TraceID         string          `json:"traceId"`
	CancelRequested bool            `json:"cancelRequested"`
	Result          json.RawMessage `json:"result"`
	History         []struct {
		Attempt int     `json:"attempt"`
		Worker  *string `json:"worker"`
		Outcome string  `json:"outcome"`
		Cause   *string `json:"cause"`
		Error   *string `json:"error"`
	} `json:"history"`
}

func get[T any](t testing.TB, url string) (v T) {
	t.Helper()
	a := do(t, http.MethodGet, url, "")
	if err := json.Unmarshal(a.body, &v); err != nil || a.status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", url, a.status, a.body)
	}
	return v
}

func (s *server) job(id string) wholeJob {
	s.t.Helper()
	return get[wholeJob](s.t, s.base+"/jobs/"+id)
}

func wants(t testing.TB, a answer, status int, code string) {
	t.Helper()
	if a.status != status || a.code() != code {
		t.Errorf("%d %s, want %d %s: %s", a.status, a.code(), status, code, a.body)
	}
}

// The handler of a running job learns of a cancel within two heartbeats. The job ends CANCELLED, whatever its
// handler does, and nothing moves it afterwards.
func TestCancelRunning(t *testing.T) {
	t.Attr("proves", "S1-E5 S1-S4 S3-S11")
	t.Parallel()
	c := newCluster(t)
	a, b := c.start("TIERQ_WORKERS=2"), c.start("TIERQ_ROLES=api")
	id := a.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":40000}]}}`)
	a.await(id, "PROCESSING", 5*time.Second)
	began := time.Now()
	asked := do(t, http.MethodPost, b.base+"/api/jobs/"+id+"/cancel", "")
	wants(t, asked, http.StatusAccepted, "")
	b.await(id, "CANCELLED", 10*time.Second)
	if took := time.Since(began); took > 8*time.Second { // two heartbeats and the outcome; the job would run for 40 s
		t.Errorf("the handler heard of it after %s", took)
	}
	t.Logf("evidence: cancelled %s after it was asked for", time.Since(began).Round(time.Millisecond))
	c.settled(15*time.Second, id)
	for name, ask := range map[string]answer{
		"cancel": do(t, http.MethodDelete, b.base+"/admin/jobs/"+id, ""),
	} {
		if ask.status != http.StatusOK && ask.status != http.StatusConflict {
			t.Errorf("%s again: %d %s", name, ask.status, ask.body)
		}
	}
	before := c.keysOf(id)
	wants(t, do(t, http.MethodPost, b.base+"/jobs/"+id+"/retry", ""), http.StatusConflict, "INVALID_STATE_TRANSITION")
	wants(t, do(t, http.MethodPost, b.base+"/admin/jobs/"+id+"/resubmit", ""), http.StatusConflict,
		"INVALID_STATE_TRANSITION")
	if after := c.keysOf(id); after != before {
		t.Errorf("a refused transition changed %s to %s", before, after)
	}
	j := b.job(id)
	if n := len(j.History); j.Status != "CANCELLED" || j.LastError != nil || n != 1 ||
		j.History[n-1].Outcome != "CANCELLED" || j.History[n-1].Cause != nil {
		t.Errorf("it became %+v", j)
	}
	if p := b.poll(id); p.FailureCause != nil {
		t.Errorf("a cancelled job has the cause %s", *p.FailureCause)
	}
}

// keysOf returns Redis' data about a job.
func (c *cluster) keysOf(id string) string {
	c.t.Helper()
	s, err := queuetest.Read(c.t.Context(), c.rdb, 0)
	if err != nil || len(s.Jobs[id]) == 0 {
		c.t.Fatalf("Redis has of %s: %v, %v", id, s.Jobs[id], err)
	}
	return fmt.Sprint(s.Jobs[id], s.Records[id], s.Ends[id], s.Histories[id])
}

// A transition that the state machine does not have is refused with 409 and changes nothing.
func TestIllegalTransitions(t *testing.T) {
	t.Attr("proves", "S4-E4")
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_WORKERS=1")
	done := s.submit("paid", `{}`)
	dead := s.submit("public", `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":0}`)
	c.settled(20*time.Second, done, dead)
	running := s.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":20000}]}}`)
	s.await(running, "PROCESSING", 5*time.Second)
	waiting := s.submit("paid", `{}`)
	later := s.submit("paid", `{"delaySeconds":3600}`)
	ids := map[string]string{"completed": done, "dead": dead, "running": running, "waiting": waiting, "scheduled": later}
	for _, no := range []struct{ method, path, job string }{
		{"POST", "/jobs/%s/retry", "completed"}, {"POST", "/jobs/%s/retry", "running"}, {"POST", "/jobs/%s/retry", "waiting"},
		{"POST", "/jobs/%s/retry", "scheduled"}, {"POST", "/admin/jobs/%s/resubmit", "completed"},
		{"POST", "/admin/jobs/%s/resubmit", "waiting"},
		{"DELETE", "/admin/jobs/%s", "completed"}, {"DELETE", "/api/jobs/%s", "dead"},
		{"POST", "/api/jobs/%s/cancel", "completed"},
	} {
		id := ids[no.job]
		before := c.keysOf(id)
		wants(t, do(t, no.method, s.base+fmt.Sprintf(no.path, id), ""), http.StatusConflict, "INVALID_STATE_TRANSITION")
		if after := c.keysOf(id); no.job != "running" && after != before {
			t.Errorf("%s %s of a %s job changed it: %s, %s", no.method, no.path, no.job, before, after)
		}
	}
	for _, yes := range []string{waiting, later} {
		wants(t, do(t, http.MethodDelete, s.base+"/api/jobs/"+yes, ""), http.StatusOK, "")
		if p := s.poll(yes); p.Status != "CANCELLED" {
			t.Errorf("cancelled %s is %s", yes, p.Status)
		}
	}
	do(t, http.MethodPost, s.base+"/api/jobs/"+running+"/cancel", "")
	outcomes := c.settled(20*time.Second, done, dead, running, waiting, later)
	if outcomes[running] != "CANCELLED" || outcomes[waiting] != "CANCELLED" {
		t.Errorf("outcomes %v", outcomes)
	}
}

// Three concurrent workers on real stores run 10 jobs, each exactly once: the third seed's test, word for word. To
// run only this test: make test PKG=./internal/e2e RUN=TestThreeWorkersTenJobs
func TestThreeWorkersTenJobs(t *testing.T) {
	t.Attr("proves", "S1-P9 S1-P1 T-2 S0-P5")
	t.Parallel()
	c := newCluster(t)
	var workers []*server
	for range 3 {
		workers = append(workers, c.start("TIERQ_WORKERS=1"))
	}
	file := filepath.Join(t.TempDir(), "runs")
	var ids []string
	for range 10 {
		ids = append(ids, workers[0].submit("unpaid", counting(file, 100)))
	}
	for id, outcome := range c.settled(30*time.Second, ids...) {
		if outcome != "COMPLETED" {
			t.Errorf("%s: %s", id, outcome)
		}
	}
	order, marks := executions(t, file)
	pids := map[string]bool{}
	for _, id := range ids {
		if m := marks[id]; len(m) != 2 || !strings.HasSuffix(m[0], "start") || !strings.HasSuffix(m[1], "end") {
			t.Errorf("%s ran %v", id, m)
		} else {
			pids[strings.Fields(m[0])[1]] = true
		}
	}
	if len(order) != 10 || len(pids) != 3 {
		t.Errorf("%d runs by %d workers, want 10 by 3", len(order), len(pids))
	}
}
