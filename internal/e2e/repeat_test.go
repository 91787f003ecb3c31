package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A submit is repeated under its key, on any process: at once, after the job's end, and after Redis forgot the
// job. There is one job, which runs once: the answer has its id and its status, and a poll shows the stored
// outcome. Another body under that key is refused.
func TestSubmittedTwice(t *testing.T) {
	t.Attr("proves", "S4-P1 S4-P2 T-9")
	t.Parallel()
	c := newCluster(t)
	servers := []*server{c.start(), c.start()}
	file := filepath.Join(t.TempDir(), "runs")
	const key = "Idempotency-Key"
	var answers [16]answer
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = servers[i%2].ask("paid", counting(file, 200), key, "order-17") })
	}
	all.Wait()
	ids, first := map[string]bool{}, 0
	for _, a := range answers {
		if a.status != http.StatusAccepted {
			t.Fatalf("%d %s", a.status, a.body)
		}
		ids[accepted(t, a)] = true
		if a.header.Get("Idempotency-Replayed") == "" {
			first++
		}
	}
	if len(ids) != 1 || first != 1 {
		t.Fatalf("sixteen at once: %d jobs, %d answers that do not say they are replays", len(ids), first)
	}
	id := accepted(t, answers[0])
	c.settled(15*time.Second, id)
	result := string(servers[0].poll(id).Result)
	again := func(when string) {
		t.Helper()
		for _, s := range servers {
			a := s.ask("paid", counting(file, 200), key, "order-17")
			if a.status != http.StatusAccepted || accepted(t, a) != id || a.header.Get("Idempotency-Replayed") != "true" ||
				!strings.Contains(string(a.body), `"currentJobStatus":"COMPLETED"`) {
				t.Errorf("%s: %d %v %s", when, a.status, a.header, a.body)
			}
			if p := s.poll(id); p.Status != "COMPLETED" || string(p.Result) != result {
				t.Errorf("%s: %+v", when, p)
			}
			wants(t, s.ask("paid", counting(file, 0), key, "order-17"), http.StatusUnprocessableEntity, "IDEMPOTENCY_MISMATCH")
			wants(t, s.ask("public", counting(file, 200), key, "order-17"), http.StatusUnprocessableEntity,
				"IDEMPOTENCY_MISMATCH")
		}
	}
	again("after the end")
	c.forget(id)
	again("after Redis forgot it")
	if other := accepted(t, servers[1].ask("paid", counting(file, 0), key, "order-18")); other == id {
		t.Error("another key, the same job")
	} else {
		c.settled(15*time.Second, id, other)
	}
	order, marks := executions(t, file)
	if len(order) != 2 || len(marks[id]) != 2 {
		t.Errorf("runs: %v", marks)
	}
	var outcomes int
	c.row(`SELECT COUNT(*) FROM `+endings, &outcomes)
	if outcomes != 2 {
		t.Errorf("%d outcomes", outcomes)
	}
}

// moments holds the times of a job by the server's clock.
type moments struct {
	Status    string     `json:"status"`
	Retries   int        `json:"retryCount"`
	CreatedAt time.Time  `json:"createdAt"`
	RunAt     *time.Time `json:"runAt"`
	History   []struct {
		StartedAt  time.Time  `json:"startedAt"`
		FinishedAt *time.Time `json:"finishedAt"`
	} `json:"history"`
}

func (s *server) moments(id string) moments {
	s.t.Helper()
	return get[moments](s.t, s.base+"/jobs/"+id)
}

const (
	late = 3 * time.Second       // the time that a due job may wait for the promoter, on a busy machine
	skew = 50 * time.Millisecond // between the test's clock and the server's estimate of Redis' clock
)

