package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// A waiting poll is answered when the job ends, whichever process ran it. A draining server answers waiting polls
// at once.
func TestLongPoll(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	api, worker := c.start("TIERQ_ROLES=api"), c.start("TIERQ_WORKERS=2")
	id := api.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":700}]}}`)
	a := do(t, http.MethodGet, api.base+"/result/poll?jobId="+id+"&wait=8s", "")
	if !strings.Contains(string(a.body), `"COMPLETED"`) || a.took > 5*time.Second || a.took < 300*time.Millisecond {
		t.Errorf("after %s: %s", a.took, a.body)
	}
	tag := a.header.Get("ETag")
	if again := do(t, http.MethodGet, api.base+"/result/poll?jobId="+id, "", "If-None-Match",
		tag); again.status != http.StatusNotModified {
		t.Errorf("with its tag: %d", again.status)
	}
	slow := api.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":30000}]}}`)
	worker.await(slow, "PROCESSING", 5*time.Second)
	answered := make(chan answer, 1)
	go func() {
		held, _ := try(http.MethodGet, api.base+"/result/poll?jobId="+slow, "", "Prefer", "wait=9")
		answered <- held
	}()
	testkit.Eventually(t, 5*time.Second, "somebody waits", func() (bool, string) {
		n := c.rdb.PubSubNumSub(t.Context(), "{tierq:0}:events").Val()["{tierq:0}:events"]
		return n > 0, ""
	})
	began := time.Now()
	if err := api.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	held := <-answered
	if !strings.Contains(string(held.body), `"PROCESSING"`) || time.Since(began) > 4*time.Second {
		t.Errorf("the draining server answered after %s: %d %s", time.Since(began), held.status, held.body)
	}
}

// event is one message of a stream.
type event struct{ name, id, data string }

// stream reads server-sent events until each returns false.
func stream(t *testing.T, url string, lastID string, each func(event) (more bool)) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := (&http.Client{Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return fmt.Errorf("%d %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	var e event
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data += value
		case "":
			if e.name != "" && !each(e) {
				return nil
			}
			e = event{}
		}
	}
	return lines.Err()
}

// The events of one job, and of all jobs, arrive over two processes without delay. A stream resumes where it was
// cut.
func TestStreams(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	api := c.start("TIERQ_ROLES=api")
	id := api.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":300}]}}`)
	var statuses []string
	var last event
	operators := make(chan string, 100)
	go func() {
		if err := stream(t, api.base+"/api/events", "", func(e event) bool {
			operators <- e.name + " " + e.data
			return !strings.Contains(e.data, "COMPLETED")
		}); err != nil {
			t.Error(err)
		}
	}()
	testkit.Eventually(t, 5*time.Second, "the stream stands", func() (bool, string) {
		return c.rdb.PubSubNumSub(t.Context(), "{tierq:0}:events").Val()["{tierq:0}:events"] > 0, ""
	})
	read := func(from string, each func(event) bool) {
		t.Helper()
		if err := stream(t, api.base+"/api/jobs/"+id+"/events", from, each); err != nil {
			t.Fatal(err)
		}
	}
	read("", func(e event) bool {
		if e.name != "status" {
			return e.name != "bye"
		}
		var p polled
		if err := json.Unmarshal([]byte(e.data), &p); err != nil {
			t.Errorf("%v: %s", err, e.data)
		}
		if statuses, last = append(statuses, p.Status), e; len(statuses) == 1 {
			c.start("TIERQ_WORKERS=1", "TIERQ_ROLES=worker,recovery") // starts only after the stream of the job is open
		}
		return true
	})
	if got := strings.Join(statuses, " "); got != "PENDING PROCESSING COMPLETED" {
		t.Errorf("the job's stream: %s", got)
	}
	read(last.id, func(e event) bool {
		if e.name == "status" {
			t.Errorf("resumed behind %s, it says %s again", last.id, e.data)
		}
		return e.name != "bye"
	})
	seen := ""
	for !strings.Contains(seen, "COMPLETED") {
		select {
		case line := <-operators:
			seen += line + "\n"
		case <-time.After(10 * time.Second):
			t.Fatalf("the operators' stream: %s", seen)
		}
	}
	if !strings.Contains(seen, `"status":"PROCESSING"`) || !strings.Contains(seen, id) {
		t.Errorf("the operators' stream: %s", seen)
	}
}

// A changed plan reaches every process within 2 s.
func TestPlansReload(t *testing.T) {
	t.Attr("proves", "S0-N1")
	t.Parallel()
	c := newCluster(t)
	one, two := c.start("TIERQ_ROLES=api"), c.start("TIERQ_ROLES=api")
	plan := do(t, http.MethodGet, one.base+"/admin/tiers/PUBLIC", "")
	body := `{"priority":3,"maxRetries":7,"heartbeatTimeoutMs":3000,"maxProcessingTimeMs":10000,"share":60,` +
		`"backoff":{"baseMs":0,"factor":1,"capMs":0,"jitter":0},"typeBackoff":{"SEND_EMAIL":{"baseMs":1000,"factor":3,` +
		`"capMs":60000,"jitter":0.1}}}`
	wants(t, do(t, http.MethodPut, one.base+"/admin/tiers/PUBLIC", body, "If-Match", `"99"`),
		http.StatusPreconditionFailed, "PRECONDITION_FAILED")
	changed := do(t, http.MethodPut, one.base+"/admin/tiers/PUBLIC", body, "If-Match", plan.header.Get("ETag"))
	wants(t, changed, http.StatusOK, "")
	began := time.Now()
	testkit.Eventually(t, 2*time.Second, "the other process knows", func() (bool, string) {
		a := do(t, http.MethodPost, two.base+"/public/submit", `{"maxRetries":7}`)
		return a.status == http.StatusAccepted, string(a.body)
	})
	t.Logf("evidence: known after %s", time.Since(began))
	gold := strings.Replace(body, `"priority":3`, `"priority":9`, 1)
	wants(t, do(t, http.MethodPut, two.base+"/admin/tiers/GOLD", gold, "If-None-Match", "*"), http.StatusOK, "")
	testkit.Eventually(t, 2*time.Second, "the new tier is served", func() (bool, string) {
		a := do(t, http.MethodPost, one.base+"/gold/submit", "")
		return a.status == http.StatusAccepted, string(a.body)
	})
}

// The process that ran a job answers its waiting polls from memory. The answer equals that of a poll, before and
// after SQL has the outcome.
func TestLongPoll_SaysWhatAPollSays(t *testing.T) {
	t.Attr("proves", "S16")
	t.Parallel()
	c := newCluster(t)
	one := c.start()
	said := func(a answer) string {
		text, _, found := strings.Cut(string(a.body), `,"timestamp"`)
		if !found || !strings.Contains(text, `"COMPLETED"`) || !strings.Contains(text, `"stepsRun":2`) {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return text
	}
	id := one.submit("unpaid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":700},{"type":"COMPUTE",`+
		`"iterations":3}]}}`)
	held := said(do(t, http.MethodGet, one.base+"/result/poll?jobId="+id+"&wait=8s", ""))
	if polled := said(do(t, http.MethodGet, one.base+"/result/poll?jobId="+id, "")); polled != held {
		t.Errorf("who waited was told\n%s\nand who polls\n%s", held, polled)
	}
	testkit.Eventually(t, 10*time.Second, "SQL has it", func() (bool, string) {
		n := c.rdb.ZCard(t.Context(), "{tierq:0}:outbox").Val()
		return n == 0, fmt.Sprint(n, " in the outbox")
	})
	if polled := said(do(t, http.MethodGet, one.base+"/result/poll?jobId="+id, "")); polled != held {
		t.Errorf("who waited was told\n%s\nand who polls later\n%s", held, polled)
	}
}