// A job with a delay, or with a time to run at, does not run before that time and runs then. Until then it is
// SCHEDULED, and shows the time.
func TestDelayedJobs(t *testing.T) {
	t.Attr("proves", "T-10 S3-Q2 S3-S2")
	t.Parallel()
	c := newCluster(t)
	s := c.start()
	at := time.Now().Add(2500 * time.Millisecond).UTC().Truncate(time.Millisecond)
	delayed := s.submit("public", `{"delaySeconds":2}`)
	dated := s.submit("paid", fmt.Sprintf(`{"runAt":%q}`, at.Format(time.RFC3339Nano)))
	now := s.submit("paid", fmt.Sprintf(`{"runAt":%q}`, at.Add(-time.Hour).Format(time.RFC3339Nano)))
	due := map[string]time.Time{dated: at, delayed: s.moments(delayed).CreatedAt.Add(2 * time.Second)}
	for id, when := range due {
		m := s.moments(id)
		if m.Status != "SCHEDULED" || len(m.History) != 0 || m.RunAt == nil || m.RunAt.Sub(when) < -skew ||
			m.RunAt.Sub(when) > late {
			t.Errorf("%+v, due at %s", m, when)
		}
	}
	if p := s.await(now, "COMPLETED", 2*time.Second); p.RetryCount != 0 {
		t.Errorf("%+v", p)
	}
	c.settled(15*time.Second, delayed, dated, now)
	for id, when := range due {
		m := s.moments(id)
		if m.Status != "COMPLETED" || m.RunAt != nil || len(m.History) != 1 || m.Retries != 0 {
			t.Fatalf("%+v", m)
		}
		if off := m.History[0].StartedAt.Sub(when); off < -skew || off > late {
			t.Errorf("due at %s, it ran %s after", when, off)
		}
	}
	wants(t, s.ask("paid", `{"delaySeconds":2,"runAt":"2030-01-01T00:00:00Z"}`), http.StatusBadRequest, "INVALID_REQUEST")
}

// After a failure a job waits as long as its tier's plan says. Meanwhile it is SCHEDULED, and shows the time of
// its next attempt. A type for which the plan has no wait is tried again at once.
func TestBackoff(t *testing.T) {
	t.Attr("proves", "T-10 S1-P2 S0-N7")
	t.Parallel()
	c := newCluster(t)
	r := newReceiver(t, func(w http.ResponseWriter, _ call, _ int) { w.WriteHeader(http.StatusBadGateway) })
	s := c.start(outward...)
	s.tune("PAID", map[string]any{
		"backoff":     map[string]any{"baseMs": 1000, "factor": 2, "capMs": 60000, "jitter": 0},
		"typeBackoff": map[string]any{"SEND_WEBHOOK": backoff(0)},
	})
	waits := s.submit("paid", `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":2}`)
	hasty := s.submit("paid", fmt.Sprintf(`{"type":"SEND_WEBHOOK","payload":{"url":%q},"maxRetries":2}`, r.URL+"/"))
	s.await(waits, "SCHEDULED", 5*time.Second)
	m := s.moments(waits)
	if m.Retries != 1 || len(m.History) != 1 || m.RunAt == nil || m.History[0].FinishedAt == nil {
		t.Fatalf("%+v", m)
	}
	if wait := m.RunAt.Sub(*m.History[0].FinishedAt); (wait - time.Second).Abs() > 5*time.Millisecond {
		t.Errorf("the first wait is %s, want 1 s", wait)
	}
	c.settled(20*time.Second, waits, hasty)
	for id, least := range map[string][]time.Duration{waits: {time.Second, 2 * time.Second}, hasty: {0, 0}} {
		h := s.moments(id).History
		if len(h) != 3 {
			t.Fatalf("%d attempts", len(h))
		}
		for i, wait := range least {
			pause, most := h[i+1].StartedAt.Sub(*h[i].FinishedAt), wait+late
			if wait == 0 {
				most = time.Second
			}
			if pause < wait || pause > most {
				t.Errorf("%s: attempt %d began %s after the end of the one before, want %s to %s", id, i+2, pause, wait, most)
			}
		}
	}
}
